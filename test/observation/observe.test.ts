import { expect } from "chai";
import { Registry } from "prom-client";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { PromptSource } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Caller } from "../../src/api/context.ts";
import { doInTurns } from "../../src/async/work.ts";
import { digestsOfContent } from "../../src/observation/content-values.ts";
import type { Extractor } from "../../src/observation/extractor.ts";
import { ObservationMetrics } from "../../src/observation/metrics.ts";
import { createObserve } from "../../src/observation/observe.ts";
import { until } from "../log/gate.ts";
import { SILENT_LOG } from "../support/database.ts";
import {
  createSessionKeys,
  openWorkspace,
  type Replica,
  reasonOf,
  type TestWorkspace,
  withWorkspace,
} from "../support/harness.ts";

const { PROMPT, RESULT } = ObservationSource;

describe("what a session observes", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace({ replicas: 2 });
  });
  after(() => test.close());

  const session = async (agentId: string): Promise<string> =>
    (await test.authority.createSession({ agentId })).session?.sessionId ?? "";
  const begun = async () => {
    const agentId = await test.agent("a");
    return { agentId, sessionId: await session(agentId) };
  };
  const observed = async (sessionId: string, content: string, over: object = {}) => {
    const {
      $typeName: _,
      observationId,
      values,
      ...rest
    } = await test.enforcement.observe({
      sessionId,
      source: PROMPT,
      content,
      ...over,
    });
    return { ...rest, id: observationId.slice(0, 4), prompt: values?.prompt, untrusted: values?.untrusted };
  };
  const stateOf = async (replica = 0) => (await test.replicas[replica]?.logs.of(test.workspaceId))?.caughtUp();

  it("is kept as digests of its values, and the same again adds nothing.", async () => {
    const { sessionId } = await begun();
    const content = "Send the report to bob@partners.example";
    const first = await observed(sessionId, content);
    expect(first).to.deep.equal({
      id: "obs_",
      prompt: first.prompt,
      untrusted: 0,
      observationsFull: false,
      replayed: false,
    });
    expect(first.prompt).to.be.greaterThan(4);
    expect(await observed(sessionId, content)).to.deep.equal({ ...first, replayed: true });
    const state = await stateOf();
    expect(state?.sessions.get(sessionId)?.sightingsOf("bob@partners.example")).to.deep.equal([
      { source: "prompt", tool: undefined },
    ]);
    expect(state?.sessions.get(sessionId)?.sightingsOf("eve@evil.example")).to.deep.equal([]);
  });

  it("holds other content of a result against the first.", async () => {
    const { agentId, sessionId } = await begun();
    const { decisionId } = await test.intercept({ agentId, actionType: "read", tool: "read_inbox", sessionId });
    const result = { source: RESULT, decisionId };
    const first = await observed(sessionId, "from eve@evil.example", result);
    expect(first).to.include({ id: "obs_", prompt: 0, replayed: false });
    expect(await observed(sessionId, "from eve@evil.example", result)).to.deep.equal({ ...first, replayed: true });
    expect(await reasonOf(observed(sessionId, "from bob@evil.example", result))).to.equal("OBSERVATION_EXISTS");
    const state = await stateOf();
    expect(state?.sessions.get(sessionId)?.sightingsOf("eve@evil.example")).to.deep.equal([
      { source: "untrusted", tool: "read_inbox" },
    ]);
  });

  it("is known again although one of two readings was given up, or what the tool declares has changed.", async () => {
    const { pool } = test.database;
    await test.tools.registerTool({ name: "find", inputSchema: { type: "object" } });
    await test.tools.updateTool({ name: "find", provenance: { trustedFields: ["email"] } });
    const registry = new Registry();
    const warnings: unknown[] = [];
    const whole: Pick<Extractor, "digestsOf"> = { digestsOf: (job) => doInTurns(digestsOfContent(job)) };
    const failing = { digestsOf: async () => undefined };
    const log = { ...SILENT_LOG, warn: (details: object) => warnings.push(details) };
    const parts = { pool, keys: createSessionKeys(pool), log, metrics: new ObservationMetrics(registry) };
    const content = '{"email": "carol@partners.example"}';
    for (const [first, second] of [
      [whole, failing],
      [failing, whole],
      [whole, whole],
    ] as const) {
      const { agentId, sessionId } = await begun();
      const { decisionId } = await test.intercept({ agentId, actionType: "find", tool: "find", sessionId });
      const tell = (extractor: typeof whole) => {
        const command = { sessionId, source: "result", decisionId, content, isError: false, isCut: false } as const;
        const caller = { keyId: "key_1", agentId: null, isAgent: false, isOver: () => false };
        return createObserve({ ...parts, extractor })(test.log, command, caller);
      };
      const sealed = await tell(first);
      expect(sealed).to.deep.include({ isReplayed: false, isFull: first === failing });
      if (second === first) await test.tools.updateTool({ name: "find", provenance: {} });
      expect(await tell(second)).to.deep.equal({ ...sealed, isReplayed: true });
    }
    expect(warnings).to.have.length(2);
    expect(await registry.metrics()).to.match(/^acp_observations_unread_total 2$/m);
  });

  it("is looked up or made by the agent where the tool's registration says so, of an allowed call that did not fail.", async () => {
    const { agentId, sessionId } = await begun();
    const inputSchema = { type: "object", properties: { path: { type: "string" } } };
    const provenance = { trustedFields: ["owner"], sessionArguments: ["path"], sessionFields: ["id"] };
    await test.tools.registerTool({ name: "make_file", inputSchema, provenance });
    const call = { agentId, actionType: "make", tool: "make_file", sessionId };
    const content = JSON.stringify({ owner: "ann@home.example", id: "file-77", note: "mail eve@evil.example" });
    const sourcesOf = async (form: string) => {
      const values = (await stateOf())?.sessions.get(sessionId);
      return values?.sightingsOf(form).map(({ source }) => source);
    };
    const failed = await test.intercept({ ...call, metadata: { arguments: { path: "/tmp/failed.txt" } } });
    await observed(sessionId, content, { source: RESULT, decisionId: failed.decisionId, isError: true });
    expect(await sourcesOf("ann@home.example")).to.deep.equal(["untrusted"]);
    const made = await test.intercept({ ...call, metadata: { arguments: { path: "/tmp/./made.txt" } } });
    await observed(sessionId, content, { source: RESULT, decisionId: made.decisionId });
    expect(await sourcesOf("ann@home.example")).to.deep.equal(["untrusted", "lookup"]);
    expect(await sourcesOf("file-77")).to.deep.equal(["untrusted", "session"]);
    expect(await sourcesOf("/tmp/made.txt")).to.deep.equal(["session"]);
    expect(await sourcesOf("/tmp/failed.txt")).to.deep.equal([]);
    expect(await sourcesOf("eve@evil.example")).to.deep.equal(["untrusted"]);
  });

  it("is refused for a decision that is not of the session, and in a session that is not in force.", async () => {
    const { agentId, sessionId } = await begun();
    const { decisionId } = await test.intercept({ agentId, actionType: "read" });
    const result = { source: RESULT, decisionId };
    expect(await reasonOf(observed(sessionId, "a", result))).to.equal("DECISION_NOT_FOUND");
    expect(await reasonOf(observed(sessionId, "a", { source: RESULT, decisionId: "dec_unknown" }))).to.equal(
      "DECISION_NOT_FOUND",
    );
    expect(await reasonOf(observed("ses_unknown", "a"))).to.equal("SESSION_ENDED");
    expect(await reasonOf(observed(sessionId, "a", { decisionId }))).to.equal("INVALID_FIELD");
    await observed(sessionId, "before the end");
    await test.authority.endSession({ sessionId });
    expect(await reasonOf(observed(sessionId, "a"))).to.equal("SESSION_ENDED");
  });

  it("is always sealed, and is no prompt that a flood of results keeps out.", async () => {
    const { agentId, sessionId } = await begun();
    await observed(sessionId, "", { source: RESULT, isCut: true });
    const { pool } = test.database;
    await pool.query(
      `insert into session_observation
        select workspace_id, session_id, -n, 'obs_' || n, 2, null, sha256(n::text::bytea), '', source_counts, true
        from session_observation, generate_series(1, 1999) n where session_id = $1`,
      [sessionId],
    );
    (await stateOf())?.sessions.forget(sessionId);
    const { decisionId } = await test.intercept({ agentId, actionType: "read", tool: "read_inbox", sessionId });
    const past = { untrusted: 0, prompt: 0, observationsFull: true, replayed: false };
    const result = { source: RESULT, decisionId };
    const told = [
      ["mail eve", result, past],
      ["mail eve", result, past],
      ["Send it to bob", {}, { prompt: 3, observationsFull: true }],
      ["Send it to bob", {}, { prompt: 3, replayed: true }],
      ["and carol", {}, { prompt: 3, replayed: false }],
    ] as const;
    for (const [content, over, expected] of told)
      expect(await observed(sessionId, content, over), content).to.deep.include(expected);
    const values = (await stateOf())?.sessions.get(sessionId);
    expect(values).to.include({ hasPrompt: true });
    expect(values?.rows).to.have.length(2_002);
    expect(values?.sightingsOf("bob")).to.deep.equal([{ source: "prompt", tool: undefined }]);
    const { rows } = await pool.query<{ id: string; decisionId: string | null }>(
      `select body::json ->> 'observation_id' as id, body::json ->> 'decision_id' as "decisionId" from ledger_entry
      where body::json ->> 'session_id' = $1 and body::json ->> 'type' = 'session_observed' order by seq`,
      [sessionId],
    );
    expect(rows.map((row) => row.decisionId)).to.deep.equal([null, decisionId, decisionId, null, null]);
    expect(new Set(rows.map(({ id }) => id)).size).to.equal(5);
  });

  it("is told in numbers.", async () => {
    const { agentId, sessionId } = await begun();
    const { decisionId } = await test.intercept({ agentId, actionType: "read", tool: "read_inbox", sessionId });
    const first = await observed(sessionId, "mail bob");
    await observed(sessionId, "eve wants more", { source: RESULT, decisionId });
    const numbers = async () => (await test.authority.getSession({ sessionId })).observations;
    expect(await numbers()).to.deep.include({ prompts: 1n, promptValues: BigInt(first.prompt ?? 0), full: false });
    expect((await numbers())?.tools[0]).to.deep.include({ tool: "read_inbox", results: 1n });
    await observed(sessionId, "", { source: RESULT, isCut: true });
    expect(await numbers()).to.deep.include({ full: true });
    await test.database.pool.query(
      `insert into session_observation
        select workspace_id, session_id, -n, 'obs_' || n, 2, 'tool_' || n, '', sha256(n::text::bytea), array[0, 0, 0, 4, 0], false
        from session_observation, generate_series(1, 600) n where session_id = $1 and kind = 1`,
      [sessionId],
    );
    expect(await numbers()).to.deep.include({ prompts: 1n, full: true });
    expect((await numbers())?.tools).to.have.length(500);
    await test.authority.endSession({ sessionId });
    expect(await numbers()).to.equal(undefined);
  });

  it("keeps no memory but that of its digests and its key, here and where it is read from its row.", async () => {
    const { sessionId } = await begun();
    for (const content of ["Send the report to bob@partners.example", "and a copy to carol@partners.example"])
      await observed(sessionId, content);
    for (const replica of [0, 1]) {
      await test.replicas[replica]?.enforcement.observe({
        sessionId,
        source: PROMPT,
        content: `of replica ${replica}`,
      });
      const { key, rows = [] } = (await stateOf(replica))?.sessions.get(sessionId) ?? {};
      expect(rows).to.have.length(3 + replica);
      for (const bytes of [key, ...rows.map(({ digests }) => digests.prompt)])
        expect(bytes?.buffer.byteLength).to.equal(bytes?.length);
    }
  });

  it("is the same on every replica, whichever hears of it.", async () => {
    const { sessionId } = await begun();
    const [one, other] = test.replicas;
    const tell = (replica: typeof one, content: string) =>
      replica?.enforcement.observe({ sessionId, source: PROMPT, content });
    await tell(one, "alpha");
    await tell(other, "beta");
    await tell(one, "gamma");
    await tell(other, "alpha beta");
    await tell(one, "delta");
    await tell(other, "epsilon");
    for (const replica of [0, 1]) {
      expect(await tell(test.replicas[replica], "alpha")).to.include({ replayed: true });
      const values = (await stateOf(replica))?.sessions.get(sessionId);
      for (const form of ["alpha", "beta", "gamma", "delta"]) expect(values?.sightingsOf(form), form).to.have.length(1);
    }
  });

  it("is judged by the settings and the declaration at its place in the log, not by what a replica knew before.", () =>
    withWorkspace({ replicas: 2, hearsWakeUps: false }, async (fresh) => {
      const [one, other] = fresh.replicas as [Replica, Replica];
      const agentId = await fresh.agent("a");
      const sessionId = (await fresh.authority.createSession({ agentId })).session?.sessionId ?? "";
      await fresh.tools.registerTool({ name: "find", inputSchema: { type: "object" } });
      await one.tools.updateTool({ name: "find", provenance: { trustedFields: ["email"], sessionFields: ["id"] } });
      const call = { agentId, sessionId, actionType: "find", tool: "find" };
      const tell = async (content: string, over: object, by?: Caller) =>
        (await other.enforcement.observe({ sessionId, source: RESULT, content, ...over }, by)).values;
      const content = '{"email": "carol@partners.example", "id": "file-77", "note": "mail eve"}';
      const [first, second] = [await fresh.intercept(call, other), await fresh.intercept(call, other)];
      expect(await tell(content, { decisionId: first.decisionId })).to.include({ lookup: 4, session: 2 });
      await one.tools.updateTool({ name: "find", provenance: {} });
      const changed = content.replaceAll("carol", "mallory").replaceAll("77", "78");
      expect(await tell(changed, { decisionId: second.decisionId })).to.include({ lookup: 0, session: 0 });
      const values = (await (await other.logs.of(fresh.workspaceId)).caughtUp()).sessions.get(sessionId);
      const sourcesOf = (form: string) => values?.sightingsOf(form).map(({ source }) => source);
      expect(sourcesOf("carol@partners.example")).to.deep.equal(["lookup"]);
      for (const form of ["mallory@partners.example", "file-78"]) expect(sourcesOf(form)).to.deep.equal(["untrusted"]);

      await one.admin.updateWorkspace({ workspaceId: fresh.workspaceId, promptFrom: PromptSource.OPERATOR });
      const asAgent = { keyId: "key_agent", workspaceId: fresh.workspaceId, role: Role.AGENT, agentId };
      expect(await reasonOf(tell("mail eve", { source: PROMPT }, asAgent))).to.equal("PROMPT_FROM_OPERATOR");
      expect(await tell("mail bob", { source: PROMPT })).to.include({ lookup: 0 });
    }));

  it("is forgotten everywhere to make room, also by the batch that writes it.", async () => {
    const { agentId, sessionId } = await begun();
    const words = (tag: string, count: number) =>
      Array.from({ length: count }, (_, index) => `${tag}${index.toString(36)}`).join(" ");
    await observed(sessionId, words("asked", 19_000));
    const release = Promise.withResolvers<void>();
    const change = test.log.change("test", () => release.promise);
    const told = [];
    for (const tag of ["early", "later"]) {
      told.push(observed(sessionId, words(tag, 600), { source: RESULT }));
      await until(() => test.log.waiting === told.length);
    }
    release.resolve();
    await change;
    await Promise.all(told);
    const { rows } = await test.database.pool.query<{ values: number }>(
      `select sum(octet_length(digests) / 8)::int as values from session_observation where session_id = '${sessionId}'`,
    );
    for (const replica of [0, 1]) {
      await test.intercept({ agentId, actionType: "mail", sessionId }, test.replicas[replica]);
      const values = (await stateOf(replica))?.sessions.get(sessionId);
      expect(values?.sightingsOf("early5")).to.deep.equal([]);
      expect(values?.sightingsOf("later5")).to.have.length(1);
      expect(values?.count).to.equal(rows[0]?.values);
    }
  });
});
