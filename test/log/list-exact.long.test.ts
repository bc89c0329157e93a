import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { createTestDatabase } from "../support/database.ts";
import type { TestServer } from "../support/server.ts";
import { type ListReplica, runList } from "./list-run.ts";
import { interceptOver, startServers } from "./rest.ts";
import { assertIntact, readLog } from "./stored-log.ts";

const LIST = "growing";

async function send(server: TestServer, method: string, path: string, body: object): Promise<Record<string, unknown>> {
  const headers = { "content-type": "application/json", "x-api-key": server.adminKey };
  const response = await fetch(`${server.http}${path}`, { method, headers, body: JSON.stringify(body) });
  const reply = (await response.json()) as Record<string, unknown>;
  if (!response.ok) throw new Error(`${path}: ${JSON.stringify(reply)}`);
  return reply;
}

describe("a list that changes while four processes decide", () => {
  it("is in force at its place in the log for every decision: 100,000 values.", async () => {
    const database = await createTestDatabase();
    const servers: TestServer[] = [];
    try {
      const adminKey = `acp_${randomBytes(24).toString("base64url")}`;
      servers.push(...(await startServers(database.url, 4, adminKey)));
      const [first] = servers as [TestServer];
      const { agent } = await send(first, "POST", "/v1/enforce/agents", { name: "payer" });
      const { agent_id } = agent as { agent_id: string };
      await send(first, "PUT", `/v1/enforce/lists/${LIST}`, { kind: "text", values: [] });
      const conditions = { rules: [{ field: "to", operator: "not_in_list", value: LIST }] };
      const rules = [{ type: "metadata", decision: "block", conditions }];
      await send(first, "POST", "/v1/enforce/mandates", { name: "known payees", rules });
      const replicas = servers.map((server): ListReplica => {
        const change = async (verb: string, list: string, values: readonly string[]): Promise<void> =>
          void (await send(server, "POST", `/v1/enforce/lists/${list}:${verb}`, { values }));
        return {
          add: (list, values) => change("add", list, values),
          remove: (list, values) => change("remove", list, values),
          async decide(to) {
            const outcome = await interceptOver(server, { agent_id, action_type: "pay", metadata: { to } });
            if (outcome.kind !== "decided") throw new Error(JSON.stringify(outcome));
          },
        };
      });
      const run = await runList({ databaseUrl: database.url, replicas, list: LIST, values: 100_000, atOnce: 1_000 });
      expect(run.faults).to.deep.equal([]);
      expect(run.allowed).to.be.within(100, run.decisions - 100);
      expect(run.listsSeen).to.be.greaterThan(50);
      assertIntact(await readLog(database.url));
    } finally {
      for (const server of servers) await server.stop();
      await database.drop();
    }
  }).timeout(600_000);
});
