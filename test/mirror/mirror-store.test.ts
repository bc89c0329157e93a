import { createHash } from "node:crypto";
import { expect } from "chai";
import fc from "fast-check";
import { loadMirrored } from "../../src/mirror/mirror-history.ts";

import {
  createMirrorStore,
  type MirrorEntry,
  type MirrorSource,
  type MirrorStore,
} from "../../src/mirror/mirror-store.ts";
import { sweepMirror, writeMirror } from "../../src/mirror/mirror-writer.ts";
import type { Decision } from "../../src/policy/types.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";

const WORKSPACE = "default";
const AGENTS = ["agt_a", "agt_b", "agt_c"];

/** A log in memory whose leaf hashes each commit to all before. */
class Log implements MirrorSource {
  list: MirrorEntry[] = [];
  now = 1_000;

  constructor(name: string) {
    this.append(null, name);
  }

  append(decided: MirrorEntry["decided"], salt = ""): void {
    const before = this.list.at(-1)?.leafHash ?? "";
    const leafHash = createHash("sha256")
      .update(`${before} ${this.now} ${JSON.stringify(decided)} ${salt}`)
      .digest("base64url");
    this.list.push({ seq: this.list.length, at: this.now, leafHash, decided });
  }

  entries(_workspaceId: string, from: number, limit: number): Promise<MirrorEntry[]> {
    return Promise.resolve(this.list.slice(Math.max(0, from), Math.max(0, from) + limit));
  }
}

function storeOf(redis: TestRedis, log: Log): MirrorStore {
  const { client } = redis;
  const commands = {
    eval: (script: string, keys: readonly string[], args: readonly (string | number)[]) =>
      client.eval(script, keys.length, ...keys, ...args),
    hmget: (key: string, ...fields: string[]) => client.hmget(key, ...fields),
    hgetall: (key: string) => client.hgetall(key),
  };
  return createMirrorStore(commands, WORKSPACE, log.list[0]?.leafHash ?? "");
}

const feed = (redis: TestRedis, log: Log, keepMs: number) =>
  writeMirror(storeOf(redis, log), log, { workspaceId: WORKSPACE, seq: log.list.length, keepMs });

async function feedUp(redis: TestRedis, log: Log, keepMs: number): Promise<void> {
  while ((await feed(redis, log, keepMs)) === "more");
}

const load = (redis: TestRedis, log: Log, after: number, before = log.list.length) =>
  loadMirrored(storeOf(redis, log), log, WORKSPACE, { from: undefined, before, after, windowMs: log.now - after });

/** What the log itself has. */
function wanted(log: Log, after: number, before = log.list.length) {
  const entries = log.list.slice(0, before).filter(({ at, decided }) => decided !== null && at > after);
  return entries.map(({ at, decided }) => ({ at, principalId: undefined, ...decided }));
}

async function assertLoads(redis: TestRedis, log: Log, after: number, before?: number): Promise<void> {
  const history = await load(redis, log, after, before);
  const entries = history?.entries.map(({ at, agentId, principalId, actionType, decision }) => ({
    at,
    agentId,
    principalId,
    actionType,
    decision,
  }));
  expect(entries).to.deep.equal(wanted(log, after, before));
  expect(history?.source).to.equal("mirror");
}

const sets = async ({ client }: TestRedis): Promise<string[]> =>
  (await client.keys("acp:*")).filter((key) => !key.endsWith("}")).sort();

