import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import type { Pool } from "pg";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { comparable } from "../log/comparable.ts";
import { actionRule, type TestWorkspace, velocityRule, withWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { publishRandomly, randomPlan } from "./plans.ts";

/** Every row of every table, as text. */
async function rowsOf(pool: Pool): Promise<Readonly<Record<string, readonly string[]>>> {
  const { rows: tables } = await pool.query<{ name: string }>(
    "select table_name as name from information_schema.tables where table_schema = 'public' order by 1",
  );
  const all: Record<string, readonly string[]> = {};
  for (const { name } of tables) {
    const { rows } = await pool.query<{ text: string }>(`select t::text as text from "${name}" t order by 1`);
    all[name] = rows.map(({ text }) => text);
  }
  return all;
}

/** A workspace with a mandate that has generated tests. */
type TestedWorkspace = TestWorkspace & { readonly tested: string };

describe("a dry run writes nothing", () => {
  const RUNS: Readonly<Record<string, (workspace: TestedWorkspace, agentId: string) => Promise<unknown>>> = {
    "a preflight": ({ dryRuns }, agentId) => dryRuns.preflight({ agentId, steps: randomPlan(seededBelow(5), 50) }),
    "a preflight with drafts at another time": ({ dryRuns }, agentId) =>
      dryRuns.preflight({
        agentId,
        steps: randomPlan(seededBelow(6), 50),
        drafts: [{ name: "draft", rules: [velocityRule(1, { windowSeconds: 86_400n }, Decision.ESCALATE)] }],
        at: timestampFromMs(Date.now() + 3_600_000),
      }),
    "a probe": ({ dryRuns }, agentId) => dryRuns.probe({ agentId, actionType: "asks", metadata: { a: 1 } }),
    "a probe with drafts": ({ dryRuns }, agentId) =>
      dryRuns.probe({
        agentId,
        ...{ actionType: "pay", tool: "pay_invoice", metadata: { arguments: { amount: 900 } } },
        drafts: [{ name: "draft", rules: [actionRule(Decision.BLOCK, "pay")] }],
      }),
    "a list of tests": async ({ dryRuns, tested }) => dryRuns.listTests({ mandateId: tested }),
    "a run of tests": async ({ dryRuns, tested }) => {
      const { passed, failed } = await dryRuns.runTests({ mandateId: tested });
      expect(passed).to.be.above(10);
      expect(failed).to.equal(0);
    },
    "a list of limits": async ({ mandates }, agentId) => {
      await mandates.listLimits({ pageSize: 500 });
      await mandates.listLimits({ pageSize: 500, agentId });
    },
    questions: async ({ dryRuns }, agentId) => {
      for (const question of [
        `may ${agentId} do asks`,
        `may ${agentId} do pay using pay_invoice with {"amount": 900}`,
        `what limits apply to ${agentId}`,
        "who may do pay using pay_invoice",
        "which rules never fire",
        "which rules are shadowed",
      ])
        await dryRuns.ask({ question });
    },
  };
  for (const [name, run] of Object.entries(RUNS)) {
    it(`: ${name}.`, () =>
      withWorkspace({}, async (workspace) => {
        const { database, log, logs } = workspace;
        const agentId = await workspace.agent();
        await publishRandomly(workspace, seededBelow(3));
        const tested = await workspace.mandate([actionRule(Decision.ESCALATE, "asks"), velocityRule(200)]);
        await workspace.dryRuns.generateTests({ mandateId: tested });
        for (const step of randomPlan(seededBelow(4), 10)) await workspace.intercept({ agentId, ...step });
        await workspace.intercept({ agentId, actionType: "asks" });
        await log.saveTrust();
        const heard: unknown[] = [];
        log.subscribe((events) => heard.push(...events));
        const nowMs = logs.clock.now();
        const before = [await rowsOf(database.pool), await comparable(database.pool, await log.caughtUp(), nowMs)];
        await run({ ...workspace, tested }, agentId);
        await log.saveTrust();
        const after = [await rowsOf(database.pool), await comparable(database.pool, await log.caughtUp(), nowMs)];
        expect(after).to.deep.equal(before);
        expect(heard).to.deep.equal([]);
      }));
  }
});
