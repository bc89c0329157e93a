import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { until } from "../log/gate.ts";
import { replayNaively } from "../log/naive-log.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { attempt, openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { type MirroredReplica, openMirrored } from "./mirrored-replica.ts";

const AGENTS = 4;

describe("windows with Redis beside the log", () => {
  let redis: TestRedis;
  let test: TestWorkspace;
  let agentIds: string[];
  let replicas: MirroredReplica[];
  const open = async (): Promise<MirroredReplica> => {
    const replica = await openMirrored(test.url, redis.url, test.clock);
    replicas.push(replica);
    return replica;
  };
  /** Has the agents act in turn; the third always acts on behalf of the first. */
  const act = async (replica: MirroredReplica, count = 1) => {
    const [principal = "", , delegate] = agentIds;
    const calls = Array.from({ length: count }, (_, index) => {
      const agentId = agentIds[index % AGENTS] as string;
      const under = agentId === delegate ? { onBehalfOf: principal } : {};
      return attempt(replica.log, { agentId, actionType: "pay", ...under });
    });
    return Promise.all(calls);
  };
  /** Acts once and gives the limit of the workspace as that action saw it. */
  const limitSeen = async (replica: MirroredReplica) => {
    const [sealed] = await act(replica);
    const { body } = await test.receipt(sealed?.decisionId ?? "");
    return body.authorisation.collective_limits.find(({ scope }) => scope === "workspace");
  };
  /**
   * Has fresh replicas act until one had its window from the mirror, which a machine that is busy elsewhere may be too late
   * for; the count is exact for each. Gives the next count.
   */
  const countFromMirror = async (expected: number): Promise<number> => {
    for (let count = expected; ; count++) {
      const limit = await limitSeen(await open());
      expect(limit).to.include({ count });
      if (limit?.source === "mirror") return count + 1;
      expect(count - expected, "replicas that were too late").to.be.below(3);
    }
  };
  const recorded = async (): Promise<number> => {
    const [hash] = await redis.client.keys("acp:*}");
    return Number(hash === undefined ? 0 : await redis.client.hget(hash, "@seq"));
  };
  const isUp = async (replica: MirroredReplica): Promise<boolean> =>
    (await replica.metric("acp_redis_up", { use: "mirror" })) === 1;
  const mirrored = () => until(async () => (await recorded()) === (await test.log.caughtUp()).seq);
  const assertLinear = async (): Promise<void> => {
    const log = await readLog(test.url);
    assertIntact(log);
    for (const { want, got } of replayNaively(log.entries.map(({ body }) => body))) {
      // The naive model knows no mirror; everything else that a limit shows is the same.
      const limits = got.limits.map((limit) => ({ ...limit, source: "decision_log" }));
      expect({ ...got, limits }).to.deep.equal(want);
    }
  };

  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.close());
  beforeEach(async () => {
    await redis.client.flushall();
    replicas = [];
    test = await openWorkspace();
    agentIds = [];
    while (agentIds.length < AGENTS) agentIds.push(await test.agent());
    await test.department(...agentIds.slice(0, 2));
    const [grantorAgentId = "", , granteeAgentId = ""] = agentIds;
    await test.authority.createGrant({ grantorAgentId, granteeAgentId, actionTypes: ["pay"] });
    await test.mandate([
      velocityRule(5_000, { scope: Scope.WORKSPACE, windowSeconds: 400n }),
      velocityRule(5_000, { scope: Scope.DEPARTMENT, windowSeconds: 100n }),
      velocityRule(5_000, { windowSeconds: 300n }),
    ]);
  });
  afterEach(async () => {
    for (const replica of replicas) await replica.close();
    await test.close();
  });

  it("are loaded from there once it has been recording for longer than they are, and from the log before.", async () => {
    const first = await open();
    await act(first, 30);
    await mirrored();
    expect((await limitSeen(await open()))?.source).to.equal("decision_log");
    test.clock.advance(410_000);
    await act(first, 25);
    await mirrored();
    const second = await open();
    expect(await limitSeen(second)).to.include({ source: "mirror", count: 26 });
    expect(await second.metric("acp_mirror_loads_total", { source: "mirror" })).to.be.above(0);
    expect(await second.metric("acp_redis_up", { use: "mirror" })).to.equal(1);
    expect(second.written.filter((line) => line === "redis answers")).to.have.length(1);
    await assertLinear();
  });

  it("are caught up from the log when the mirror lies behind, and go on when it is flushed or away.", async () => {
    const first = await open();
    await act(first, 10);
    await mirrored();
    test.clock.advance(410_000);
    await act(first, 20);
    await mirrored();
    // Not mirrored: this replica knows no Redis.
    for (let count = 0; count < 7; count++) await test.intercept({ agentId: agentIds[0] as string, actionType: "pay" });
    const count = await countFromMirror(28);
    await redis.client.flushall();
    expect(await limitSeen(await open())).to.include({ source: "decision_log", count });
    await redis.kill();
    expect(await limitSeen(await open())).to.include({ source: "decision_log", count: count + 1 });
    await redis.start();
    await act(first);
    await mirrored();
    await assertLinear();
  });

  it("say once that Redis went and once that it came back, and decide meanwhile as always.", async () => {
    const replica = await open();
    await act(replica, 5);
    await mirrored();
    const before = replica.written.length;
    const { pause, resume } = redis;
    for (const [away, back] of [
      [async () => pause(), async () => resume()],
      [redis.kill, redis.start],
    ] as const) {
      await away();
      await until(async () => {
        await act(replica, 10);
        return !(await isUp(replica));
      });
      await back();
      await until(() => isUp(replica));
      await mirrored();
    }
    const lines = replica.written.slice(before);
    expect(lines.length).to.be.at.most(8);
    expect(lines.filter((line) => line.includes("does not answer")).length).to.be.at.least(2);
    await assertLinear();
  });

  it("count exactly while Redis is killed, flushed, paused and robbed, and replicas come and go.", async () => {
    const steady = [await open(), await open()] as const;
    const TROUBLES: readonly (() => Promise<unknown>)[] = [
      () => redis.client.flushall(),
      async () => {
        const keys = await redis.client.keys("acp:*");
        return keys.length === 0 ? 0 : redis.client.del(keys[Math.floor(keys.length / 2)] as string);
      },
      async () => {
        redis.pause();
        await until(async () => !(await isUp(steady[0])));
        redis.resume();
      },
      async () => {
        await redis.kill();
        await until(async () => !(await isUp(steady[0])));
        await redis.start();
      },
      () => until(() => isUp(steady[0])),
    ];
    let isOver = false;
    const load = steady.map(async (replica) => {
      while (!isOver) await Promise.all([act(replica, 5), delay(10)]);
    });
    for (const trouble of TROUBLES) {
      await trouble();
      const visitor = await open();
      await act(visitor, 3);
      await replicas.pop()?.close();
    }
    isOver = true;
    await Promise.all(load);
    await assertLinear();
  });
});
