import { expect } from "chai";
import { startGateway, startGatewayProcess } from "../gateway/harness.ts";
import { until } from "../gateway/until.ts";
import { type Collector, startCollector, withEndpoint } from "./collector.ts";
import { callWithTrace } from "./traced-calls.ts";

describe("a collector that fails", () => {
  const ANSWERS: readonly [string, Collector["answer"]][] = [
    ["is silent", () => undefined],
    ["answers 503 with a long wait", (response) => void response.writeHead(503, { "retry-after": "86400" }).end()],
    ["answers 200 with what is no Protobuf", (response) => void response.writeHead(200).end("\u0000\u00ff".repeat(99))],
    [
      "sends without end",
      (response) => {
        response.writeHead(400);
        const timer = setInterval(() => response.write("x".repeat(65_536)), 1);
        response.once("close", () => clearInterval(timer));
      },
    ],
    ["cuts the connection", (response) => void response.destroy()],
  ];
  for (const [what, answer] of ANSWERS) {
    it(`changes no decision and does not hold the end of the service: it ${what}.`, async () => {
      const collector = await startCollector();
      collector.answer = answer;
      const gateway = await withEndpoint(collector.url, (env) => startGateway({ env }));
      try {
        const agentId = await gateway.agent();
        await callWithTrace(gateway, "", "rest", agentId, {});
        await until(async () => collector.bodies.length > 0);
        await callWithTrace(gateway, "", "grpc", agentId, {});
        expect(await gateway.decisionIdsOf(agentId)).to.have.length(2);
      } finally {
        await gateway.stop();
        await collector.close();
      }
    });
  }

  it("or is not there changes no decision.", async () => {
    const collector = await startCollector();
    await collector.close();
    const gateway = await withEndpoint(collector.url, (env) => startGateway({ env }));
    const agentId = await gateway.agent();
    await callWithTrace(gateway, "", "rest", agentId, {});
    expect(await gateway.decisionIdsOf(agentId)).to.have.length(1);
    await gateway.stop();
  });

  it("and never answers lets a process end.", async () => {
    const collector = await startCollector();
    collector.answer = () => undefined;
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: "20" };
    const gateway = await startGatewayProcess({ env });
    await callWithTrace(gateway, "", "rest", await gateway.agent(), {});
    await until(async () => collector.bodies.length > 0);
    expect(await gateway.stop()).to.equal(0);
    await collector.close();
  });
});
