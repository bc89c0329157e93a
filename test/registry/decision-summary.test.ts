import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import fc from "fast-check";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { MandateMode, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { countDecisionsOfAgent, countRefusals } from "../../src/store/sql/summarize-decisions.ts";
import { withClient } from "../support/database.ts";
import { attempt, failureOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

const rule = (decision: Decision, type: string) => ({
  type: RuleType.ACTION,
  decision,
  conditions: { matchActionTypes: [type] },
});

interface Sealed {
  readonly atMs: number;
  readonly agentId: string;
  readonly decision: "allow" | "block" | "escalate";
}

describe("a summary of decisions", () => {
  let test: TestWorkspace;
  let agentIds: string[];
  /** Every decision that counts, oldest first. */
  const made: Sealed[] = [];
  before(async () => {
    test = await openWorkspace();
    agentIds = await test.newAgents(2);
    await test.mandate([rule(Decision.BLOCK, "drop"), rule(Decision.ESCALATE, "ask")], { name: "house rules" });
    await test.mandate([rule(Decision.ALLOW, "read")], { name: "reading" });
    await test.mandate([rule(Decision.BLOCK, "re*"), rule(Decision.ESCALATE, "dr*")], {
      name: "watcher",
      mode: MandateMode.OBSERVE,
    });
    for (let index = 0; index < 60; index++) {
      const agentId = agentIds[index % 2] as string;
      const actionType = ["read", "drop", "ask", "read", "read"][index % 5] as string;
      const { atMs, decision } = await attempt(test.log, { agentId, actionType, actionContent: '"observed":[' });
      made.push({ atMs, agentId, decision });
      // Changes, and refusals that do not count.
      if (index % 10 === 0) await refuseEndedKey();
      if (index % 3 === 0) test.clock.advance(index * 1_000);
    }
  });
  after(() => test.close());

  async function refuseEndedKey(): Promise<void> {
    const agentId = await test.agent("leaver");
    const { secret } = await test.admin.createApiKey({ name: "its own", role: Role.AGENT, agentId });
    await test.revoke(agentId);
    const { decision } = await test.enforcement.intercept({ agentId, actionType: "read" }, secret);
    expect(decision).to.equal(Decision.BLOCK);
    const { decisions } = await test.enforcement.listDecisions({ agentId });
    expect(decisions).to.have.length(1);
  }

  const count = (all: readonly Sealed[]) => ({
    allow: BigInt(all.filter(({ decision }) => decision === "allow").length),
    block: BigInt(all.filter(({ decision }) => decision === "block").length),
    escalate: BigInt(all.filter(({ decision }) => decision === "escalate").length),
  });

  it("counts as a naive count does, for any window, length of buckets and agent.", async () => {
    const [first = 0, last = 0] = [made[0]?.atMs, made.at(-1)?.atMs];
    const time = fc.oneof(
      fc.integer({ min: first - 100_000, max: last + 100_000 }),
      fc.constantFrom(...made.map((each) => each.atMs)),
    );
    await fc.assert(
      fc.asyncProperty(time, time, fc.nat(500), fc.nat(2), async (one, other, bucketSeconds, agent) => {
        const [sinceMs, untilMs] = [Math.min(one, other), Math.max(one, other) + 1];
        const agentId = agentIds[agent] ?? "";
        const least = Math.ceil((untilMs - sinceMs) / 500_000);
        const summary = await test.enforcement.summarizeDecisions({
          since: timestampFromMs(sinceMs),
          until: timestampFromMs(untilMs),
          agentId,
          bucketSeconds: bucketSeconds === 0 ? 0 : Math.max(bucketSeconds, least),
        });
        const inside = made
          .filter(({ atMs }) => atMs >= sinceMs && atMs < untilMs)
          .filter((each) => agentId === "" || each.agentId === agentId);
        expect(summary.totals).to.deep.include(count(inside));
        expect(summary.reasonsFrom).to.equal(BigInt(inside.length));
        const bucketMs = summary.bucketSeconds * 1000;
        expect(summary.buckets).to.have.length(Math.ceil((untilMs - sinceMs) / bucketMs));
        for (const [index, { at, ...counts }] of summary.buckets.entries()) {
          const startMs = sinceMs + index * bucketMs;
          expect(at && timestampMs(at)).to.equal(startMs);
          const within = inside.filter(({ atMs }) => atMs >= startMs && atMs < startMs + bucketMs);
          expect(counts).to.deep.include(count(within));
        }
      }),
      { numRuns: 150 },
    );
  });

  it("takes the last day in 48 buckets, to the decision made just now.", async () => {
    await attempt(test.log, { agentId: agentIds[0] as string, actionType: "read" }).then(
      ({ atMs, agentId, decision }) => made.push({ atMs, agentId, decision }),
    );
    const { buckets, totals, since, until, bucketSeconds } = await test.enforcement.summarizeDecisions({});
    expect([buckets.length, bucketSeconds]).to.deep.equal([48, 1_800]);
    expect(until && since && timestampMs(until) - timestampMs(since)).to.equal(86_400_000);
    expect(totals).to.deep.include(count(made));
  });

  it("gives the reasons by how often they were given, and what observing mandates would have decided.", async () => {
    const { topReasons, observed, totals } = await test.enforcement.summarizeDecisions({});
    expect(
      topReasons.map(({ code, rule, mandateName, count: times }) => [code, mandateName, rule, times]),
    ).to.deep.equal([
      ["ACTION_MATCHED", "house rules", "rules[0]", totals?.block],
      ["ACTION_MATCHED", "house rules", "rules[1]", totals?.escalate],
    ]);
    expect(observed).to.have.length(1);
    expect(observed[0]).to.include({ mandateName: "watcher", version: 1 });
    expect(observed[0]).to.include({ wouldBlock: totals?.allow, wouldEscalate: totals?.block });
  });

  it("says how often each enforcing mandate fired, and with which decision.", async () => {
    const { firings, totals } = await test.enforcement.summarizeDecisions({});
    const { mandates } = await test.mandates.listMandates({});
    const names = new Map(mandates.map(({ mandateId, name }) => [mandateId, name]));
    const counted = firings.map(({ mandateId, ...each }) => [
      names.get(mandateId),
      each.allow,
      each.block,
      each.escalate,
    ]);
    expect(counted).to.deep.equal([
      ["reading", totals?.allow, 0n, 0n],
      ["house rules", 0n, totals?.block, totals?.escalate],
    ]);
    const one = await test.enforcement.summarizeDecisions({ agentId: agentIds[0] as string });
    expect(one.firings.map(({ allow, block }) => allow + block)).to.deep.equal([one.totals?.allow, one.totals?.block]);
  });

  it("counts the same without reading the decisions.", async () => {
    for (const request of [{}, { agentId: agentIds[0] as string }]) {
      const until = timestampFromMs(test.clock.now() + 1);
      const { buckets, totals } = await test.enforcement.summarizeDecisions({ ...request, until });
      const counted = await test.enforcement.summarizeDecisions({ ...request, until, countsOnly: true });
      expect(counted).to.deep.include({ buckets, totals, topReasons: [], observed: [], firings: [], reasonsFrom: 0n });
    }
  });

  it("counts decisions by default under the reason DEFAULT.", async () => {
    const other = await openWorkspace();
    try {
      const agentId = await other.agent();
      await other.admin.updateWorkspace({ workspaceId: "default", defaultDecision: Decision.BLOCK });
      await attempt(other.log, { agentId, actionType: "read" });
      const { topReasons, observed } = await other.enforcement.summarizeDecisions({});
      expect(topReasons.map(({ code, mandateId, count: times }) => [code, mandateId, times])).to.deep.equal([
        ["DEFAULT", undefined, 1n],
      ]);
      expect(observed).to.deep.equal([]);
    } finally {
      await other.close();
    }
  });

  it("counts the entries of an earlier version that hold U+0000, and all others with them.", async () => {
    const other = await openWorkspace();
    try {
      const agentId = await other.agent();
      await other.mandate([rule(Decision.BLOCK, "drop")], { name: "house rules" });
      await other.mandate([rule(Decision.BLOCK, "re*")], { name: "watcher", mode: MandateMode.OBSERVE });
      const metadata = { "a\u0000": "\\u0000", list: ["\u0000"] };
      for (const actionType of ["drop", "read"]) {
        await attempt(other.log, { agentId, actionType, actionContent: "\u0000", metadata });
        await attempt(other.log, { agentId, actionType });
      }
      for (const asked of [{}, { agentId }]) {
        const { topReasons, observed } = await other.enforcement.summarizeDecisions(asked);
        expect(topReasons.map(({ code, mandateName, count: times }) => [code, mandateName, times])).to.deep.equal([
          ["ACTION_MATCHED", "house rules", 2n],
        ]);
        expect(observed.map(({ mandateName, wouldBlock }) => [mandateName, wouldBlock])).to.deep.equal([
          ["watcher", 2n],
        ]);
      }
    } finally {
      await other.close();
    }
  });

  it("refuses windows that end before they begin, that are too long, and too many buckets, naming the field.", async () => {
    const ask = async (request: object) =>
      (await failureOf(test.enforcement.summarizeDecisions(request))).violations.map(({ field }) => field);
    const at = (ms: number) => timestampFromMs(Date.now() + ms);
    expect(await ask({ since: at(-10), until: at(-10) })).to.deep.equal(["until"]);
    expect(await ask({ since: at(1e12) })).to.deep.equal(["since"]);
    expect(await ask({ since: at(-367 * 86_400_000) })).to.deep.equal(["since"]);
    expect(await ask({ bucketSeconds: 172 })).to.deep.equal(["bucket_seconds"]);
    expect(await ask({ bucketSeconds: -1 })).to.deep.equal(["bucket_seconds"]);
    expect((await test.enforcement.summarizeDecisions({ bucketSeconds: 173 })).buckets).to.have.length(500);
    expect(await reasonOf(test.enforcement.summarizeDecisions({ agentId: "agt_no" }))).to.equal("AGENT_NOT_FOUND");
  });

  it("counts from the indexes, without reading the decisions.", async () => {
    const plans = await withClient(test.ownerUrl, async (client) => {
      await client.query(`insert into ledger_entry
          (workspace_id, seq, at_ms, kind, entry_id, agent_id, decision, leaf_hash, body)
        select 'default', 1000000 + n, 0, 0, 'dec_' || n, 'agt_' || n % 100, case when n % 20 = 0 then 2 else 1 end, '', repeat('x', 500)
        from generate_series(1, 20000) n`);
      await client.query("vacuum analyze ledger_entry");
      const bounds = ["default", 1_000_000, 1_020_001, [1_000_000, 1_005_000]];
      const explain = async ({ text }: { text: string }, ...more: string[]) => {
        const { rows } = await client.query({ text: `explain (analyze) ${text}`, values: [...bounds, ...more] });
        return rows.map((row) => row["QUERY PLAN"]).join("\n");
      };
      return [await explain(countRefusals), await explain(countDecisionsOfAgent, "agt_7")];
    });
    expect(plans[0]).to.match(/Index Only Scan using ledger_entry_event/);
    expect(plans[1]).to.match(/Index Only Scan using ledger_entry_agent/);
  });
});
