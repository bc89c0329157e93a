import { fromJson, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import type { Pool } from "pg";
import { Registry } from "prom-client";
import type { AskRequestSchema } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { createRedisParts, type RedisParts } from "../../src/mirror/redis.ts";
import { comparable } from "../log/comparable.ts";
import { SILENT_LOG } from "../support/database.ts";
import { actionRule, failureOf, type Replica, reasonOf, until, velocityRule } from "../support/harness.ts";
import { sessionUrlOf } from "../support/pooler.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { type DeliveryTest, firstOf, openDelivery } from "../webhook/harness.ts";
import { publishRandomly, randomPlan } from "./plans.ts";
import { backtest, draftOf } from "./run-backtest.ts";
import { replaySummary } from "./run-replay.ts";

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

/** Every key of Redis with its value, byte for byte. */
async function keysOf({ client }: TestRedis): Promise<Readonly<Record<string, string | undefined>>> {
  const keys = (await client.keys("*")).sort();
  const values = await Promise.all(keys.map((key) => client.dumpBuffer(key)));
  return Object.fromEntries(keys.map((key, index) => [key, values[index]?.toString("hex")]));
}

const withReadOnly = (url: string): string => {
  // PgBouncer passes no options on.
  const copy = new URL(sessionUrlOf(url));
  copy.searchParams.set("options", "-c default_transaction_read_only=on");
  return copy.href;
};

/** Ids that the dry runs are about. */
interface Subjects {
  readonly agentId: string;
  readonly decisionId: string;
  /** A mandate of two versions, which has generated tests. */
  readonly mandateId: string;
}

const DRAFT = { name: "draft", rules: [velocityRule(1, { windowSeconds: 86_400n }, Decision.ESCALATE)] };
const BLOCKING = { name: "draft", rules: [actionRule(Decision.BLOCK, "pay", "look")] };

/** Every kind of dry run. */
const RUNS: Readonly<Record<string, (on: Replica, subjects: Subjects) => Promise<unknown>>> = {
  "a preflight": ({ dryRuns }, { agentId }) => dryRuns.preflight({ agentId, steps: randomPlan(seededBelow(5), 50) }),
  "a preflight with drafts at another time": ({ dryRuns, clock }, { agentId }) =>
    dryRuns.preflight({
      agentId,
      steps: randomPlan(seededBelow(6), 50),
      drafts: [DRAFT],
      at: timestampFromMs(clock.now() + 3_600_000),
    }),
  "a probe": ({ dryRuns }, { agentId }) => dryRuns.probe({ agentId, actionType: "asks", metadata: { a: 1 } }),
  "a probe with drafts": ({ dryRuns }, { agentId }) =>
    dryRuns.probe({
      agentId,
      actionType: "pay",
      tool: "pay_invoice",
      metadata: { arguments: { amount: 900 } },
      drafts: [BLOCKING],
    }),
  "a backtest": async (on) => {
    const { report } = await backtest(on);
    expect(report.replayed).to.be.above(10);
  },
  "a backtest with drafts and archives": async (on, { mandateId }) => {
    const { report } = await backtest(on, {
      drafts: [draftOf("draft", BLOCKING.rules)],
      archives: [mandateId],
    });
    expect(report.stricter).to.be.above(0);
  },
  "a replay of episodes with drafts": async (on, { agentId }) => {
    const steps = Array.from({ length: 20 }, (_, index) => ({
      tool: "pay_invoice",
      arguments: { amount: index * 60 },
    }));
    const { calls, decisions } = await replaySummary(on, agentId, steps, [draftOf("draft", BLOCKING.rules)]);
    expect(calls).to.equal(20);
    expect(decisions.allow).to.be.below(20);
  },
  "a list of tests": async ({ dryRuns }, { mandateId }) => {
    expect((await dryRuns.listTests({ mandateId })).tests).not.to.deep.equal([]);
  },
  "a run of tests": async ({ dryRuns }, { mandateId }) => {
    const { passed, failed } = await dryRuns.runTests({ mandateId });
    expect(passed).to.be.above(10);
    expect(failed).to.equal(0);
  },
  "a list of limits": async ({ mandates }, { agentId }) => {
    await mandates.listLimits({ pageSize: 500 });
    await mandates.listLimits({ pageSize: 500, agentId });
  },
  "a question of each form": async ({ dryRuns }, { agentId, decisionId, mandateId }) => {
    const questions: readonly MessageInitShape<typeof AskRequestSchema>[] = [
      { form: { case: "may", value: { agent: agentId, actionType: "asks" } } },
      { form: { case: "may", value: { agent: agentId, tool: "pay_invoice", arguments: { amount: 900 } } } },
      { form: { case: "whoMay", value: { actionType: "pay", tool: "pay_invoice" } } },
      { form: { case: "limits", value: { agent: agentId } } },
      { form: { case: "why", value: { decisionId } } },
      { form: { case: "changed", value: { mandate: mandateId, fromVersion: 1, toVersion: 2 } } },
      { form: { case: "neverFire", value: {} } },
      { form: { case: "shadowed", value: {} } },
    ];
    const forms = new Set<number>();
    for (const question of questions) forms.add((await dryRuns.ask(question)).answer?.form ?? 0);
    expect([...forms].sort()).to.deep.equal([1, 2, 3, 4, 5, 6, 7]);
  },
  "a question as text that nobody reads": async ({ dryRuns }) => {
    expect(await reasonOf(dryRuns.ask({ question: "what is the weather" }))).to.equal("QUESTION_NEEDS_MODEL");
  },
  "a trial of a pack": async ({ mandates }) => {
    const { created } = await mandates.applyPack({ name: "team", mandates: [BLOCKING], dryRun: true });
    expect(created.map(({ name }) => name)).to.deep.equal(["draft"]);
  },
  "a trial of a pasted tool": async ({ tools }) => {
    const definition = fromJson(ValueSchema, { name: "new_tool", inputSchema: { type: "object" } });
    expect((await tools.pasteTool({ definition, dryRun: true })).tools).to.have.length(1);
  },
  "a compilation": async ({ mandates }) => {
    expect((await mandates.compileMandate(BLOCKING)).valid).to.equal(true);
  },
};

describe("a dry run writes nothing", () => {
  let redis: TestRedis;
  let parts: RedisParts;
  let test: DeliveryTest;
  /** Logs in to a database that refuses its writes. */
  let reader: Replica;
  let subjects: Subjects;
  before(async () => {
    redis = await startRedis();
    test = await openDelivery();
    await test.register();
    const { database, agentId, agents, dryRuns, mandates } = test;
    parts = await createRedisParts(redis.url, { pool: database.pool, log: SILENT_LOG, metrics: new Registry() });
    const { surroundings } = parts;
    const mirrored = await test.replica({ surroundings });
    await publishRandomly(test, seededBelow(7));
    const rules = [actionRule(Decision.ESCALATE, "asks"), velocityRule(200)];
    const mandateId = await test.mandate(rules, { name: "tested" });
    await mandates.updateMandate({ mandateId, name: "tested", rules: [...rules, actionRule(Decision.BLOCK, "never")] });
    await dryRuns.generateTests({ mandateId });
    for (const step of randomPlan(seededBelow(4), 20)) await test.intercept({ agentId, ...step }, mirrored);
    await agents.registerAgent({ name: "idle" });
    const { decisionId } = await test.intercept({ agentId, actionType: "asks" }, mirrored);
    subjects = { agentId, decisionId, mandateId };
    reader = await test.replica({ surroundings, url: withReadOnly(test.url) });
    for (const { log } of [test, mirrored]) await log.saveTrust();
    await until(async () => {
      const [hash = ""] = await redis.client.keys("acp:*}");
      return Number(await redis.client.hget(hash, "@seq")) === (await mirrored.log.caughtUp()).seq;
    });
  });
  after(async () => {
    await test.close();
    await parts.close();
    await redis.close();
  });

  /** The log and all tables, the mirror, and the counters, trust and escalations in memory. */
  async function everything(nowMs: number) {
    const { pool } = test.database;
    const state = await reader.log.caughtUp();
    // What the next trust snapshot would save.
    const unsaved = [[...state.trustChangedAt], [...state.usesChangedAt]];
    return [await rowsOf(pool), await keysOf(redis), unsaved, await comparable(pool, state, nowMs)];
  }

  for (const [name, run] of Object.entries(RUNS)) {
    it(`: ${name}.`, async () => {
      const heard: unknown[] = [];
      const stop = reader.log.subscribe((events) => heard.push(...events));
      const nowMs = reader.logs.clock.now();
      const before = await everything(nowMs);
      await run(reader, subjects);
      expect(await everything(nowMs)).to.deep.equal(before);
      expect(heard).to.deep.equal([]);
      stop();
    });
  }

  it("and goes without a login that may write, which storing tests does not.", async () => {
    const { cause } = await failureOf(reader.dryRuns.generateTests(subjects));
    expect(String(cause)).to.contain("read-only transaction");
  });

  it("and webhooks tell of what happened alone.", async () => {
    const { seq } = await test.log.caughtUp();
    test.start();
    const after = await test.block();
    await test.receiver.waitUntil(() => test.receiver.seqs.includes(after.seq));
    expect(after.seq).to.equal(seq);
    const told = firstOf(test.receiver.seqs);
    expect(told.length).to.be.above(1);
    expect(told.every((each) => each <= seq)).to.equal(true);
  });
});