describe("the mirror of a log in Redis", () => {
  let redis: TestRedis;
  let log: Log;
  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.close());
  beforeEach(async () => {
    await redis.client.flushall();
    log = new Log("first");
    await feed(redis, log, 1_000);
    for (let index = 0; index < 40; index++) {
      log.now += 100;
      const principalId = index % 4 === 0 ? AGENTS[index % 2] : undefined;
      log.append({ agentId: AGENTS[index % 3] as string, principalId, actionType: "pay send", decision: "block" });
      if (index % 5 === 0) log.append(null);
    }
    await feedUp(redis, log, 1_000);
  });

  it("gives a window exactly as the log has it, up to any index, once it has been recording for longer.", async () => {
    await assertLoads(redis, log, log.now - 1_000);
    await assertLoads(redis, log, log.now - 700, log.list.length - 3);
    const fresh = new Log("other");
    await feed(redis, fresh, 1_000);
    fresh.now += 999;
    fresh.append({ agentId: "agt_a", actionType: "pay", decision: "allow" });
    await feedUp(redis, fresh, 1_000);
    expect(await load(redis, fresh, fresh.now - 1_000)).to.equal(undefined);
    fresh.now += 1;
    await assertLoads(redis, fresh, fresh.now - 1_000);
  });

  it("is caught up from the log where it lies behind, and not used where it lies far behind.", async () => {
    for (let count = 0; count < 4_990; count++) {
      log.append({ agentId: "agt_a", actionType: "pay", decision: "allow" });
    }
    await assertLoads(redis, log, log.now - 1_000);
    for (let count = 0; count < 20; count++) log.append({ agentId: "agt_a", actionType: "pay", decision: "allow" });
    expect(await load(redis, log, log.now - 1_000)).to.equal(undefined);
    await feedUp(redis, log, 1_000);
    await assertLoads(redis, log, log.now - 1_000);
  });

  it("keeps no more than the longest window, and is not trusted for a longer one.", async () => {
    const members = async () =>
      (await Promise.all((await sets(redis)).map((key) => redis.client.zcard(key)))).reduce(
        (sum, each) => sum + each,
        0,
      );
    // Sets are trimmed when their agents act: each may hold what left since.
    expect(await members()).to.be.within(10, 13);
    expect(await load(redis, log, log.now - 1_300)).to.equal(undefined);
    log.now += 5_000;
    log.append({ agentId: "agt_a", actionType: "pay", decision: "allow" });
    await feedUp(redis, log, 1_000);
    await sweepMirror(storeOf(redis, log), 1_000);
    expect(await members()).to.equal(1);
    await assertLoads(redis, log, log.now - 1_000);
  });

  const LOSSES: readonly (readonly [string, () => Promise<unknown>])[] = [
    ["everything was flushed", () => redis.client.flushall()],
    ["the hash was evicted", async () => redis.client.del((await redis.client.keys("acp:*}"))[0] as string)],
    ["a set was evicted", async () => redis.client.del((await sets(redis))[1] as string)],
    ["a member was removed", async () => redis.client.zpopmax((await sets(redis))[2] as string)],
    [
      "a set was evicted and grew again",
      async () => {
        await redis.client.del((await sets(redis))[0] as string);
        for (const agentId of AGENTS) log.append({ agentId, actionType: "pay", decision: "allow" });
      },
    ],
  ];
  for (const [what, lose] of LOSSES) {
    it(`is not used after ${what}, and records anew.`, async () => {
      await lose();
      expect(await load(redis, log, log.now - 1_000)).to.equal(undefined);
      log.append({ agentId: "agt_a", actionType: "pay", decision: "allow" });
      await feedUp(redis, log, 1_000);
      expect(await load(redis, log, log.now - 1_000)).to.equal(undefined);
      log.now += 1_001;
      log.append({ agentId: "agt_b", actionType: "pay", decision: "allow" });
      await feedUp(redis, log, 1_000);
      await assertLoads(redis, log, log.now - 1_000);
    });
  }

  it("is not used for a log that was restored and went on differently, nor for another log's workspace of that name.", async () => {
    const restored = new Log("first");
    restored.list = log.list.slice(0, -2);
    restored.now = log.now;
    expect(await load(redis, restored, log.now - 1_000)).to.equal(undefined);
    restored.append({ agentId: "agt_c", actionType: "pay", decision: "escalate" });
    restored.append(null, "differently");
    expect(await load(redis, restored, log.now - 1_000)).to.equal(undefined);
    expect(await load(redis, new Log("second"), log.now - 1_000)).to.equal(undefined);
    expect(await feed(redis, restored, 1_000)).to.equal("begun");
    await assertLoads(redis, restored, restored.now);
  });

  const STEP = fc.oneof(
    { weight: 10, arbitrary: fc.record({ kind: fc.constant("decide"), agent: fc.nat(2), ms: fc.nat(250) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("feed"), agent: fc.nat(2), ms: fc.nat(50) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("load"), agent: fc.nat(2), ms: fc.nat(1_500) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("lose"), agent: fc.nat(4), ms: fc.nat(2) }) },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant("keep"), agent: fc.nat(2), ms: fc.integer({ min: 1, max: 2_000 }) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("sweep"), agent: fc.nat(2), ms: fc.nat(10) }) },
  );
  const DECISIONS: readonly Decision[] = ["allow", "block", "escalate"];

  it("gives what the log has or nothing, whatever is lost in whichever order.", async () => {
    let trusted = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(STEP, { minLength: 10, maxLength: 80 }), async (steps) => {
        await redis.client.flushall();
        log = new Log("property");
        let keepMs = 300;
        for (const { kind, agent, ms } of steps) {
          if (kind === "decide") {
            log.now += ms;
            log.append({
              agentId: AGENTS[agent] as string,
              actionType: "pay",
              decision: DECISIONS[ms % 3] as Decision,
            });
          } else if (kind === "feed") await feed(redis, log, keepMs);
          else if (kind === "keep") keepMs = ms;
          else if (kind === "sweep") await sweepMirror(storeOf(redis, log), keepMs);
          else if (kind === "lose") {
            const keys = (await redis.client.keys("acp:*")).sort();
            const key = keys[agent % Math.max(1, keys.length)];
            if (key === undefined) continue;
            if (key.endsWith("}") || ms === 0) await redis.client.del(key);
            else await redis.client.zpopmin(key);
          } else {
            const after = log.now - (ms % 600);
            const history = await load(redis, log, after);
            if (history === undefined) continue;
            trusted += 1;
            expect(history.entries.map(({ at }) => at)).to.deep.equal(wanted(log, after).map(({ at }) => at));
          }
        }
      }),
      { numRuns: 400 },
    );
    expect(trusted).to.be.above(100);
  });
});
