import { randomUUID } from "node:crypto";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { agentctl } from "../cli/harness.ts";
import { connectStateful, type GatewayService, startGateway } from "./harness.ts";
import { startToolsServer, type ToolsServer, tool } from "./tools-server.ts";

type Result = { content: { text: string }[]; isError?: boolean };

describe("a workspace that agentctl halts", () => {
  let gateway: GatewayService;
  let upstream: ToolsServer;
  before(async () => {
    gateway = await startGateway();
    upstream = await startToolsServer([tool("read")]);
    await gateway.add("bank", { url: upstream.url });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  const run = (...argv: readonly string[]) =>
    agentctl(argv, { AGENTCTL_URL: gateway.http, AGENTCTL_KEY: gateway.adminKey });

  it("forwards no call of the gateway, allows no hook, and blocks on an open stream.", async () => {
    const client = await connectStateful(gateway.urlOf("bank"), gateway.headers);
    const call = async () => (await client.callTool({ name: "read", arguments: {} })) as Result;
    const transport = createGrpcTransport({ baseUrl: `http://${gateway.grpc}` });
    const headers = { "x-api-key": gateway.adminKey };
    const turns = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    async function* requests() {
      for (const { promise } of turns) {
        await promise;
        yield { intercept: { agentId: gateway.agentId, actionType: "pay", requestId: randomUUID() } };
      }
    }
    const replies = createClient(EnforcementService, transport).interceptStream(requests(), { headers });
    const stream = replies[Symbol.asyncIterator]();
    const next = async (turn: number): Promise<unknown[]> => {
      turns[turn]?.resolve();
      const { value } = await stream.next();
      const { decision, decisionPath } = value.result.value;
      return [decision, decisionPath];
    };
    const hook = async (): Promise<string> => {
      const event = { hook_event_name: "PreToolUse", tool_name: "Read", tool_input: {}, session_id: "s", cwd: "/" };
      const response = await fetch(`${gateway.http}/v1/hooks/claude-code`, {
        method: "POST",
        headers: { ...gateway.headers, "content-type": "application/json" },
        body: JSON.stringify(event),
      });
      return response.text();
    };

    expect((await call()).isError ?? false).to.equal(false);
    expect(await next(0)).to.deep.equal([Decision.ALLOW, DecisionPath.DEFAULT]);
    const forwarded = upstream.calls.length;

    const halted = await run("halt");
    expect([halted.code, halted.stdout]).to.deep.equal([
      0,
      "halted workspace default: every action is blocked until `agentctl halt --off`\n",
    ]);
    const blocked = await call();
    expect(blocked.isError).to.equal(true);
    expect(blocked.content[0]?.text).to.contain("halted");
    expect(upstream.calls.length).to.equal(forwarded);
    expect(await next(1)).to.deep.equal([Decision.BLOCK, DecisionPath.HALTED]);
    expect(await hook())
      .to.contain("deny")
      .and.to.contain("halted");

    expect((await run("halt", "--off", "--json")).json()).to.deep.equal({ workspace_id: "default", halted: false });
    expect((await call()).isError ?? false).to.equal(false);
    expect(await next(2)).to.deep.equal([Decision.ALLOW, DecisionPath.DEFAULT]);
    await stream.return?.();
    await client.close();
  });

  it("is that of the key: another one goes on.", async () => {
    const other = await gateway.workspace("other");
    const halted = await agentctl(["halt"], { AGENTCTL_URL: gateway.http, AGENTCTL_KEY: other.key });
    expect(halted.stdout).to.contain("halted workspace other");
    const decided = (key: string, agent_id: string) =>
      gateway.rest("POST /v1/enforce/intercept", { agent_id, action_type: "pay" }, key);
    expect(await decided(other.key, other.agentId)).to.include({ decision: "block", decision_path: "halted" });
    expect(await decided(gateway.adminKey, gateway.agentId)).to.include({ decision: "allow" });
    const auditor: { secret?: string } = await gateway.rest("POST /v1/admin/keys", { name: "a", role: "auditor" });
    const refused = await agentctl(["halt"], { AGENTCTL_URL: gateway.http, AGENTCTL_KEY: auditor.secret ?? "" });
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.contain("may not call `UpdateWorkspace`");
  });
});
