import { Agent, get as httpGet, request as httpRequest, type IncomingMessage } from "node:http";
import { connect as http2Connect } from "node:http2";
import { get as httpsGet } from "node:https";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { Client, credentials } from "@grpc/grpc-js";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import type { HttpRoute } from "../../src/server/http.ts";
import { sendText } from "../../src/server/http-reply.ts";
import { versionOf } from "../../src/version.ts";
import {
  connectOutcome,
  deferred,
  echo,
  GOOD,
  grpcFailure,
  type Harness,
  KEY,
  startHarness,
  until,
} from "./harness.ts";
import { TEST_TLS } from "./tls-pair.ts";

describe("the HTTP port", () => {
  let harness: Harness;
  let notReady: ControlPlaneError | undefined;

  const route = (prefix: string, answer: string | false): HttpRoute => ({
    prefix,
    handle: (request, response) =>
      answer === false ? false : sendText(response, 200, "text/plain", `${answer} ${request.url}`),
  });

  before(async () => {
    harness = await startHarness({
      http: {
        ready: async () => {
          if (notReady !== undefined) throw notReady;
        },
        extra: [
          route("/guides", "docs"),
          route("/guides/deep", "deep"),
          route("/v1/enforce/intercept", false),
          { prefix: "/broken", handle: () => Promise.reject(new Error("disk gone")) },
        ],
      },
    });
  });
  after(() => harness.stop());

  const text = async (path: string): Promise<string> => (await fetch(harness.url(path))).text();

  it("says that it is alive", async () => {
    expect(await text("/healthz")).to.equal(`{"ok":true,"version":"${versionOf()}"}`);
  });

  it("is ready as long as the check passes, and says why it is not", async () => {
    expect((await fetch(harness.url("/readyz?verbose"))).status).to.equal(200);
    notReady = new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, "the database does not answer");
    const response = await fetch(harness.url("/readyz"));
    notReady = undefined;
    expect([response.status, response.headers.get("retry-after")]).to.deep.equal([503, "1"]);
    expect(await response.json()).to.deep.equal({
      ok: false,
      error: {
        code: 503,
        status: "UNAVAILABLE",
        message: "the database does not answer",
        details: [{ reason: "STORE_UNAVAILABLE", domain: "agentcontrol.v1", metadata: {} }],
      },
    });
  });

  it("serves metrics as Prometheus text and the OpenAPI document as JSON", async () => {
    const metrics = await fetch(harness.url("/metrics"));
    expect(metrics.headers.get("content-type")).to.match(/^text\/plain; version=0\.0\.4/);
    expect(await metrics.text()).to.contain("# TYPE acp_call_seconds histogram");
    const document = await fetch(harness.url("/openapi.json"));
    expect(document.headers.get("content-type")).to.equal("application/json");
    expect(await document.json()).to.have.property("openapi", "3.1.0");
  });

  it("serves the schema of mandates to pages of every origin, and only once to those who have it", async () => {
    const address = harness.url("/schemas/mandate.json");
    const first = await fetch(address, { headers: { origin: "https://editor.example" } });
    expect(first.headers.get("access-control-allow-origin")).to.equal("*");
    expect(first.headers.has("access-control-allow-credentials")).to.equal(false);
    expect(first.headers.get("cache-control")).to.equal("public, max-age=3600");
    expect(first.headers.get("content-type")).to.equal("application/json");
    expect(await first.json()).to.have.property("title", "Mandates of an Agent Control Plane");
    const etag = first.headers.get("etag") ?? "";
    for (const known of [etag, `"a", W/${etag}`]) {
      const again = await fetch(address, { headers: { "if-none-match": known } });
      expect([again.status, again.headers.get("etag"), await again.text()]).to.deep.equal([304, etag, ""]);
    }
    expect((await fetch(address, { headers: { "if-none-match": '"a"' } })).status).to.equal(200);
    const head = await fetch(address, { method: "HEAD" });
    expect([head.status, head.headers.get("etag"), await head.text()]).to.deep.equal([200, etag, ""]);
    expect((await fetch(address, { method: "POST", body: "x" })).status).to.equal(405);
  });

  it("answers a wrong method with 405 and what is allowed", async () => {
    const response = await fetch(harness.url("/metrics"), { method: "POST", body: "x" });
    expect([response.status, response.headers.get("allow")]).to.deep.equal([405, "GET, HEAD"]);
  });

  it("asks extra routes by whole path segments, the longest first", async () => {
    expect(await text("/guides")).to.equal("docs /guides");
    expect(await text("/guides/x?y=1")).to.equal("docs /guides/x?y=1");
    expect(await text("/guides/deep/x")).to.equal("deep /guides/deep/x");
    expect((await fetch(harness.url("/guidesx"))).status).to.equal(404);
  });

  it("goes on to REST when an extra route does not answer", async () => {
    expect((await harness.intercept("rest", GOOD)).code).to.equal("OK");
  });

  it("answers a failing extra route in the REST form, without its text", async () => {
    const response = await fetch(harness.url("/broken"));
    const body = await response.text();
    expect(response.status).to.equal(500);
    expect(JSON.parse(body)).to.have.nested.property("error.status", "INTERNAL");
    expect(body).not.to.contain("disk gone");
  });

  it("answers an unknown path with 404 in the REST form and a request id", async () => {
    const response = await fetch(harness.url("/nothing"), { headers: { "x-request-id": "abc" } });
    expect([response.status, response.headers.get("x-request-id")]).to.deep.equal([404, "abc"]);
    expect(await response.json()).to.have.nested.property("error.details[0].reason", "ROUTE_NOT_FOUND");
  });

  describe("at an unknown path", () => {
    const BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
    const open = (path: string, accept: string, init: RequestInit = {}) =>
      fetch(harness.url(path), { ...init, headers: { accept } });

    for (const path of ["/nothing", "/docs/nothing", "/v1/nothing", "/v1/enforce/nothing?x=1"]) {
      it(`answers a browser with a page that leads on (${path})`, async () => {
        const response = await open(path, BROWSER);
        const html = await response.text();
        expect([response.status, response.headers.get("content-type")]).to.deep.equal([
          404,
          "text/html; charset=utf-8",
        ]);
        expect(html).to.contain("There is nothing here").and.contain('href="/overview"').and.contain('href="/docs"');
      });
    }

    it("gives the page the security headers of the dashboard", async () => {
      const { headers } = await open("/nothing", BROWSER);
      expect(headers.get("content-security-policy")).to.match(/^default-src 'none'; style-src 'nonce-[\w+/=]+'; /);
      expect(headers.get("content-security-policy")).to.contain("frame-ancestors 'none'");
      expect({
        referrer: headers.get("referrer-policy"),
        opener: headers.get("cross-origin-opener-policy"),
        permissions: headers.get("permissions-policy"),
        sniffing: headers.get("x-content-type-options"),
        cache: headers.get("cache-control"),
      }).to.deep.equal({
        referrer: "no-referrer",
        opener: "same-origin",
        permissions: "camera=(), geolocation=(), microphone=(), payment=()",
        sniffing: "nosniff",
        cache: "no-store",
      });
      expect(headers.get("x-request-id")).to.be.a("string");
    });

    it("repeats nothing of the address unescaped, and little of a long one", async () => {
      const hostile = `/<script>alert(1)</script>"'&`;
      const { port, hostname } = new URL(harness.url("/"));
      const html = await new Promise<string>((resolve, reject) => {
        // Sends the path as it is, where `fetch` would encode it.
        httpGet(
          { port, host: hostname, path: `${hostile}${"x".repeat(5_000)}`, headers: { accept: BROWSER } },
          (answer) => {
            let text = "";
            answer.setEncoding("utf8").on("data", (part: string) => {
              text += part;
            });
            answer.once("end", () => resolve(text));
          },
        ).once("error", reject);
      });
      expect(html).to.contain("&lt;script&gt;alert(1)&lt;/script&gt;&quot;").and.not.contain("<script");
      expect(html).to.contain("x…</code>").and.not.contain("x".repeat(201));
    });

    for (const accept of [
      "*/*",
      "application/json",
      "text/html, application/json",
      "text/html;q=0.5, application/json",
      "text/html;q=0.5, */*;q=0.8",
      "text/html;q=none",
      "text/plain",
      "",
    ]) {
      it(`keeps the REST form for a caller that does not prefer HTML (${accept === "" ? "no type" : accept})`, async () => {
        const response = await open("/nothing", accept);
        expect(response.status).to.equal(404);
        expect(await response.json()).to.have.nested.property("error.details[0].reason", "ROUTE_NOT_FOUND");
      });
    }

    it("keeps the REST form for a request that changes something", async () => {
      const response = await open("/nothing", BROWSER, { method: "POST", body: "{}" });
      expect(await response.json()).to.have.nested.property("error.details[0].reason", "ROUTE_NOT_FOUND");
    });

    it("sends no body for HEAD", async () => {
      const response = await open("/nothing", BROWSER, { method: "HEAD" });
      expect([response.status, await response.text()]).to.deep.equal([404, ""]);
    });
  });

  it("refuses a bidirectional stream over HTTP/1.1, where no protocol allows it", async () => {
    const client = createClient(EnforcementService, harness.transport("connect"));
    const replies = client.interceptStream((async function* none() {})(), { headers: KEY });
    let code = "";
    try {
      for await (const _ of replies);
    } catch (error) {
      code = connectOutcome(error as Parameters<typeof connectOutcome>[0]).code;
    }
    expect(code).not.to.equal("");
  });
});

