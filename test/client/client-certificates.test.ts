import { once } from "node:events";
import { expect } from "chai";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import {
  createGrpcInterceptChannel,
  createNodeControlPlane,
  type NodeControlPlaneOptions,
} from "../../src/client/node/index.ts";
import { createAuthority } from "../support/certificates.ts";
import { serveWithTls, type TlsService } from "../support/tls-service.ts";

const ACTION = { agentId: "agt_aaaaaaaaaaaaaaaaaaaaaaaaaa", actionType: "pay", actionContent: "12 EUR" };

describe("a client in Node at a service that asks for certificates of clients", () => {
  let service: TlsService;
  let tls: { readonly ca: string; readonly cert: string; readonly key: string };
  before(async () => {
    service = await serveWithTls({ asksClients: true });
    tls = { ca: service.authority.cert, ...service.authority.issue("client") };
  });
  after(() => service?.stop());

  /** Asks for a decision; the agent is unknown, so a service that is reached says so. */
  async function fault(given: Partial<NodeControlPlaneOptions>): Promise<string> {
    const { http: baseUrl, adminKey: apiKey } = service;
    const controlPlane = createNodeControlPlane({ baseUrl, apiKey, timeoutMs: 3_000, ...given });
    try {
      return await controlPlane.intercept(ACTION).then(String, (error: Error) => error.message);
    } finally {
      controlPlane.close();
    }
  }

  const grpcUrl = (): string => `https://${service.grpc}`;

  it("shows its certificate over HTTP and over gRPC.", async () => {
    expect(await fault({ tls })).to.contain("no agent");
    expect(await fault({ tls, grpcUrl: grpcUrl() })).to.contain("no agent");
    const channel = createGrpcInterceptChannel({ url: grpcUrl(), apiKey: service.adminKey, tls });
    const request = { ...ACTION, requestId: crypto.randomUUID() } as never;
    const error = await channel.intercept(request, { signal: undefined, timeoutMs: 3_000 }).catch(String);
    channel.close();
    expect(error).to.contain("no agent");
  });

  it("watches an agent over a stream.", async () => {
    const controlPlane = createNodeControlPlane({ baseUrl: service.http, apiKey: service.adminKey, tls });
    const agents = controlPlane.client(AgentService);
    const { agent } = await agents.registerAgent({ name: "watched", framework: "none" });
    const agentId = agent?.agentId ?? "";
    const watch = controlPlane.watchAgent(agentId);
    await watch.ready;
    const stopped = once(watch.signal, "abort");
    await agents.deactivateAgent({ agentId });
    await stopped;
    watch.close();
    controlPlane.close();
  });

  it("without one is told what to set.", async () => {
    const { ca } = tls;
    expect(await fault({ tls: { ca } }))
      .to.match(/CERTIFICATE_REQUIRED|certificate required/i)
      .and.contain("`tls.cert` and `tls.key`");
    expect(await fault({ tls: { ca }, grpcUrl: grpcUrl() })).to.contain("`tls.cert` and `tls.key`");
  });

  it("with the certificate of another issuer is told what to set.", async () => {
    const other = createAuthority("another").issue("client");
    const message = await fault({ tls: { ...tls, ...other } });
    expect(message).to.contain("`tls.cert`");
  });

  it("that does not trust the service is told what to set.", async () => {
    const { cert, key } = tls;
    expect(await fault({ tls: { cert, key } })).to.contain("`tls.ca`");
    expect(await fault({})).to.contain("`tls.ca`");
  });

  it("refuses options that do not fit, and shows no key.", () => {
    const create = (given: object, url = service.http) =>
      createNodeControlPlane({ baseUrl: url, apiKey: service.adminKey, ...given });
    expect(() => create({ tls: { cert: tls.cert } })).to.throw(TypeError, "`tls.key` is missing");
    expect(() => create({ tls: { key: tls.key } })).to.throw(TypeError, "`tls.cert` is missing");
    expect(() => create({ tls: { ...tls, key: "no key" } })).to.throw(TypeError, /^`tls`(?!.*no key)/);
    expect(() => create({ tls: { ...tls, key: createAuthority().key } })).to.throw(TypeError, /^`tls`/);
    expect(() => create({ tls }, "http://127.0.0.1:7080")).to.throw(TypeError, /`tls` .*https/);
    expect(() => create({ tls, fetch })).to.throw(TypeError, "`fetch`");
    expect(() => create({ tls, grpcUrl: "127.0.0.1:7090" })).to.throw(TypeError, /`tls` .*`grpcUrl`/);
  });
});
