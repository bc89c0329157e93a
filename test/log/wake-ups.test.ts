import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { Registry } from "prom-client";
import { listenForWakeUps, type WakeUpListener, type WakeUps } from "../../src/log/wake-ups.ts";
import { listenOnRedis, REDIS_CHANNEL } from "../../src/mirror/redis-wake-ups.ts";
import { createTestDatabase, SILENT_LOG, withClient } from "../support/database.ts";
import { startRedis } from "../support/redis.ts";
import { startGate, until } from "./gate.ts";

/** A way that wake-ups come, behind something that can be shut. */
interface Carrier {
  readonly url: string;
  listen(url: string, listener: WakeUpListener): Promise<WakeUps> | WakeUps;
  send(payload: string): Promise<unknown>;
  /** Connections that listen. */
  listeners(): Promise<number>;
  close(): Promise<void>;
}

async function overPostgres(): Promise<Carrier> {
  const database = await createTestDatabase();
  const listening =
    "select 1 from pg_stat_activity where datname = current_database() and application_name = 'acp wake-ups'";
  return {
    url: database.url,
    listen: (url, listener) => listenForWakeUps(url, SILENT_LOG, listener),
    send: (payload) => withClient(database.url, (client) => client.query("select pg_notify('acp_log', $1)", [payload])),
    listeners: () => withClient(database.url, async (client) => (await client.query(listening)).rows.length),
    close: () => database.drop(),
  };
}

async function overRedis(): Promise<Carrier> {
  const redis = await startRedis();
  return {
    url: redis.url,
    listen: (url, listener) => listenOnRedis(url, { log: SILENT_LOG, metrics: new Registry() }, listener),
    send: (payload) => redis.client.publish(REDIS_CHANNEL, payload),
    async listeners() {
      const [, count] = (await redis.client.pubsub("NUMSUB", REDIS_CHANNEL)) as [string, number];
      return Number(count);
    },
    close: () => redis.close(),
  };
}

for (const [name, open] of [
  ["PostgreSQL", overPostgres],
  ["Redis", overRedis],
] as const) {
  describe(`wake-ups from other replicas over ${name}`, () => {
    it("go on over one connection after it was away for a while, each heard once.", async () => {
      const carrier = await open();
      const gate = await startGate(carrier.url);
      const heard: unknown[] = [];
      const wakeUps = await carrier.listen(gate.url, (wakeUp) => heard.push(wakeUp));
      await until(() => heard.length > 0);
      expect(heard).to.deep.equal([undefined]);
      gate.shut();
      await until(() => gate.refused >= 2);
      heard.length = 0;
      gate.open();
      await until(() => heard.length > 0);
      // Long enough for another attempt to connect, if there were one.
      await delay(800);
      expect(heard).to.deep.equal([undefined]);
      expect(await carrier.listeners()).to.equal(1);
      await carrier.send("default 7");
      await carrier.send("other 12 decisions");
      await until(() => heard.length > 2);
      await delay(100);
      expect(heard).to.deep.equal([
        undefined,
        { workspaceId: "default", seq: 7, isChange: true },
        { workspaceId: "other", seq: 12, isChange: false },
      ]);
      await wakeUps.close();
      gate.close();
      await carrier.close();
    });

    it("that are ended while it is away are not begun again.", async () => {
      const carrier = await open();
      const gate = await startGate(carrier.url);
      const heard: unknown[] = [];
      const wakeUps = await carrier.listen(gate.url, (wakeUp) => heard.push(wakeUp));
      await until(() => heard.length > 0);
      gate.shut();
      await until(() => gate.refused >= 1);
      await wakeUps.close();
      gate.open();
      await delay(800);
      expect(heard).to.have.length(1);
      expect(await carrier.listeners()).to.equal(0);
      gate.close();
      await carrier.close();
    });
  });
}

describe("wake-ups that are told over Redis", () => {
  it("reach every other replica, and cost nothing but themselves while Redis is away or hangs.", async () => {
    const redis = await startRedis();
    const heard: unknown[] = [];
    const options = { log: SILENT_LOG, metrics: new Registry() };
    const wakeUps = listenOnRedis(redis.url, options, (wakeUp) => heard.push(wakeUp));
    await until(() => heard.length > 0);
    const wakeUp = { workspaceId: "default", seq: 3, isChange: true };
    const told = async (): Promise<void> => {
      heard.length = 0;
      await until(async () => {
        wakeUps.publish(wakeUp);
        await delay(20);
        return heard.some((each) => each !== undefined);
      });
      expect(heard.findLast((each) => each !== undefined)).to.deep.equal(wakeUp);
    };
    await told();
    redis.pause();
    for (let count = 0; count < 100; count++) wakeUps.publish(wakeUp);
    await delay(1_500);
    redis.resume();
    await told();
    await redis.kill();
    for (let count = 0; count < 100; count++) wakeUps.publish(wakeUp);
    await redis.start();
    await told();
    await wakeUps.close();
    await redis.close();
  });
});
