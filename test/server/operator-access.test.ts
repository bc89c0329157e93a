import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect as http2Connect } from "node:http2";
import { Client, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import { isForwarded, isLoopback } from "../../src/server/operator-access.ts";
import { startService, type TestService } from "../support/service.ts";
import { ADMIN_KEY, AUDITOR_KEY, type Harness, startHarness } from "./harness.ts";

const TOKEN = "metrics-token-0123456789";
const METHODS = ["v1", "v1alpha"].map((version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`);
/** A `ServerReflectionRequest` that lists the services: field 7, the text `*`. */
const LIST = Buffer.from([0x3a, 0x01, 0x2a]);
const OK = 0;
const UNAUTHENTICATED = 16;
const RESOURCE_EXHAUSTED = 8;

type Headers = Readonly<Record<string, string>>;

/** Asks for the metrics with exactly these headers, and gives status, reason and text. */
function askMetrics(port: number, headers: Headers, method = "GET"): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path: "/metrics", method, headers, agent: false };
    const onResponse = (response: IncomingMessage) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    };
    httpRequest(options, onResponse).on("error", reject).end();
  });
}

/** Asks reflection with exactly this metadata, and gives the status. */
function askReflection(address: string, path: string, headers: Headers): Promise<number> {
  const client = new Client(address, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  const asIs = (bytes: Buffer): Buffer => bytes;
  return new Promise((resolve) => {
    const call = client.makeBidiStreamRequest(path, asIs, asIs, metadata);
    const settle = (code: number) => {
      call.cancel();
      client.close();
      resolve(code);
    };
    call.once("data", () => settle(OK));
    call.on("error", ({ code }: ServiceError) => settle(code));
    call.write(LIST);
  });
}

/** Headers that say in one way or another that a proxy has passed a request on. */
const FORWARDED: readonly Headers[] = [
  { "x-forwarded-for": "203.0.113.7" },
  { "X-Forwarded-For": "127.0.0.1" },
  { "x-forwarded-for": "" },
  { x_forwarded_for: "203.0.113.7" },
  { "x-forwarded-proto": "https" },
  { "x-forwarded-host": "acp.example.com" },
  { "x-forwarded-port": "443" },
  { "x-forwarded": "for=203.0.113.7" },
  { forwarded: "for=127.0.0.1" },
  { "forwarded-for": "203.0.113.7" },
  { "x-real-ip": "127.0.0.1" },
  { via: "1.1 proxy" },
  { "x-client-ip": "203.0.113.7" },
  { "x-cluster-client-ip": "203.0.113.7" },
  { "true-client-ip": "203.0.113.7" },
  { "cf-connecting-ip": "203.0.113.7" },
  { "fastly-client-ip": "203.0.113.7" },
  { "x-envoy-external-address": "203.0.113.7" },
  { "x-original-forwarded-for": "203.0.113.7" },
  { "x-remote-addr": "203.0.113.7" },
  { "x-amzn-trace-id": "Root=1" },
];

describe("a loopback address", () => {
  it("is told from every other one.", () => {
    expect(
      ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"].filter(isLoopback),
    ).to.have.length(6);
    const others = ["0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "127.0.0.1.example.com", "128.0.0.1", ""];
    expect(others.filter(isLoopback)).to.deep.equal([]);
  });

  it("gets headers of clients that are no sign of a proxy.", () => {
    const common = ["host", "user-agent", "accept", "accept-encoding", "authorization", "x-api-key", "x-request-id"];
    expect(
      isForwarded([...common, "traceparent", "grpc-timeout", "te", "connection", "cookie", "x-agent-id"]),
    ).to.equal(false);
  });
});

describe("what operators read", () => {
  let local: Harness;
  let open: Harness;
  let keysOnly: Harness;
  before(async () => {
    local = await startHarness({ operators: { token: TOKEN } });
    open = await startHarness({ operators: { host: "0.0.0.0", token: TOKEN } });
    keysOnly = await startHarness({ operators: { host: "0.0.0.0" } });
  });
  after(async () => {
    for (const harness of [local, open, keysOnly]) await harness?.stop();
  });

  const reflect = ({ grpcPort }: Harness, path: string, headers: Headers): Promise<number> =>
    askReflection(`127.0.0.1:${grpcPort}`, path, headers);

  it("is open to programs on the same machine.", async () => {
    expect((await askMetrics(local.httpPort, {})).status).to.equal(200);
    for (const method of METHODS) expect(await reflect(local, method, {})).to.equal(OK);
  });

  for (const headers of FORWARDED) {
    it(`is closed to requests with ${JSON.stringify(headers)}.`, async () => {
      const { status, text } = await askMetrics(local.httpPort, headers);
      expect([status, text.includes("KEY_MISSING"), text.includes("# TYPE")]).to.deep.equal([401, true, false]);
      expect((await askMetrics(local.httpPort, headers, "HEAD")).status).to.equal(401);
      expect(await reflect(local, METHODS[0] as string, headers)).to.equal(UNAUTHENTICATED);
      const withToken = { ...headers, authorization: `Bearer ${TOKEN}` };
      expect((await askMetrics(local.httpPort, withToken)).status).to.equal(200);
      expect(await reflect(local, METHODS[1] as string, withToken)).to.equal(OK);
    });
  }

  it("is closed on any other address, but to the token and to keys of every role.", async () => {
    for (const [headers, isOpen] of [
      [{}, false],
      [{ authorization: `Bearer ${TOKEN}` }, true],
      [{ Authorization: `bearer   ${TOKEN}` }, true],
      [{ "x-api-key": ADMIN_KEY }, true],
      [{ "x-api-key": AUDITOR_KEY }, true],
      [{ authorization: `Bearer ${ADMIN_KEY}` }, true],
      [{ authorization: TOKEN }, false],
      [{ authorization: `Basic ${TOKEN}` }, false],
      [{ authorization: `Bearer ${TOKEN}x` }, false],
      [{ authorization: `Bearer ${TOKEN.slice(0, -1)}` }, false],
      [{ authorization: `Bearer ${TOKEN.toUpperCase()}` }, false],
      [{ authorization: "Bearer " }, false],
      [{ cookie: `acp_session=${TOKEN}` }, false],
    ] as const) {
      expect((await askMetrics(open.httpPort, headers)).status, JSON.stringify(headers)).to.equal(isOpen ? 200 : 401);
      for (const method of METHODS)
        expect(await reflect(open, method, headers), JSON.stringify(headers)).to.equal(isOpen ? OK : UNAUTHENTICATED);
    }
    const path = await fetch(`${open.url("/metrics")}?authorization=Bearer%20${TOKEN}`);
    expect(path.status).to.equal(401);
  });

  it("has no token to guess where none is configured.", async () => {
    for (const given of ["undefined", "null", "", TOKEN])
      expect((await askMetrics(keysOnly.httpPort, { authorization: `Bearer ${given}` })).status).to.equal(401);
    expect((await askMetrics(keysOnly.httpPort, { "x-api-key": ADMIN_KEY })).status).to.equal(200);
  });

  it("leaves health and the API as they are.", async () => {
    expect((await fetch(open.url("/healthz"))).status).to.equal(200);
    expect((await fetch(open.url("/openapi.json"))).status).to.equal(200);
  });

  it("is served nowhere else: no other path, protocol or port has reflection.", async () => {
    for (const path of METHODS) {
      for (const type of ["application/json", "application/proto", "application/grpc-web+proto", "application/grpc"]) {
        const response = await fetch(open.url(path), { method: "POST", headers: { "content-type": type }, body: LIST });
        const text = await response.text();
        const isRefused =
          response.status === 404 || response.headers.get("grpc-status") === "12" || text.includes("grpc-status: 12");
        expect([isRefused, text.includes("EnforcementService")], `${type} ${text}`).to.deep.equal([true, false]);
      }
    }
    for (const path of [
      "/grpc.reflection.v1.serverreflection/ServerReflectionInfo",
      `/${METHODS[0]}`,
      `${METHODS[0]}/`,
    ])
      expect(await reflect(open, path, {})).to.be.oneOf([12, UNAUTHENTICATED]);
    const session = http2Connect(`http://127.0.0.1:${open.grpcPort}`);
    const stream = session.request({ ":method": "GET", ":path": "/metrics" });
    stream.end();
    const headers = await new Promise<Record<string, unknown>>((resolve) => stream.once("response", resolve));
    expect(String(headers[":status"])).to.not.equal("200");
    session.destroy();
  });

  it("refuses many wrong tokens from one address as too many, while the right one is served.", async () => {
    const harness = await startHarness({ operators: { host: "0.0.0.0", token: TOKEN } });
    const guess = async (_: unknown, index: number) =>
      (await askMetrics(harness.httpPort, { authorization: `Bearer guess-${index}` })).status;
    const statuses = await Promise.all(Array.from({ length: 150 }, guess));
    expect(new Set(statuses)).to.deep.equal(new Set([401, 429]));
    const reflected = Array.from({ length: 5 }, () =>
      reflect(harness, METHODS[0] as string, { authorization: "Bearer guess" }),
    );
    expect(await Promise.all(reflected)).to.include(RESOURCE_EXHAUSTED);
    expect((await askMetrics(harness.httpPort, { authorization: `Bearer ${TOKEN}` })).status).to.equal(200);
    const logged = harness.logged.join("");
    expect(logged).to.include('"method":"/metrics"').and.not.include("guess-").and.not.include(TOKEN);
    await harness.stop();
  });
});