describe("closing the HTTP port", () => {
  it("closes idle connections at once and open ones with their response", async () => {
    const finish = deferred();
    const harness = await startHarness({
      enforcement: {
        async intercept() {
          await finish.promise;
          return { decisionId: "dec_1" };
        },
      },
    });
    const agent = new Agent({ keepAlive: true });
    const idle = await new Promise<IncomingMessage>((resolve) =>
      httpGet({ host: "127.0.0.1", port: harness.httpPort, path: "/healthz", agent }, resolve),
    );
    const idleClosed = new Promise((resolve) => idle.socket.once("close", resolve));
    idle.resume();
    await new Promise((resolve) => idle.once("end", resolve));
    const body = JSON.stringify({ action_type: "send", agent_id: "agt_1" });
    const answered = new Promise<IncomingMessage>((resolve) => {
      const headers = { ...KEY, "content-type": "application/json" };
      const options = {
        host: "127.0.0.1",
        port: harness.httpPort,
        path: "/v1/enforce/intercept",
        method: "POST",
        headers,
      };
      httpRequest({ ...options, agent: new Agent({ keepAlive: true }) }, resolve).end(body);
    });
    await until(() => harness.seen.length === 1);
    const stopped = harness.closeHttp(60_000);
    await idleClosed;
    finish.resolve();
    expect((await answered).resume().statusCode).to.equal(200);
    await stopped;
    agent.destroy();
    await harness.stop();
  });

  it("cuts off what is open after the grace", async () => {
    const harness = await startHarness({ enforcement: { intercept: () => new Promise(() => {}) } });
    const cut = harness.intercept("connect", GOOD);
    await until(() => harness.seen.length === 1);
    await harness.closeHttp(20);
    expect((await cut).code).not.to.equal("OK");
    await harness.stop();
  });
});

