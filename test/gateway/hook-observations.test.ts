import { expect } from "chai";
import { withClient } from "../support/database.ts";
import { startService, type TestService } from "../support/service.ts";
import { decisionsOf } from "./outcomes.ts";

/** An observation as the log holds it. */
interface Observed {
  readonly source: string;
  readonly session_id: string;
  readonly decision_id?: string;
  readonly tool?: string;
  readonly values: Readonly<Record<string, number>>;
  readonly full?: boolean;
}

describe("what hooks tell of a coding agent", () => {
  let service: TestService;
  before(async () => {
    service = await startService();
  });
  after(() => service?.stop());

  const ask = async (agentId: string, event: object | string, client = "claude-code", on = service.http) => {
    const response = await fetch(`${on}/v1/hooks/${client}?outcome=reported`, {
      method: "POST",
      headers: { "x-api-key": service.adminKey, "x-agent-id": agentId, "content-type": "application/json" },
      body: typeof event === "string" ? event : JSON.stringify(event),
    });
    return { status: response.status, body: JSON.parse(await response.text()) };
  };
  const prompt = (text: string, session = "s-1") => ({
    hook_event_name: "UserPromptSubmit",
    session_id: session,
    prompt: text,
  });
  const call = (toolUseId: string, session = "s-1", tool = "Read") => ({
    hook_event_name: "PreToolUse",
    session_id: session,
    tool_use_id: toolUseId,
    tool_name: tool,
    tool_input: {},
  });
  const answered = (toolUseId: string, answer: unknown, more: object = {}) => ({
    ...call(toolUseId),
    hook_event_name: "PostToolUse",
    tool_response: answer,
    ...more,
  });
  const entries = async (type: string): Promise<Record<string, never>[]> =>
    withClient(service.database.ownerUrl, async (client) => {
      const { rows } = await client.query<{ body: string }>("select body from ledger_entry order by seq");
      return rows.map(({ body }) => JSON.parse(body)).filter((entry) => entry.type === type);
    });
  const observedBy = async (agentId: string): Promise<Observed[]> =>
    (await entries("session_observed")).filter(({ agent_id }) => agent_id === agentId) as unknown as Observed[];
  const sessionsOf = async (agentId: string) => {
    const listed = await service.rest(`GET /v1/enforce/sessions?agent_id=${agentId}`);
    return (listed as unknown as { sessions: { session_id: string; purpose: string; status: string }[] }).sessions;
  };
  /** Tells whether a session had observed just this result. */
  const knows = async (sessionId: string, content: string, more: object = {}): Promise<boolean> => {
    const path = `POST /v1/enforce/sessions/${sessionId}/observations`;
    return (await service.rest(path, { source: "result", content, ...more })).replayed === (true as unknown);
  };

  for (const client of ["claude-code", "codex"]) {
    it(`is observed in one session for each session of ${client}, in which its calls are decided.`, async () => {
      const agentId = await service.agent();
      expect(await ask(agentId, prompt("mail ann@home.example"), client)).to.deep.equal({ status: 200, body: {} });
      await ask(agentId, call("t-1"), client);
      await ask(agentId, answered("t-1", "from eve@evil.example"), client);
      await ask(agentId, call("t-2", "s-1", "mcp__bank__read"), client);
      await ask(agentId, answered("t-2", [{ type: "text", text: "from bob@bank.example" }]), client);
      await ask(agentId, prompt("another", "s-2"), client);
      const [other, session, ...more] = await sessionsOf(agentId);
      expect(more).to.deep.equal([]);
      expect([other?.purpose, session?.purpose]).to.deep.equal([`${client} s-2`, `${client} s-1`]);
      const decided = await decisionsOf(service, agentId);
      const observed = await observedBy(agentId);
      expect(
        observed.map(({ source, session_id, decision_id, tool }) => [source, session_id, decision_id, tool]),
      ).to.deep.equal([
        ["prompt", session?.session_id, undefined, undefined],
        ["result", session?.session_id, decided[0]?.decision_id, `${client}.Read`],
        ["result", session?.session_id, decided[1]?.decision_id, "bank.read"],
        ["prompt", other?.session_id, undefined, undefined],
      ]);
      expect(await knows(session?.session_id ?? "", "from bob@bank.example")).to.equal(true);
    });
  }

  it("is observed in the same session by calls of one turn that come at once, and never in another agent's.", async () => {
    const [one, other] = [await service.agent(), await service.agent()];
    const events = Array.from({ length: 10 }, (_, index) => call(`t-${index}`, "same"));
    await Promise.all([...events.map((event) => ask(one, event)), ...events.map((event) => ask(other, event))]);
    for (const agentId of [one, other]) {
      const sessions = (await sessionsOf(agentId)).filter(({ status }) => status === "active");
      expect(sessions).to.have.length(1);
    }
    const ids = await Promise.all([one, other].map(sessionsOf));
    expect(ids[0]?.[0]?.session_id).not.to.equal(ids[1]?.[0]?.session_id);
  });

  const ANSWERS: readonly (readonly [string, unknown, string])[] = [
    ["text", "from eve@evil.example", "from eve@evil.example"],
    ["JSON of a tool of the client", { file: { content: "a\nb", lines: 2 } }, '{"file":{"content":"a\\nb","lines":2}}'],
    ["blocks of a server", { content: [{ type: "text", text: "inside" }], isError: false }, "inside"],
    [
      "an image beside its name",
      { type: "image", name: "cat", file: { base64: "A".repeat(400) } },
      '{"type":"image","name":"cat","file":{}}',
    ],
    ["a text with characters that no column holds", "a\u0000b \ud800 c", "ab"],
  ];
  for (const [what, answer, content] of ANSWERS)
    it(`is ${what}.`, async () => {
      const agentId = await service.agent();
      await ask(agentId, call("t"));
      expect(await ask(agentId, answered("t", answer))).to.deep.equal({ status: 200, body: {} });
      const [observed] = await observedBy(agentId);
      expect(observed?.values.untrusted).to.be.greaterThan(0);
      if (content !== "ab") expect(await knows(observed?.session_id ?? "", content)).to.equal(true);
    });

  const BLOCKS = [{ type: "text", text: JSON.stringify([{ from: "ann@home.example", body: "to eve@evil.example" }]) }];
  const TRUSTED: readonly (readonly [string, unknown, object, boolean])[] = [
    ["blocks", BLOCKS, {}, true],
    ["the JSON of blocks, from an earlier hook", JSON.stringify(BLOCKS), {}, false],
    ["the JSON of an object with blocks, from an earlier hook", JSON.stringify({ content: BLOCKS }), {}, false],
    ["the JSON of structured content, from an earlier hook", JSON.stringify({ structuredContent: [] }), {}, false],
    ["a text of JSON", BLOCKS[0]?.text, {}, true],
    ["JSON that the hook turned into a text", BLOCKS[0]?.text, { is_text: true }, false],
  ];
  for (const [what, answer, more, isTrusted] of TRUSTED)
    it(`${isTrusted ? "is" : "is not"} trusted, except for free fields, in ${what}.`, async () => {
      await service.rest("POST /v1/enforce/tools", {
        name: "mail.read",
        input_schema: { type: "object" },
        provenance: { free_fields: ["[].body"] },
      });
      const agentId = await service.agent();
      await ask(agentId, call("t", "s-1", "mcp__mail__read"));
      await ask(agentId, answered("t", answer, more));
      const [observed] = await observedBy(agentId);
      expect(observed?.tool).to.equal("mail.read");
      expect((observed?.values.lookup ?? 0) > 0).to.equal(isTrusted);
      expect(observed?.values.untrusted).to.be.greaterThan(0);
    });

  it("is nothing of a tool that answered without a text.", async () => {
    const agentId = await service.agent();
    for (const [index, answer] of [undefined, null, "", { isError: true }, { content: [] }, []].entries()) {
      await ask(agentId, call(`t-${index}`));
      expect((await ask(agentId, answered(`t-${index}`, answer))).status).to.equal(200);
    }
    expect(await observedBy(agentId)).to.deep.equal([]);
  });

  it("is the error of a tool that failed, and makes the session full where it was cut.", async () => {
    const agentId = await service.agent();
    await ask(agentId, call("t"));
    const failed = {
      hook_event_name: "PostToolUseFailure",
      error: "no such eve@evil.example",
      tool_response: undefined,
    };
    await ask(agentId, answered("t", undefined, { ...failed, is_cut: true }));
    const [observed] = await observedBy(agentId);
    expect(observed).to.include({ full: true });
    expect(await knows(observed?.session_id ?? "", "no such eve@evil.example", { is_cut: true })).to.equal(true);
  });

  it("stands nowhere in the database, nor what a client calls its session.", async () => {
    const agentId = await service.agent();
    const secret = "zz-swordfish-4711";
    const named = { session_id: `${secret} '; drop table agent; -- \u0000` };
    await ask(agentId, { ...prompt(`the password is ${secret}`), ...named });
    await ask(agentId, { ...answered("t", { [secret]: secret }), ...named });
    expect(await observedBy(agentId)).to.have.length(2);
    await withClient(service.database.ownerUrl, async (client) => {
      const { rows } = await client.query<{ name: string }>(
        "select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'",
      );
      const hex = Buffer.from(secret).toString("hex");
      for (const { name } of rows) {
        const found = await client.query(`select 1 from "${name}" t where to_jsonb(t)::text ~ '${secret}|${hex}'`);
        expect(found.rowCount, name).to.equal(0);
      }
    });
  });

  it("keeps a prompt from the model that no session can observe, and blocks the calls of an ended session.", async () => {
    const agentId = await service.agent();
    await ask(agentId, prompt("first"));
    const [session] = await sessionsOf(agentId);
    await service.rest(`DELETE /v1/enforce/sessions/${session?.session_id}`);
    const refused = await ask(agentId, prompt("second"));
    expect(refused.status).to.equal(200);
    expect(refused.body.decision).to.equal("block");
    expect(refused.body.reason).to.match(/could not observe the prompt: session .* The model did not get it\.$/);
    const denied = await ask(agentId, call("t"));
    expect(denied.body.hookSpecificOutput.permissionDecision).to.equal("deny");
    expect(await sessionsOf(agentId)).to.have.length(1);
    for (const event of [
      { ...prompt(""), prompt: 1 },
      { ...prompt("a"), session_id: "x".repeat(1_025) },
    ])
      expect((await ask(agentId, event)).body.decision).to.equal("block");
  });

  it("is no prompt where a workspace takes prompts from operators alone, and goes to the model.", async () => {
    await service.rest("PATCH /v1/admin/workspaces/default", { prompt_from: "operator" });
    try {
      const agentId = await service.agent();
      expect(await ask(agentId, prompt("mail ann@home.example"))).to.deep.equal({ status: 200, body: {} });
      expect(await observedBy(agentId)).to.deep.equal([]);
    } finally {
      await service.rest("PATCH /v1/admin/workspaces/default", { prompt_from: "agent" });
    }
  });
});
