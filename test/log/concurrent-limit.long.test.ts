import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { createTestDatabase } from "../support/database.ts";
import { openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";
import { startRedis } from "../support/redis.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { runLimit } from "./limit-run.ts";
import { decided, interceptOver, type RestDecision, saidOf, startServers } from "./rest.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";

const AGENTS = 20;
const ACTIONS = 200;
const LIMIT = 50;
const INITIAL_TENTHS = 500;

/** The trust in tenths that an agent's decisions lead to, one after the other. */
function trustFrom(decisions: readonly string[]): number {
  const change: Readonly<Record<string, number>> = { allow: 2, block: -20, escalate: -5 };
  return decisions.reduce(
    (trust, decision) => Math.min(1000, Math.max(0, trust + (change[decision] ?? 0))),
    INITIAL_TENTHS,
  );
}

describe("200 actions at once of 20 agents in a department with a limit of 50", () => {
  let workspace: TestWorkspace;
  let agentIds: string[];
  const agentAt = (index: number): string => agentIds[index % AGENTS] as string;

  beforeEach(async () => {
    workspace = await openWorkspace();
    agentIds = [];
    while (agentIds.length < AGENTS) agentIds.push(await workspace.agent());
    await workspace.department(...agentIds);
    await workspace.mandate([velocityRule(LIMIT, { scope: Scope.DEPARTMENT })]);
  });
  afterEach(() => workspace.close());

  async function assertLimitHeld(): Promise<void> {
    const log = await readLog(workspace.url);
    assertIntact(log);
    const decisions = decisionsOf(log);
    const counts = decisions.map(({ authorisation }) => authorisation.collective_limits?.[0]?.count);
    expect(counts).to.deep.equal(Array.from({ length: ACTIONS }, (_, index) => index + 1));
    const want = counts.map((count) => ((count ?? 0) <= LIMIT ? "allow" : "block"));
    expect(decisions.map(({ decision }) => decision)).to.deep.equal(want);
    const state = await workspace.log.caughtUp();
    for (const agentId of agentIds) {
      const own = decisions.filter(({ action }) => action.agent_id === agentId);
      expect(state.agents.get(agentId)?.trustTenths).to.equal(trustFrom(own.map(({ decision }) => decision)));
      own.forEach(({ trust }, index) => {
        expect(trust.before).to.equal(trustFrom(own.slice(0, index).map(({ decision }) => decision)) / 10);
      });
    }
  }

  it("are allowed exactly 50 times by one process.", async () => {
    const calls = Array.from({ length: ACTIONS }, (_, index) =>
      workspace.intercept({ agentId: agentAt(index), actionType: "pay" }),
    );
    await Promise.all(calls);
    await assertLimitHeld();
  });

  describe("served by three processes", () => {
    let servers: TestServer[] = [];
    const serverAt = (index: number): TestServer => servers[index % servers.length] as TestServer;
    beforeEach(async () => {
      servers = await startServers(workspace.url, 3, randomBytes(24).toString("base64url"));
    });
    afterEach(async () => {
      await Promise.all(servers.map((server) => server.stop()));
    });

    it("are allowed exactly 50 times, and one request sent 50 times is decided once.", async () => {
      const calls = Array.from({ length: ACTIONS }, (_, index) =>
        interceptOver(serverAt(index), { agent_id: agentAt(index), action_type: "pay" }),
      );
      const replies = (await Promise.all(calls)).map(decided);
      expect(replies.filter(({ decision }) => decision === "allow")).to.have.length(LIMIT);
      await assertLimitHeld();

      const again = { agent_id: agentAt(0), action_type: "pay", request_id: randomUUID() };
      const retries = Array.from({ length: 50 }, (_, index) => interceptOver(serverAt(index), again));
      const answers = (await Promise.all(retries)).map(decided);
      const [first] = answers as [RestDecision];
      for (const answer of answers) expect(saidOf(answer)).to.deep.equal(saidOf(first));
      expect(answers.filter(({ replayed }) => !replayed)).to.have.length(1);
      const log = await readLog(workspace.url);
      expect(log.entries.filter(({ entryId }) => entryId === first.decision_id)).to.have.length(1);
      expect(decisionsOf(log)).to.have.length(ACTIONS + 1);
      const changed = await interceptOver(serverAt(1), { ...again, action_content: "other" });
      expect(changed).to.deep.equal({ kind: "refused", reason: "REQUEST_ID_REUSED" });
    });
  });
});

/** The short form of `limit-storm.ts`. */
describe("1,000 actions at once under a limit of 100, by number or amount, of the workspace or their principal, with Redis", () => {
  it("are allowed exactly 100 times by one, two and four processes.", async () => {
    const { url: databaseUrl, drop } = await createTestDatabase();
    const redis = await startRedis();
    const env = { ACP_ADMIN_KEY: randomBytes(24).toString("base64url"), REDIS_URL: redis.url };
    const servers = await Promise.all(Array.from({ length: 4 }, () => startServer({ databaseUrl, env })));
    for (const processes of [1, 2, 4]) {
      const serving = servers.slice(0, processes);
      for (const under of ["workspace", "principal"] as const) {
        for (const counts of ["actions", "amounts"] as const) {
          const run = { databaseUrl, servers: serving, agents: 20, actions: 1_000, under, counts, limit: 100 };
          const report = await runLimit({ ...run, name: `run.${counts}.${under}.${processes}` });
          expect(report).to.deep.include({ allowed: 100, faults: [] });
        }
      }
    }
    await Promise.all(servers.map((server) => server.stop()));
    await redis.close();
    await drop();
  });
});
