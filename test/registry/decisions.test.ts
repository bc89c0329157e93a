import { expect } from "chai";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type DecisionFilter, listDecisionReceipts } from "../../src/registry/decisions.ts";
import type { SealedDecision } from "../../src/state/types.ts";
import { attempt, openWorkspace, type TestWorkspace } from "../support/harness.ts";

describe("listDecisionReceipts", () => {
  let test: TestWorkspace;
  const agentIds: string[] = [];
  const tools: (string | undefined)[] = [];
  /** Oldest first. */
  const made: SealedDecision[] = [];
  before(async () => {
    test = await openWorkspace();
    const { agents, mandates } = test;
    for (const name of ["a", "b"]) agentIds.push((await agents.registerAgent({ name })).agent?.agentId ?? "");
    const conditions = { matchActionTypes: ["drop"] };
    await mandates.createMandate({
      name: "m",
      rules: [{ type: RuleType.ACTION, decision: Decision.BLOCK, conditions }],
    });
    for (let index = 0; index < 30; index++) {
      const agentId = agentIds[index % 2] as string;
      const tool = index % 5 === 0 ? { tool: index % 2 === 0 ? "Mail" : 'say "hi"' } : {};
      made.push(await attempt(test.log, { agentId, actionType: index % 3 === 0 ? "drop" : "Read.it", ...tool }));
      tools.push(tool.tool);
      // A change between decisions: lists of decisions must not show it.
      if (index % 10 === 0) await agents.registerAgent({ name: `late ${index}` });
    }
  });
  after(() => test.close());

  /** What a naive reading of the filter gives, newest first. */
  function expected({ agentId, decision, sinceMs, untilMs, ...narrow }: DecisionFilter): number[] {
    return made
      .filter((_, index) => narrow.tool === undefined || tools[index] === narrow.tool)
      .filter(({ actionType }) => [undefined, actionType.toLowerCase()].includes(narrow.actionType?.toLowerCase()))
      .filter(({ actionType }) => actionType.toLowerCase().startsWith(narrow.actionTypePrefix?.toLowerCase() ?? ""))
      .filter((each) => agentId === undefined || each.agentId === agentId)
      .filter((each) => decision === undefined || each.decision === decision)
      .filter((each) => each.atMs >= (sinceMs ?? 0) && each.atMs < (untilMs ?? Number.POSITIVE_INFINITY))
      .map(({ seq }) => seq)
      .reverse();
  }

  async function listed(filter: DecisionFilter, size: number, maxLookedAt?: number): Promise<number[]> {
    const seen: number[] = [];
    let after: number | undefined;
    do {
      const page = await listDecisionReceipts(test.database.pool, "default", filter, { size, after }, maxLookedAt);
      expect(page.items.length).to.be.at.most(size);
      seen.push(...page.items.map(({ body }) => body.seq));
      after = page.next;
    } while (after !== undefined);
    return seen;
  }

  it("gives what fits each filter, newest first, whatever the size of the page.", async () => {
    const times = [undefined, made[0]?.atMs, made[10]?.atMs, (made[20]?.atMs ?? 0) + 0.5, made[29]?.atMs];
    for (const agentId of [undefined, ...agentIds]) {
      for (const decision of [undefined, "allow", "block", "escalate"] as const) {
        for (const sinceMs of times) {
          for (const untilMs of times) {
            const filter = { agentId, decision, sinceMs, untilMs };
            for (const size of [4, 100]) expect(await listed(filter, size)).to.deep.equal(expected(filter));
          }
        }
      }
    }
  });

  it("finds the tool of entries of an earlier version that hold U+0000, and of all others.", async () => {
    const other = await openWorkspace();
    try {
      const agentId = await other.agent();
      const action = { agentId, actionType: "send", tool: "Mail" };
      const odd = { actionContent: "\u0000", metadata: { "a\u0000": "\\u0000", mail: '"tool":"Mail"' } };
      const sent = [await attempt(other.log, { ...action, ...odd }), await attempt(other.log, action)];
      await attempt(other.log, { agentId, actionType: "send", ...odd });
      const list = (filter: DecisionFilter) =>
        listDecisionReceipts(other.database.pool, "default", filter, { size: 9, after: undefined });
      for (const narrow of [{}, { agentId }]) {
        const { items } = await list({ tool: "Mail", ...narrow });
        expect(items.map(({ body }) => body.seq)).to.deep.equal(sent.map(({ seq }) => seq).reverse());
      }
    } finally {
      await other.close();
    }
  });

  it("gives what fits an action type, its beginning and a tool, however few entries are looked at for a page.", async () => {
    const narrow = [
      { actionType: "READ.IT" },
      { actionType: "rea" },
      { actionTypePrefix: "Re" },
      { actionTypePrefix: "%" },
      { tool: "Mail" },
      { tool: "mail" },
      { tool: 'say "hi"' },
      { tool: "say" },
      { tool: "Mail", actionType: "drop", decision: "block" as const },
    ];
    for (const each of narrow) {
      for (const agentId of [undefined, ...agentIds]) {
        for (const sinceMs of [undefined, made[10]?.atMs]) {
          const filter = { ...each, agentId, sinceMs };
          for (const looked of [1, 4, 1_000]) {
            for (const size of [1, 100]) expect(await listed(filter, size, looked)).to.deep.equal(expected(filter));
          }
        }
      }
    }
    const looked = await listDecisionReceipts(test.database.pool, "default", { tool: "none" }, { size: 5 }, 10);
    expect(looked.items).to.deep.equal([]);
    expect(looked.next).to.be.a("number");
  });

  it("gives nothing outside the span of the log and for what does not exist.", async () => {
    const end = made.at(-1)?.atMs ?? 0;
    expect(await listed({ sinceMs: end + 1 }, 10)).to.deep.equal([]);
    expect(await listed({ untilMs: 0 }, 10)).to.deep.equal([]);
    expect(await listed({ agentId: "agt_no" }, 10)).to.deep.equal([]);
    const { items, next } = await listDecisionReceipts(test.database.pool, "nowhere", { sinceMs: 1 }, { size: 10 });
    expect([items, next]).to.deep.equal([[], undefined]);
  });
});
