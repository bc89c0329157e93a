import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { asking, connectStateless, type GatewayService, startGateway } from "../gateway/harness.ts";
import { startToolsServer, type ToolsServer } from "../gateway/tools-server.ts";
import { metricsOf, sumOf } from "../support/metrics.ts";
import { withOwner } from "../support/owner.ts";
import { connect } from "../support/service.ts";
import { openWires } from "../support/wires.ts";

const TOTAL = "acp_decisions_total";
const SECONDS = "acp_decision_seconds_count";

describe("the metrics of decisions", () => {
  let service: GatewayService;
  let tools: ToolsServer;
  before(async () => {
    const conditions = (type: string) => ({ matchActionTypes: [type] });
    service = await startGateway({
      rules: [
        { type: RuleType.ACTION, decision: Decision.BLOCK, conditions: conditions("payment.block") },
        { type: RuleType.ACTION, decision: Decision.ESCALATE, conditions: conditions("payment.ask") },
      ],
    });
    tools = await startToolsServer();
    await service.add("shop", { url: tools.url });
  });
  after(async () => {
    await service?.stop();
    await tools?.close();
  });

  /** What one step added to the counters of a wire. */
  async function added(wire: string, step: () => Promise<unknown>): Promise<readonly [number, number]> {
    const read = async () => {
      const samples = await metricsOf(service.http);
      return [sumOf(samples, TOTAL, { wire }), sumOf(samples, SECONDS, { wire })] as const;
    };
    const before = await read();
    await step();
    const after = await read();
    return [after[0] - before[0], after[1] - before[1]];
  }

  it("count unary calls by their protocol.", async () => {
    const agentId = await service.agent();
    const wires = openWires(service);
    for (const { name, unary } of wires.all) {
      const request = { agent_id: agentId, action_type: "payment.block" };
      const intercept = () => unary(EnforcementService.method.intercept, request, { key: service.adminKey });
      expect(await added(name === "connect-json" ? "connect" : name, intercept), name).to.deep.equal([1, 1]);
    }
    wires.close();
    const samples = await metricsOf(service.http);
    expect(sumOf(samples, TOTAL, { decision: "block", path: "policy", wire: "rest" })).to.equal(1);
  });

  it("count every action of a stream.", async () => {
    const agentId = await service.agent();
    const streamed = connect(service, "grpc");
    const actions = Array.from({ length: 500 }, () =>
      streamed.intercept({ agentId, actionType: "note.write", actionContent: "" }),
    );
    expect(await added("stream", () => Promise.all(actions))).to.deep.equal([500, 500]);
    streamed.close();
  });

  it("count calls through the gateway, those that it refuses as well.", async () => {
    const client = asking(await connectStateless(service.urlOf("shop"), service.headers));
    const call = (name: string) => client.request({ method: "tools/call", params: { name, arguments: {} } });
    expect(await added("gateway", () => call("pay"))).to.deep.equal([1, 1]);
    expect(await added("gateway", () => call("nothing"))).to.deep.equal([1, 1]);
    await client.close();
    const samples = await metricsOf(service.http);
    expect(sumOf(samples, TOTAL, { decision: "block", path: "mcp_definition", wire: "gateway" })).to.equal(1);
  });

  it("count hooks of coding agents.", async () => {
    const headers = { ...service.headers, "content-type": "application/json" };
    const body = JSON.stringify({ hook_event_name: "PreToolUse", tool_name: "Read", tool_input: {} });
    const hook = () => fetch(`${service.http}/v1/hooks/claude-code`, { method: "POST", headers, body });
    expect(await added("hook", hook)).to.deep.equal([1, 1]);
  });

  it("count the decision on an action that a person edited.", async () => {
    const agentId = await service.agent();
    const metadata = { arguments: { amount: 5 } };
    const action = { agentId, actionType: "payment.ask", actionContent: "", metadata };
    const escalationId = (await service.admin.intercept(action)).escalationId ?? "";
    const edit = () =>
      service.admin.client(EscalationService).editEscalation({ escalationId, arguments: { amount: 4 } });
    expect(await added("edit", edit)).to.deep.equal([1, 1]);
  });

  it("do not count the answer to a repeated request.", async () => {
    const agentId = await service.agent();
    const action = { agentId, actionType: "note.write", actionContent: "", requestId: randomUUID() };
    const { decisionId } = await service.admin.intercept(action);
    const again = await added("connect", async () => {
      expect((await service.admin.intercept(action)).decisionId).to.equal(decisionId);
    });
    expect(again).to.deep.equal([0, 0]);
  });

  it("agree with the log, whose batches have as many decisions.", async () => {
    const count = await withOwner(service.database.url, async (client) => {
      const { rows } = await client.query("select count(*)::int from ledger_entry where kind = 0");
      return (rows[0] as { count: number }).count;
    });
    const samples = await metricsOf(service.http);
    expect(sumOf(samples, TOTAL)).to.equal(count);
    expect(sumOf(samples, "acp_batch_size_sum")).to.equal(count);
  });

  it("count firings by the id of the mandate, and the queue that is empty.", async () => {
    const samples = await metricsOf(service.http);
    const firings = samples.filter(({ name }) => name === "acp_mandate_firings_total");
    expect(firings.map(({ labels }) => labels.decision)).to.have.members(["block", "escalate"]);
    for (const { labels } of firings) expect(labels.mandate).to.match(/^mnd_/);
    expect(sumOf(samples, "acp_queue_length")).to.equal(0);
  });
});
