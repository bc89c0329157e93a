import { expect } from "chai";
import { createTestDatabase } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { restCallTo } from "../support/service.ts";
import { call, decisionOf, startSlowServer, textOf } from "./leaving-client.ts";
import { decisionsOf, settledOutcome } from "./outcomes.ts";
import { until } from "./until.ts";

describe("reports of outcomes, with several gateways", () => {
  it("that the process does not live to seal leave the outcome unknown, and the call is not run again.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const database = await createTestDatabase();
    cleanup.defer(() => database.drop());
    const slow = await startSlowServer();
    cleanup.defer(() => slow.close());
    const env = {
      ACP_MCP_ALLOW: "127.0.0.0/8",
      ACP_ADMIN_KEY: "acp_0123456789abcdef01",
      ACP_ENCRYPTION_KEY: "k".repeat(32),
      ACP_MCP_HOLD_MS: "300",
    };
    const [first, second] = [
      await startServer({ databaseUrl: database.url, env }),
      await startServer({ databaseUrl: database.url, env }),
    ];
    for (const server of [first, second]) cleanup.defer(async () => void (await server.stop()));
    const rest = restCallTo(second);
    const asks = { type: "action", decision: "escalate", conditions: { match_action_types: ["bank.pay"] } };
    await rest("POST /v1/enforce/mcp-servers", { name: "bank", url: slow.url, drift: "86400" });
    await rest("POST /v1/enforce/mandates", { name: "people pay", rules: [asks] });
    await rest("PATCH /v1/admin/workspaces/default", { outcome_timeout_seconds: 2 });
    const registered = await rest("POST /v1/enforce/agents", { name: "payer" });
    const agentId = (registered as unknown as { agent: { agent_id: string } }).agent.agent_id;
    const who = { "x-api-key": env.ACP_ADMIN_KEY, "x-agent-id": agentId };
    const pay = { name: "pay", arguments: { amount: 3 } };
    const ask = (server: TestServer) => call(new URL(`${server.http}/mcp/bank`), who, pay);
    const escalationId = decisionOf(await ask(second)).escalation_id ?? "";
    await rest(`POST /v1/enforce/escalations/${escalationId}/resolve`, { resolution: "approved" });
    const calling = ask(first).catch(() => undefined);
    await until(() => slow.open === 1);
    // While it runs, the same call at another gateway does not run it again.
    expect(textOf(await ask(second))).to.contain("still runs");
    await first.kill();
    await calling;
    expect(await settledOutcome({ rest }, agentId)).to.include({ status: "unknown", reported_by: "timeout" });
    const retried = textOf(await ask(second));
    expect(retried).to.match(/still runs|may have run/);
    expect(slow.calls).to.have.length(1);
    expect((await decisionsOf({ rest }, agentId)).filter(({ claim }) => claim !== null)).to.have.length(1);
  });
});
