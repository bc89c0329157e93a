import { type IncomingHttpHeaders, request } from "node:http";
import { expect } from "chai";
import { ADMIN_KEY, type Harness, startHarness } from "./harness.ts";

const ALLOWED = "https://app.example.com";
const REST = "/v1/enforce/intercept";
const CONNECT = "/agentcontrol.v1.EnforcementService/Intercept";
const ACTION = JSON.stringify({ action_type: "send", agent_id: "agt_1" });
const ACTION_OF_CONNECT = JSON.stringify({ actionType: "send", agentId: "agt_1" });
const PREFLIGHT = { "access-control-request-method": "POST", "access-control-request-headers": "x-api-key" };

interface Reply {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
}

describe("calls of pages from other origins", () => {
  let harness: Harness;
  before(async () => {
    harness = await startHarness({ http: { corsOrigins: [ALLOWED, "http://localhost:3000"] } });
  });
  after(() => harness.stop());

  function send(method: string, path: string, headers: Record<string, string>, body = ""): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const sent = request(harness.url(path), { method, headers, agent: false }, (response) => {
        response.resume();
        response.once("end", () => resolve({ status: response.statusCode, headers: response.headers }));
      });
      sent.once("error", reject);
      sent.end(body);
    });
  }

  const post = (path: string, headers: Record<string, string>) =>
    send(
      "POST",
      path,
      { "content-type": "application/json", "x-api-key": ADMIN_KEY, ...headers },
      path === REST ? ACTION : ACTION_OF_CONNECT,
    );

  for (const path of [REST, CONNECT, "/v1/enforce/unknown"]) {
    it(`may be tried with a preflight request for ${path}.`, async () => {
      const { status, headers } = await send("OPTIONS", path, { origin: ALLOWED, ...PREFLIGHT });
      expect(status).to.equal(204);
      expect(headers).to.include({
        "access-control-allow-origin": ALLOWED,
        vary: "Origin",
        "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
      });
      const allowed = String(headers["access-control-allow-headers"]).toLowerCase().split(", ");
      const wanted = ["x-api-key", "authorization", "content-type", "connect-protocol-version", "connect-timeout-ms"];
      expect(allowed).to.include.members([...wanted, "x-grpc-web", "grpc-timeout", "x-request-id"]);
      expect(allowed).not.to.include("x-csrf-token");
      expect(headers).not.to.have.property("access-control-allow-credentials");
    });
  }

  for (const path of [REST, CONNECT]) {
    it(`can be read by a listed origin at ${path}, refusals too.`, async () => {
      for (const [key, status] of [
        [ADMIN_KEY, 200],
        ["acp_unknown", 401],
      ] as const) {
        const reply = await post(path, { origin: ALLOWED, "x-api-key": key });
        expect(reply.status).to.equal(status);
        expect(reply.headers).to.include({ "access-control-allow-origin": ALLOWED, vary: "Origin" });
        expect(String(reply.headers["access-control-expose-headers"]).toLowerCase()).to.contain(
          "grpc-status-details-bin",
        );
        expect(reply.headers).not.to.have.property("access-control-allow-credentials");
      }
    });
  }

  const FOREIGN = [
    "null",
    "*",
    "https://app.example.com.evil.test",
    "https://evil-app.example.com",
    "https://evil.test/https://app.example.com",
    "https://app.example.com:8443",
    "http://app.example.com",
    "https://APP.example.com",
    "https://app.example.com/",
    "https://app.example.com, https://evil.test",
    "http://localhost:30000",
    "http://localhost",
  ];
  for (const origin of FOREIGN) {
    it(`are not opened to the origin \`${origin}\`.`, async () => {
      for (const reply of [await send("OPTIONS", REST, { origin, ...PREFLIGHT }), await post(REST, { origin })]) {
        expect(Object.keys(reply.headers).filter((name) => name.startsWith("access-control-"))).to.deep.equal([]);
        expect(reply.headers.vary).to.equal("Origin");
      }
    });
  }

  it("are not opened to a request that carries cookies.", async () => {
    const { headers } = await post(REST, { origin: ALLOWED, cookie: "acp_sign_in=acps_a" });
    expect(headers).not.to.have.property("access-control-allow-origin");
  });

  it("are not opened outside of the API.", async () => {
    for (const path of ["/dashboard/sign-in", "/dashboard/session", "/metrics", "/healthz", "/", "/v1x"]) {
      const { headers } = await send("OPTIONS", path, { origin: ALLOWED, ...PREFLIGHT });
      expect(headers, path).not.to.have.property("access-control-allow-origin");
    }
  });

  it("are answered without any such header where no origin is listed.", async () => {
    const plain = await startHarness();
    try {
      const response = await fetch(plain.url(REST), { method: "OPTIONS", headers: { origin: ALLOWED } });
      expect(response.headers.has("access-control-allow-origin")).to.equal(false);
      expect(response.headers.has("vary")).to.equal(false);
    } finally {
      await plain.stop();
    }
  });
});
