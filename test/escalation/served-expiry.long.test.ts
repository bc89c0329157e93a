import { expect } from "chai";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";
import { until } from "../support/harness.ts";
import { startServer, type TestServer } from "../support/server.ts";

const MANDATE = {
  name: "ask first",
  rules: [
    {
      type: "action",
      decision: "escalate",
      escalation_ttl_seconds: 1,
      conditions: { match_action_types: ["review.*"] },
    },
  ],
};

describe("the expiry of escalations, as it is served", () => {
  let database: TestDatabase;
  let server: TestServer;
  before(async () => {
    database = await createTestDatabase();
    server = await startServer({ databaseUrl: database.url });
  });
  after(async () => {
    await server.stop();
    await database.drop();
  });

  const call = async (method: string, path: string, body?: object) => {
    const headers = { "x-api-key": server.adminKey, "content-type": "application/json" };
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(server.http + path, { method, headers, ...init });
    return { status: response.status, ...(await response.json()) };
  };

  async function escalate(): Promise<string> {
    const { agent } = await call("POST", "/v1/enforce/agents", { name: "asker" });
    const action = { agent_id: agent.agent_id, action_type: "review.pay", action_content: "" };
    return (await call("POST", "/v1/enforce/intercept", action)).escalation_id;
  }

  const isEnded = (escalationId: string): Promise<boolean> =>
    withClient(database.url, async (client) => {
      const sql = "select 1 from escalation where escalation_id = $1 and resolved_by = 'expiry'";
      return (await client.query(sql, [escalationId])).rows.length === 1;
    });

  it("comes by itself, and answers who resolves it later.", async () => {
    await call("POST", "/v1/enforce/mandates", MANDATE);
    const escalationId = await escalate();
    await until(() => isEnded(escalationId));
    const path = `/api/control/enforcement/escalations/${escalationId}/resolve`;
    const refused = await call("POST", path, { resolution: "approved" });
    expect(refused).to.include({ status: 409, ok: false });
    expect(refused.error.details[0].reason).to.equal("ESCALATION_RESOLVED");
    const { escalation } = await call("GET", `/v1/enforce/escalations/${escalationId}`);
    expect(escalation).to.include({ status: "rejected", resolved_by: "expiry", asked: 1, replaced_by: null });
  });

  it("comes after a restart to what was pending before it.", async () => {
    const escalationId = await escalate();
    await server.stop();
    server = await startServer({ databaseUrl: database.url });
    await until(() => isEnded(escalationId));
  });
});
