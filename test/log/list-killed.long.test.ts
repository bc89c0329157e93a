import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { createTestDatabase } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { checkLog, digestOfValues } from "./list-run.ts";
import { interceptOver, startServers } from "./rest.ts";
import { assertIntact, readLog } from "./stored-log.ts";

const LIST = "payees";
const CHANGES = 30;
const KILLS = 5;

const named = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, at) => `value ${from + at}`);

/** Contents that are put as a whole. */
const WHOLE = [named(0, 100_000), named(40_000, 110_000), named(90_000, 92_000)];

/** Throws any error but the refusal of more values than a list holds. */
const unlessFull = (error: Error): void => {
  if (!error.message.includes("a list holds at most 100000")) throw error;
};

const random = (below: number): number => Math.floor(Math.random() * below);

describe("four processes that change a list and decide, while one after the other is killed", function () {
  this.timeout(900_000);

  it("decide each action by the list at its place in the log, and lose no acknowledged change.", async () => {
    const database = await createTestDatabase();
    const adminKey = `acp_${randomBytes(24).toString("base64url")}`;
    const servers: TestServer[] = await startServers(database.url, 4, adminKey);
    const someServer = (): TestServer => servers[random(servers.length)] as TestServer;

    /** Calls some process, and another one when that is gone. */
    const send = async (method: string, path: string, body: object): Promise<Record<string, unknown>> => {
      for (;;) {
        const headers = { "content-type": "application/json", "x-api-key": adminKey, "x-request-timeout-ms": "120000" };
        const init = { method, headers, body: JSON.stringify(body) };
        try {
          const response = await fetch(`${someServer().http}${path}`, init);
          const reply = (await response.json()) as Record<string, unknown>;
          if (response.ok) return reply;
          if (response.status < 500) throw new RangeError(`${path}: ${JSON.stringify(reply)}`);
        } catch (error) {
          if (error instanceof RangeError) throw error;
        }
        await delay(50);
      }
    };

    try {
      const { agent } = await send("POST", "/v1/enforce/agents", { name: "payer" });
      const { agent_id } = agent as { agent_id: string };
      await send("PUT", `/v1/enforce/lists/${LIST}`, { kind: "text", values: [] });
      const conditions = { rules: [{ field: "to", operator: "not_in_list", value: LIST }] };
      await send("POST", "/v1/enforce/mandates", {
        name: "known payees",
        rules: [{ type: "metadata", decision: "block", conditions }],
      });

      const acknowledged = new Map<string, string>();
      const digests: string[] = [];
      let isOver = false;
      const change = async (): Promise<void> => {
        const place = random(110_000);
        const values = named(place, place + 1_000);
        const whole = WHOLE[random(WHOLE.length)] as string[];
        const [method, path, body] = (
          [
            ["PUT", "", { kind: "text", values: whole }],
            ["POST", ":add", { values }],
            ["POST", ":remove", { values }],
          ] as const
        )[random(3)] as readonly [string, string, object];
        const { list } = await send(method, `/v1/enforce/lists/${LIST}${path}`, body);
        digests.push((list as { digest: string }).digest);
      };
      const changes = async (): Promise<void> => {
        while (digests.length < CHANGES) await change().catch(unlessFull);
        isOver = true;
      };
      const decide = async (): Promise<void> => {
        while (!isOver) {
          const metadata = { to: `value ${random(115_000)}` };
          const outcome = await interceptOver(someServer(), { agent_id, action_type: "pay", metadata });
          if (outcome.kind === "decided") acknowledged.set(outcome.reply.decision_id, outcome.reply.decision);
          else await delay(20);
        }
      };
      const kill = async (): Promise<void> => {
        for (let killed = 0; killed < KILLS; killed++) {
          while (!isOver && digests.length < ((killed + 1) * CHANGES) / (KILLS + 1)) await delay(10);
          // In the middle of some call.
          await delay(random(200));
          const slot = random(servers.length);
          await (servers[slot] as TestServer).kill();
          servers[slot] = await startServer({ databaseUrl: database.url, env: { ACP_ADMIN_KEY: adminKey } });
        }
      };
      await Promise.all([changes(), kill(), ...Array.from({ length: 8 }, decide)]);
      // What a killed process left is gone after the next large change.
      await send("PUT", `/v1/enforce/lists/${LIST}`, { kind: "text", values: named(200_000, 203_000) });

      const contents = new Map([...WHOLE, named(200_000, 203_000)].map((values) => [digestOfValues(values), values]));
      const run = await checkLog({ databaseUrl: database.url, list: LIST, contents });
      expect(run.faults).to.deep.equal([]);
      expect(run.decisions).to.be.at.least(acknowledged.size);
      expect(acknowledged.size).to.be.above(100);
      const log = await readLog(database.url);
      assertIntact(log);
      const sealed = new Map(
        log.entries.map(({ body }) => JSON.parse(body)).map((body) => [body.decision_id, body.decision]),
      );
      for (const [id, decision] of acknowledged) expect(sealed.get(id), id).to.equal(decision);
      const made = new Set(log.entries.flatMap(({ body }) => JSON.parse(body).list?.digest_after ?? []));
      for (const digest of digests) expect(made.has(digest), digest).to.equal(true);

      const last = digestOfValues(named(200_000, 203_000));
      for (const { http } of servers) {
        const reply = await fetch(`${http}/v1/enforce/lists/${LIST}`, { headers: { "x-api-key": adminKey } });
        expect(((await reply.json()) as { list: { digest: string } }).list.digest).to.equal(last);
      }
      const client = new pg.Client({ connectionString: database.url });
      await client.connect();
      const { rows } = await client.query("select distinct digest from list_content");
      await client.end();
      expect(rows).to.deep.equal([{ digest: last }]);
    } finally {
      for (const server of servers) await server.stop();
      await database.drop();
    }
  });
});
