import { expect } from "chai";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type DecisionFilter, listDecisionReceipts } from "../../src/registry/decisions.ts";
import type { SealedDecision } from "../../src/state/types.ts";
import { attempt, openWorkspace, type TestWorkspace } from "../support/harness.ts";

describe("listDecisionReceipts", () => {
  let test: TestWorkspace;
  const agentIds: string[] = [];
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
      made.push(await attempt(test.log, { agentId, actionType: index % 3 === 0 ? "drop" : "read" }));
      // A change between decisions: lists of decisions must not show it.
      if (index % 10 === 0) await agents.registerAgent({ name: `late ${index}` });
    }
  });
  after(() => test.close());

  /** What a naive reading of the filter gives, newest first. */
  function expected({ agentId, decision, sinceMs, untilMs }: DecisionFilter): number[] {
    return made
      .filter((each) => agentId === undefined || each.agentId === agentId)
      .filter((each) => decision === undefined || each.decision === decision)
      .filter((each) => each.atMs >= (sinceMs ?? 0) && each.atMs < (untilMs ?? Number.POSITIVE_INFINITY))
      .map(({ seq }) => seq)
      .reverse();
  }

  async function listed(filter: DecisionFilter, size: number): Promise<number[]> {
    const seen: number[] = [];
    let after: number | undefined;
    do {
      const page = await listDecisionReceipts(test.database.pool, "default", filter, { size, after });
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

  it("gives nothing outside the span of the log and for what does not exist.", async () => {
    const end = made.at(-1)?.atMs ?? 0;
    expect(await listed({ sinceMs: end + 1 }, 10)).to.deep.equal([]);
    expect(await listed({ untilMs: 0 }, 10)).to.deep.equal([]);
    expect(await listed({ agentId: "agt_no" }, 10)).to.deep.equal([]);
    const { items, next } = await listDecisionReceipts(test.database.pool, "nowhere", { sinceMs: 1 }, { size: 10 });
    expect([items, next]).to.deep.equal([[], undefined]);
  });
});