describe("what operators read, of a whole service", () => {
  let service: TestService;
  before(async () => {
    service = await startService({ env: { ACP_METRICS_TOKEN: TOKEN } });
  });
  after(() => service?.stop());

  it("is closed to a key that has ended.", async () => {
    const made = await service.rest("POST /v1/admin/keys", { name: "metrics", role: "auditor" });
    const { secret, key } = made as unknown as { secret: string; key: { key_id: string } };
    const port = Number(new URL(service.http).port);
    const ask = (headers: Headers) => askMetrics(port, { "x-forwarded-for": "203.0.113.7", ...headers });
    const reflect = (headers: Headers) =>
      askReflection(service.grpc, METHODS[0] as string, { "x-forwarded-for": "203.0.113.7", ...headers });
    expect((await ask({ "x-api-key": secret })).status).to.equal(200);
    expect(await reflect({ "x-api-key": secret })).to.equal(OK);
    await service.rest(`DELETE /v1/admin/keys/${key.key_id}`);
    const { status, text } = await ask({ "x-api-key": secret });
    expect([status, text.includes("KEY_INVALID")]).to.deep.equal([401, true]);
    expect(await reflect({ "x-api-key": secret })).to.equal(UNAUTHENTICATED);
  });

  it("is closed to a key that is bound to a revoked agent, which still opens Intercept.", async () => {
    const agentId = await service.agent();
    const made = await service.rest("POST /v1/admin/keys", { name: "bound", role: "agent", agent_id: agentId });
    const { secret } = made as unknown as { secret: string };
    const port = Number(new URL(service.http).port);
    const ask = () => askMetrics(port, { forwarded: "for=203.0.113.7", "x-api-key": secret });
    expect((await ask()).status).to.equal(200);
    await service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, { reason: "test" });
    expect((await ask()).status).to.equal(401);
  });

  it("is open to the token, and never says it.", async () => {
    const port = Number(new URL(service.http).port);
    const headers = { "x-forwarded-for": "203.0.113.7", authorization: `Bearer ${TOKEN}` };
    const { status, text } = await askMetrics(port, headers);
    expect([status, text.includes(TOKEN), service.output().includes(TOKEN)]).to.deep.equal([200, false, false]);
  });
});
