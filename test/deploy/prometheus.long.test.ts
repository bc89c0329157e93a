import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { connectStateful } from "../gateway/harness.ts";
import { startToolsServer, type ToolsServer } from "../gateway/tools-server.ts";
import { serveWeb, type WebServer } from "../gateway/web-server.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { describeWithPackages } from "../support/debian.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connect, registerAgent } from "../support/service.ts";
import { escalateReviews } from "../workers/harness.ts";
import { PROMETHEUS_PACKAGES, type Prometheus, readAlerts, readBoardQueries, startPrometheus } from "./prometheus.ts";

const ADMIN_KEY = "the-admin-key-that-is-watched";
const METRICS_TOKEN = "the-token-by-which-metrics-are-read";
/** Seconds in which every query has to give a series. */
const LIMIT_S = 120;

describeWithPackages("Prometheus as delivered, on two replicas under load", PROMETHEUS_PACKAGES, function () {
  this.timeout(240_000);
  let database: TestDatabase;
  let replicas: readonly [TestServer, TestServer];
  let prometheus: Prometheus;
  let tools: ToolsServer;
  let receiver: WebServer;
  let clients: readonly [ControlPlane, ControlPlane];
  let load: Promise<void>;
  const ended = new AbortController();

  before(async () => {
    database = await createTestDatabase();
    const env = {
      ACP_ADMIN_KEY: ADMIN_KEY,
      ACP_ENCRYPTION_KEY: "the-encryption-key-that-both-replicas-have",
      ACP_METRICS_TOKEN: METRICS_TOKEN,
      ACP_MCP_ALLOW: "127.0.0.0/8",
      ACP_WEBHOOK_ALLOW: "127.0.0.0/8",
    };
    const start = () => startServer({ databaseUrl: database.url, env });
    replicas = [await start(), await start()];
    const [first, second] = replicas;
    clients = [connect({ ...first, adminKey: ADMIN_KEY }), connect({ ...second, adminKey: ADMIN_KEY }, "grpc")];
    tools = await startToolsServer();
    receiver = await serveWeb(async () => new Response());
    prometheus = await startPrometheus([new URL(first.http).host, new URL(second.http).host], METRICS_TOKEN);
    load = makeLoad();
    // Its failure is told where it is awaited.
    load.catch(() => undefined);
  });
  after(async () => {
    ended.abort();
    await load?.catch(() => undefined);
    for (const client of clients ?? []) client.close();
    await prometheus?.close();
    await tools?.close();
    await receiver?.close();
    for (const replica of replicas ?? []) await replica.stop();
    await database?.drop();
  });

  /** Has a bit of everything happen, over and over. */
  async function makeLoad(): Promise<void> {
    const [first] = replicas;
    const [http, grpc] = clients;
    const call = async (path: string, body: object): Promise<void> => {
      const headers = { "x-api-key": ADMIN_KEY, "content-type": "application/json" };
      await fetch(first.http + path, { method: "POST", headers, body: JSON.stringify(body) }).then((each) =>
        each.text(),
      );
    };
    const agentId = await registerAgent(http);
    await escalateReviews(http);
    await call("/v1/enforce/webhooks", { url: receiver.url, events: ["escalation.created"] });
    await call("/v1/enforce/mcp-servers", { name: "tools", url: tools.url });
    const mcp = await connectStateful(new URL(`${first.http}/mcp/tools`), {
      "x-api-key": ADMIN_KEY,
      "x-agent-id": agentId,
    });
    while (!ended.signal.aborted) {
      for (const client of clients)
        await client.intercept({ agentId, actionType: "note.write", actionContent: "a note" });
      const { escalationId } = await grpc.intercept({
        agentId,
        actionType: "review.send",
        actionContent: `${Date.now()}`,
      });
      const approval = { escalationId: escalationId ?? "", resolution: Resolution.APPROVED };
      await http.client(EscalationService).resolveEscalation(approval);
      await mcp.callTool({ name: "read", arguments: {} });
      await http
        .client(EnforcementService)
        .getDecision({ decisionId: "dec_none" })
        .catch(() => undefined);
      await delay(50);
    }
    await mcp.close();
  }

  async function untilEachGives(queries: ReadonlyMap<string, string>): Promise<void> {
    const missing = new Map(queries);
    for (
      const endsAt = performance.now() + LIMIT_S * 1_000;
      missing.size > 0 && performance.now() < endsAt;
      await delay(500)
    ) {
      for (const [name, query] of missing) if ((await prometheus.count(query)) > 0) missing.delete(name);
    }
    expect([...missing]).to.deep.equal([]);
  }

  it("gives a series to every query of the board.", async () => {
    await untilEachGives(new Map(readBoardQueries().map(({ panel, query }, index) => [`${index} ${panel}`, query])));
  });

  it("gives a series to the expression of every alert, taken without its bound.", async () => {
    const withoutBound = (expr: string): string => expr.replace(/ (==|>|<) [\d.]+$/, "");
    await untilEachGives(new Map(readAlerts().map(({ alert, expr }) => [alert, withoutBound(expr)])));
  });

  it("has no alert fire while two replicas serve.", async () => {
    expect(await prometheus.count('ALERTS{alertstate="firing"}')).to.equal(0);
  });

  it("reads nothing without the token, from behind a proxy.", async () => {
    const [{ http }] = replicas;
    const headers = { "x-forwarded-for": "203.0.113.7" };
    expect((await fetch(`${http}/metrics`, { headers })).status).to.equal(401);
    const token = { authorization: `Bearer ${METRICS_TOKEN}` };
    expect((await fetch(`${http}/metrics`, { headers: { ...headers, ...token } })).status).to.equal(200);
  });
});
