import { expect } from "chai";
import { createTestDatabase } from "../support/database.ts";
import { freePort } from "../support/free-port.ts";
import { startServer } from "../support/server.ts";
import { send, type Task, textOf } from "./task-client.ts";
import { startToolsServer, tool } from "./tools-server.ts";
import { until } from "./until.ts";

const CALL = { name: "pay", arguments: { amount: 7 } };
const asks = { type: "action", decision: "escalate", conditions: { match_action_types: ["bank.pay"] } };

describe("a task when the service is killed", () => {
  it("is forwarded once in its life, and says so when its result is lost.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const database = await createTestDatabase();
    cleanup.defer(() => database.drop());
    const upstream = await startToolsServer([tool("pay")]);
    cleanup.defer(() => upstream.close());
    const port = String(await freePort());
    const env = {
      ACP_HTTP_PORT: port,
      ACP_MCP_ALLOW: "127.0.0.0/8",
      ACP_ADMIN_KEY: "acp_0123456789abcdef01",
      ACP_ENCRYPTION_KEY: "k".repeat(32),
    };
    const start = () => startServer({ databaseUrl: database.url, env });
    const headers = { "x-api-key": env.ACP_ADMIN_KEY, "content-type": "application/json" };
    const rest = async (path: string, body: object): Promise<never> => {
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      return (await (await fetch(`http://127.0.0.1:${port}${path}`, init)).json()) as never;
    };
    const first = await start();
    const { agent } = (await rest("/v1/enforce/agents", { name: "payer" })) as { agent: { agent_id: string } };
    await rest("/v1/enforce/mcp-servers", { name: "bank", url: upstream.url });
    await rest("/v1/enforce/mandates", { name: "people pay", rules: [asks] });
    const url = new URL(`http://127.0.0.1:${port}/mcp/bank`);
    const who = { ...headers, "x-agent-id": agent.agent_id };
    const { result } = await send(url, who, "tools/call", CALL);
    const { taskId } = result as unknown as Task;
    await first.kill();
    const second = await start();
    await rest(`/v1/enforce/escalations/${taskId.slice(taskId.indexOf("esc_"))}/resolve`, { resolution: "approved" });
    upstream.answer = (_name, _args, signal) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve({ content: [] })));
    const get = async () => (await send(url, who, "tasks/get", { taskId })).result as unknown as Task;
    expect((await get()).status).to.equal("working");
    await until(() => upstream.calls.length === 1);
    await second.kill();
    const third = await start();
    cleanup.defer(async () => void (await third.stop()));
    let task = await get();
    await until(async () => {
      task = await get();
      return task.status !== "working";
    });
    expect(textOf(task)).to.contain("Check whether the tool ran");
    expect(upstream.calls).to.have.length(1);
  });
});
