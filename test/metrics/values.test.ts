import { setTimeout as delay } from "node:timers/promises";
import { Client, credentials } from "@grpc/grpc-js";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { asking, connectStateful, connectStateless, type GatewayService, startGateway } from "../gateway/harness.ts";
import { startSessionServer } from "../gateway/session-server.ts";
import { startToolsServer, type ToolsServer } from "../gateway/tools-server.ts";
import { freePort } from "../support/free-port.ts";
import { metricsOf, sumOf } from "../support/metrics.ts";
import { metadataWith } from "../support/wires.ts";
import { type Receiver, startReceiver } from "../webhook/receiver.ts";
import { until } from "../workers/harness.ts";

const INTERCEPT_STREAM = `/${EnforcementService.typeName}/InterceptStream`;
/** Milliseconds that a tool takes: longer than the bound of one bucket. */
const TOOL_MS = 60;

describe("the values of metrics", () => {
  let service: GatewayService;
  let tools: ToolsServer;
  let receiver: Receiver;
  before(async () => {
    const conditions = { matchActionTypes: ["payment.ask"] };
    service = await startGateway({
      env: { ACP_WEBHOOK_ALLOW: "127.0.0.0/8" },
      rules: [{ type: RuleType.ACTION, decision: Decision.ESCALATE, conditions }],
    });
    tools = await startToolsServer();
    await service.add("shop", { url: tools.url });
    receiver = await startReceiver();
  });
  after(async () => {
    await service?.stop();
    await tools?.close();
    await receiver?.close();
  });

  const read = async (name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> =>
    sumOf(await metricsOf(service.http), name, labels);

  async function escalated(actionContent: string): Promise<string> {
    const metadata = { arguments: { amount: 5 } };
    const action = { agentId: service.agentId, actionType: "payment.ask", actionContent, metadata };
    return (await service.admin.intercept(action)).escalationId ?? "";
  }

  it("tell each escalation that ended, by how long it waited, and those that wait.", async () => {
    const startedAt = performance.now();
    const ids = [await escalated("first"), await escalated("second"), await escalated("third"), await escalated("4th")];
    const [first = "", second = "", third = ""] = ids;
    expect(await read("acp_escalations_pending")).to.equal(4);
    expect(await read("acp_escalation_seconds_count")).to.equal(0);
    await delay(TOOL_MS);
    await service.resolve(first, "approved");
    await service.resolve(second, "rejected");
    await service.admin.client(EscalationService).editEscalation({ escalationId: third, arguments: { amount: 4 } });
    await until("all that ended are counted", async () => (await read("acp_escalation_seconds_count")) >= 3);
    const elapsed = (performance.now() - startedAt) / 1_000;
    expect(await read("acp_escalation_seconds_count")).to.equal(3);
    expect(await read("acp_escalation_seconds_bucket", { le: "259200" })).to.equal(3);
    // The clock of the log counts whole milliseconds.
    expect(await read("acp_escalation_seconds_sum")).to.be.within((3 * (TOOL_MS - 2)) / 1_000, 3 * elapsed);
    // The edited action is approved by who edited it, and waits for nobody.
    expect(await read("acp_escalations_pending")).to.equal(1);
  });

  it("tell each request that was forwarded to an MCP server, by its time, and none that was blocked.", async () => {
    const client = asking(await connectStateless(service.urlOf("shop"), service.headers));
    const call = (name: string) => client.request({ method: "tools/call", params: { name, arguments: {} } });
    tools.answer = async () => {
      await delay(TOOL_MS);
      return { content: [] };
    };
    const name = "acp_mcp_call_seconds";
    const before = [
      await read(`${name}_count`),
      await read(`${name}_bucket`, { le: "0.05" }),
      await read(`${name}_sum`),
    ];
    for (let count = 0; count < 4; count++) await call("pay");
    for (let count = 0; count < 2; count++) await call("nothing");
    const after = [
      await read(`${name}_count`),
      await read(`${name}_bucket`, { le: "0.05" }),
      await read(`${name}_sum`),
    ];
    const [count = 0, quick = 0, seconds = 0] = after.map((value, index) => value - (before[index] ?? 0));
    expect(tools.calls.length).to.equal(4);
    expect([count, quick]).to.deep.equal([4, 0]);
    expect(seconds).to.be.at.least((4 * (TOOL_MS - 1)) / 1_000);
    await client.close();
  });

  it("tell each attempt to deliver an event by its result, and the webhooks that have one left.", async () => {
    const refusing = await startReceiver(() => ({ status: 503, headers: { "retry-after": "3600" } }));
    const hook = async (url: string): Promise<string> => {
      const made = await service.rest("POST /v1/enforce/webhooks", { url, events: ["escalation.created"] });
      return (made as unknown as { webhook: { webhook_id: string } }).webhook.webhook_id;
    };
    const ids = [
      await hook(receiver.url),
      await hook(refusing.url),
      await hook(`http://127.0.0.1:${await freePort()}/`),
    ] as const;
    const recorded = (): Promise<number[]> =>
      Promise.all(
        ids.map(async (id) => {
          const { deliveries } = await service.rest(`GET /v1/enforce/webhooks/${id}/deliveries`);
          return (deliveries as unknown as unknown[]).length;
        }),
      );
    const counted = async (): Promise<number[]> => {
      const samples = await metricsOf(service.http);
      return ["delivered", "refused", "unreachable"].map((result) =>
        sumOf(samples, "acp_webhook_deliveries_total", { result }),
      );
    };
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    receiver.answer = async (_received, index) => {
      if (index > 0) await held;
      return {};
    };
    await escalated("fifth");
    await until("each is tried", async () => (await counted()).every((count) => count > 0));
    await escalated("sixth");
    await receiver.waitFor(2);
    await until("each has an event left", async () => (await read("acp_webhooks_waiting")) === 3);
    expect((await counted()).slice(0, 2)).to.deep.equal([1, 1]);
    release();
    await until("two have an event left", async () => (await read("acp_webhooks_waiting")) === 2);
    // The one that nothing reaches may have been tried again.
    await until("the counts are those on record", async () => `${await counted()}` === `${await recorded()}`);
    expect((await counted()).slice(0, 2)).to.deep.equal([2, 1]);
    for (const id of ids) await service.rest(`DELETE /v1/enforce/webhooks/${id}`);
    await until("none has an event left", async () => (await read("acp_webhooks_waiting")) === 0);
    await refusing.close();
  });

  it("tell the open streams of each kind.", async () => {
    const opened = async (): Promise<Record<string, number>> => {
      const samples = await metricsOf(service.http);
      const open = samples.filter(({ name, value }) => name === "acp_streams_open" && value !== 0);
      return Object.fromEntries(open.map(({ labels, value }) => [labels.kind as string, value]));
    };
    const untilOpen = (wanted: Record<string, number>): Promise<void> =>
      until(`${JSON.stringify(wanted)} are open`, async () => {
        const found = await opened();
        const kinds = Object.keys({ ...found, ...wanted });
        return kinds.every((kind) => (found[kind] ?? 0) === (wanted[kind] ?? 0));
      });
    await untilOpen({});
    const asIs = (bytes: Buffer): Buffer => bytes;
    const grpc = new Client(service.grpc, credentials.createInsecure());
    const calls = Array.from({ length: 3 }, () =>
      grpc
        .makeBidiStreamRequest(INTERCEPT_STREAM, asIs, asIs, metadataWith(service.adminKey))
        .on("error", () => undefined),
    );
    await untilOpen({ intercept_stream: 3 });
    const leaving = new AbortController();
    const headers = { "x-api-key": service.adminKey, accept: "text/event-stream" };
    for (let count = 0; count < 2; count++) {
      await fetch(`${service.http}/v1/enforce/escalations:watch`, { headers, signal: leaving.signal });
    }
    await untilOpen({ intercept_stream: 3, watch_escalations: 2 });
    const desk = await startSessionServer();
    await service.add("desk", { url: desk.url });
    const client = await connectStateful(service.urlOf("desk"), service.headers);
    await untilOpen({ intercept_stream: 3, watch_escalations: 2, mcp: 1 });
    for (const call of calls) call.cancel();
    grpc.close();
    leaving.abort();
    await client.close();
    await untilOpen({});
    await desk.close();
  });
});