describe("the ports with TLS", () => {
  let harness: Harness;
  let baseUrl: string;
  const nodeOptions = { ca: TEST_TLS.cert };

  before(async () => {
    harness = await startHarness({ tls: TEST_TLS, enforcement: { interceptStream: echo } });
    baseUrl = `https://localhost:${harness.httpPort}`;
  });
  after(() => harness.stop());

  it("speak HTTP/1.1 to a client that knows no other", async () => {
    const response = await new Promise<IncomingMessage>((resolve) =>
      httpsGet(`${baseUrl}/healthz`, { ...nodeOptions, agent: false }, resolve),
    );
    expect([response.statusCode, response.httpVersion]).to.deep.equal([200, "1.1"]);
    response.resume();
  });

  it("serve REST over HTTP/2", async () => {
    const session = http2Connect(baseUrl, nodeOptions);
    const stream = session.request({
      ":method": "POST",
      ":path": "/v1/enforce/intercept",
      "content-type": "application/json",
      ...KEY,
    });
    stream.end(JSON.stringify({ action_type: "send", agent_id: "agt_1" }));
    const status = await new Promise((resolve) => stream.once("response", (headers) => resolve(headers[":status"])));
    expect(status).to.equal(200);
    session.destroy();
  });

  const transports = {
    connect: () => createConnectTransport({ baseUrl, httpVersion: "2", nodeOptions }),
    grpc: () => createGrpcTransport({ baseUrl, nodeOptions }),
  };
  for (const [protocol, transport] of Object.entries(transports)) {
    it(`serve unary calls and bidirectional streams over ${protocol}`, async () => {
      const client = createClient(EnforcementService, transport());
      expect((await client.intercept(GOOD, { headers: KEY })).decisionId).to.equal("dec_agt_1");
      const uuids = [1, 2, 3].map((n) => `00000000-0000-4000-8000-00000000000${n}`);
      async function* requests() {
        for (const requestId of uuids) yield { intercept: { ...GOOD, requestId } };
      }
      const ids: string[] = [];
      for await (const { requestId } of client.interceptStream(requests(), { headers: KEY })) ids.push(requestId);
      expect(ids).to.deep.equal(uuids);
    });

    it(`end a stream over ${protocol} with the refusal of its request`, async () => {
      const client = createClient(EnforcementService, transport());
      async function* requests() {
        yield { intercept: { actionType: "", agentId: "agt_1" } };
      }
      try {
        for await (const _ of client.interceptStream(requests(), { headers: KEY }));
        expect.fail("the stream ended without an error");
      } catch (error) {
        const outcome = connectOutcome(error as Parameters<typeof connectOutcome>[0]);
        expect([outcome.reason, outcome.violations[0]?.field]).to.deep.equal([
          "INVALID_FIELD",
          "intercept.action_type",
        ]);
      }
    });
  }

  it("tell a foreign gRPC client on the HTTP port of a method that is not there", async () => {
    const client = new Client(`localhost:${harness.httpPort}`, credentials.createSsl(Buffer.from(TEST_TLS.cert)));
    const path = "/agentcontrol.v1.EnforcementService/Guess";
    const outcome = await grpcFailure(client, path, Buffer.alloc(0));
    client.close();
    expect([outcome.code, outcome.reason]).to.deep.equal(["UNIMPLEMENTED", "ROUTE_NOT_FOUND"]);
  });

  it("serve native gRPC with TLS on its own port", async () => {
    const transport = createGrpcTransport({ baseUrl: `https://localhost:${harness.grpcPort}`, nodeOptions });
    const client = createClient(EnforcementService, transport);
    expect((await client.intercept(GOOD, { headers: KEY })).decisionId).to.equal("dec_agt_1");
  });
});
