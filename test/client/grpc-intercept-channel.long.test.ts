import { expect } from "chai";
import type { ControlPlane, ControlPlaneRequestError, InterceptResult } from "../../src/client/index.ts";
import { createNodeControlPlane, type NodeControlPlaneOptions } from "../../src/client/node/index.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { startServiceProcess, type TestService, type TestServiceProcess } from "../support/service.ts";
import { rejection, startRuledService } from "./harness.ts";
import { startTcpProxy, type TcpProxy } from "./tcp-proxy.ts";

const CALLERS = 500;

describe("the gRPC intercept channel", () => {
  let service: TestService;
  let agentId: string;
  let proxy: TcpProxy;
  let controlPlane: ControlPlane;
  let unaryCalls: number;

  const connect = (options: Partial<NodeControlPlaneOptions> = {}): ControlPlane => {
    const { http: baseUrl, adminKey: apiKey } = service;
    const counted: typeof fetch = (input, init) => {
      unaryCalls += 1;
      return fetch(input, init);
    };
    return createNodeControlPlane({ baseUrl, apiKey, grpcUrl: proxy.address, fetch: counted, ...options });
  };
  const intercept = (options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<InterceptResult> =>
    controlPlane.intercept({ actionType: "read", actionContent: "", agentId }, options);
  const burst = (count: number): Promise<InterceptResult[]> =>
    Promise.all(Array.from({ length: count }, () => intercept()));

  before("starts a server", async () => {
    service = await startRuledService();
  });
  after("stops the server", () => service?.stop());
  beforeEach("connects through a proxy", async () => {
    agentId = await service.agent();
    proxy = await startTcpProxy(service.grpc);
    unaryCalls = 0;
    controlPlane = connect();
  });
  afterEach("disconnects", () => {
    controlPlane.close();
    proxy.close();
  });

  it("opens nothing before the first call", () => {
    expect(proxy.connections).to.equal(0);
  });

  it(`sends ${CALLERS} concurrent calls over one connection and gives each its own decision`, async () => {
    const results = await burst(CALLERS);
    expect(new Set(results.map(({ decisionId }) => decisionId))).to.have.property("size", CALLERS);
    expect(proxy.connections).to.equal(1);
    expect(unaryCalls).to.equal(0);
    expect(await service.decisionIdsOf(agentId)).to.have.members(results.map(({ decisionId }) => decisionId));
  });

  it("decides each action once when the connection breaks under the calls, and comes back to a stream", async () => {
    await burst(1);
    const calls = burst(CALLERS);
    proxy.cut();
    const results = await calls;
    expect(await service.decisionIdsOf(agentId)).to.have.length(CALLERS + 1);
    expect(new Set(results.map(({ decisionId }) => decisionId))).to.have.property("size", CALLERS);
    while (proxy.connections < 2) await intercept();
    unaryCalls = 0;
    await burst(10);
    expect(unaryCalls).to.equal(0);
  });

  it("sends a call over HTTP when the stream stays silent, the same decision whichever came first", async () => {
    await burst(1);
    proxy.silent = true;
    const result = await intercept({ timeoutMs: 2_000 });
    expect(unaryCalls).to.equal(1);
    expect(await service.decisionIdsOf(agentId))
      .to.have.length(2)
      .and.include(result.decisionId);
  });

  it("sends calls over HTTP while nothing listens on the gRPC address", async () => {
    controlPlane.close();
    controlPlane = connect({ grpcUrl: "127.0.0.1:1" });
    expect((await burst(20)).map(({ decision }) => decision)).to.deep.equal(Array(20).fill("allow"));
  });

  it("gives one decision to two calls with one request id at once", async () => {
    const requestId = crypto.randomUUID();
    const action = { actionType: "read", actionContent: "", agentId, requestId };
    const [first, second] = await Promise.all([controlPlane.intercept(action), controlPlane.intercept(action)]);
    expect(first.decisionId).to.equal(second.decisionId);
  });

  it("leaves the stream open for others when a call is refused or aborted", async () => {
    await burst(1);
    const refused = controlPlane.intercept({ actionType: "read", actionContent: "", agentId: "agt_unknown" });
    expect((await rejection(refused)) as ControlPlaneRequestError).to.include({ reason: "AGENT_NOT_FOUND" });
    const reason = new Error("changed my mind");
    const leaving = new AbortController();
    const aborted = rejection(intercept({ signal: leaving.signal }));
    leaving.abort(reason);
    expect(await aborted).to.equal(reason);
    await burst(10);
    expect(proxy.connections).to.equal(1);
    expect(unaryCalls).to.equal(0);
  });

  it("still decides after close, each call on its own", async () => {
    await burst(1);
    controlPlane.close();
    expect((await intercept()).decision).to.equal("allow");
    expect(unaryCalls).to.equal(1);
  });
});

describe("the gRPC intercept channel and a server that is killed", () => {
  const ROUNDS = 4;
  const KILL_AFTER = CALLERS;
  let service: TestServiceProcess;
  let second: TestServer | undefined;

  before("starts a server", async () => {
    service = await startServiceProcess();
  });
  after("stops both servers", async () => {
    await second?.stop();
    await service?.stop();
  });

  it(`gives ${CALLERS} callers exactly one decision for each action across kill -9 and restart`, async () => {
    const { database } = service;
    const agentId = await service.agent();
    const options = { baseUrl: service.http, apiKey: service.adminKey, grpcUrl: service.grpc, timeoutMs: 120_000 };
    const controlPlane = createNodeControlPlane(options);
    const decisionIds: string[] = [];
    const reached = Promise.withResolvers<void>();
    const caller = async (): Promise<void> => {
      for (let round = 0; round < ROUNDS; round++) {
        const { decisionId } = await controlPlane.intercept({ actionType: "read", actionContent: "", agentId });
        if (decisionIds.push(decisionId) === KILL_AFTER) reached.resolve();
      }
    };
    const callers = Promise.all(Array.from({ length: CALLERS }, caller));
    await reached.promise;
    await service.kill();
    expect(decisionIds.length).to.be.lessThan(CALLERS * ROUNDS);
    const ports = { ACP_HTTP_PORT: new URL(service.http).port, ACP_GRPC_PORT: service.grpc.split(":")[1] ?? "" };
    second = await startServer({ databaseUrl: database.url, env: { ...ports, ACP_ADMIN_KEY: service.adminKey } });
    await callers;
    controlPlane.close();
    expect(new Set(decisionIds)).to.have.property("size", CALLERS * ROUNDS);
    expect(await service.decisionIdsOf(agentId))
      .to.have.length(CALLERS * ROUNDS)
      .and.have.members(decisionIds);
  });
});
