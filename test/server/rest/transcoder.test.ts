import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { expect } from "chai";
import { ControlPlaneError, ErrorReason } from "../../../src/errors.ts";
import { type Harness, startHarness } from "./harness.ts";

interface Served {
  readonly description: string;
  readonly ask: string;
  readonly body?: unknown;
  readonly rpc: string;
  readonly request: Record<string, unknown>;
}

interface Refused {
  readonly description: string;
  readonly ask: string;
  readonly body?: string;
  readonly headers?: Record<string, string>;
  readonly status: number;
  readonly reason: string;
  readonly field?: string;
  readonly message?: string;
  readonly allow?: string;
}

function cases<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`../../testdata/rest/${name}`, import.meta.url), "utf8"));
}

const AGENTS = "/v1/enforce/agents";
const LIST = `GET ${AGENTS}`;
const INTERCEPT = "POST /v1/enforce/intercept";
const ACTION = '{"action_type":"send","agent_id":"agt_1"}';

describe("the REST transcoder", () => {
  let harness: Harness;
  before(async () => {
    harness = await startHarness();
  });
  after(() => harness.stop());
  beforeEach(() => {
    harness.unary = async () => ({});
    harness.calls.length = 0;
  });

  for (const { description, ask, body, rpc, request } of cases<Served>("requests.json")) {
    it(`understands ${description}.`, async () => {
      const answer = await harness.ask({ ask, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
      expect(answer.status, answer.text).to.equal(200);
      expect(harness.calls[0]?.rpc).to.equal(rpc);
      expect(harness.calls[0]?.request).to.containSubset(request);
    });
  }

  for (const { description, status, reason, field, message = "", allow, ...asked } of cases<Refused>(
    "requests-refused.json",
  )) {
    it(`refuses ${description} with ${status}.`, async () => {
      const answer = await harness.ask(asked);
      expect([answer.status, answer.reason, answer.field]).to.deep.equal([status, reason, field]);
      expect(answer.text).to.contain(message);
      expect(answer.headers.allow).to.equal(allow);
      expect(harness.calls).to.deep.equal([]);
    });
  }

  it("answers with JSON that nobody stores.", async () => {
    harness.unary = async () => ({ decisionId: "é" });
    const answer = await harness.ask({ ask: INTERCEPT, body: ACTION });
    expect(answer.json.decision_id).to.equal("é");
    expect(answer.headers).to.include({ "content-type": "application/json", "cache-control": "no-store" });
    expect(answer.headers["content-length"]).to.equal(String(Buffer.byteLength(answer.text)));
  });

  it("answers HEAD as GET without the body.", async () => {
    const get = await harness.ask({ ask: LIST });
    const head = await harness.ask({ ask: `HEAD ${AGENTS}` });
    expect([head.status, head.text]).to.deep.equal([200, ""]);
    expect(head.headers["content-length"]).to.equal(get.headers["content-length"]);
  });

  it("answers OPTIONS with 204 and the methods.", async () => {
    const answer = await harness.ask({ ask: "OPTIONS /v1/enforce/webhooks/x:test" });
    expect([answer.status, answer.headers.allow]).to.deep.equal([204, "POST, GET, PATCH, DELETE, HEAD, OPTIONS"]);
  });

  it("takes a request without body and media type where every field may be absent.", async () => {
    expect((await harness.ask({ ask: "POST /v1/enforce/webhooks/w1:test" })).status).to.equal(200);
    const empty = await harness.ask({
      ask: "POST /v1/enforce/webhooks/w1:test",
      headers: { "content-length": "0" },
    });
    expect(empty.status).to.equal(200);
  });

  for (const contentType of [
    "application/json;charset=UTF-8",
    'Application/JSON; charset="utf-8"',
    "application/json; x=y",
  ]) {
    it(`takes the media type ${contentType}.`, async () => {
      const headers = { "content-type": contentType };
      expect((await harness.ask({ ask: INTERCEPT, body: ACTION, headers })).status).to.equal(200);
    });
  }

  for (const accept of [
    "text/html,application/xhtml+xml,*/*;q=0.8",
    "application/*",
    "application/json;q=0.1, text/html",
    "",
  ]) {
    it(`serves JSON for Accept \`${accept}\`.`, async () => {
      expect((await harness.ask({ ask: LIST, headers: { accept } })).status).to.equal(200);
    });
  }

  it("answers what the service throws, and anything unknown as an internal fault.", async () => {
    harness.unary = () => Promise.reject(new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, "no such agent"));
    expect((await harness.ask({ ask: LIST })).status).to.equal(404);
    harness.unary = () => Promise.reject(new TypeError("secret"));
    const answer = await harness.ask({ ask: LIST });
    expect([answer.status, answer.reason]).to.deep.equal([500, "INTERNAL"]);
    expect(answer.text).not.to.contain("secret");
  });

  it("answers a response that no JSON can hold as an internal fault.", async () => {
    harness.unary = async () => ({ agent: { registeredAt: { seconds: 10n ** 15n, nanos: 0 } } });
    const answer = await harness.ask({ ask: `GET ${AGENTS}/x` });
    expect([answer.status, answer.reason]).to.deep.equal([500, "INTERNAL"]);
  });

  it("refuses a body by its declared size, and closes the connection.", async () => {
    const answer = await harness.ask({ ask: INTERCEPT, body: Buffer.alloc(100_000, "x") });
    expect([answer.status, answer.reason]).to.deep.equal([413, "BODY_TOO_LARGE"]);
    expect(answer.headers.connection).to.equal("close");
  });

  it("refuses a body of undeclared size as soon as it is too large.", async () => {
    const chunk = `${(9000).toString(16)}\r\n${" ".repeat(9000)}\r\n`;
    const text = await rawExchange(harness.port, `${head(INTERCEPT, "transfer-encoding: chunked")}${chunk}${chunk}`);
    expect(text).to.match(/^HTTP\/1.1 413 /);
    expect(text.toLowerCase()).to.contain("connection: close");
  });

  it("serves the next request on a connection whose last body it did not read.", async () => {
    const first = `${head("PUT /v1/enforce/agents", "content-length: 5")}[1,2]`;
    const second = `${head(INTERCEPT, `content-length: ${ACTION.length}`)}${ACTION}`;
    const text = await rawExchange(harness.port, `${first}${second}${head(LIST, "connection: close")}`);
    expect(text.match(/HTTP\/1.1 \d+/g)).to.deep.equal(["HTTP/1.1 405", "HTTP/1.1 200", "HTTP/1.1 200"]);
  });

  it("calls nothing for a client that leaves in the middle of its body, and serves the next one.", async () => {
    const socket = connect(harness.port, "127.0.0.1");
    await new Promise<void>((resolve) => socket.write(`${head(INTERCEPT, "content-length: 50")}{`, () => resolve()));
    socket.destroy();
    expect((await harness.ask({ ask: LIST })).status).to.equal(200);
    expect(harness.calls.map(({ rpc }) => rpc)).to.deep.equal(["ListAgents"]);
  });

  it("aborts the call's signal when the client leaves.", async () => {
    const arrived = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<void>();
    harness.unary = ({ context }) => {
      context.signal.addEventListener("abort", () => aborted.resolve());
      arrived.resolve();
      return aborted.promise.then(() => ({}));
    };
    const socket = connect(harness.port, "127.0.0.1");
    socket.write(head(LIST, "x: y"));
    await arrived.promise;
    socket.destroy();
    await aborted.promise;
  });

  it("does not abort the signal of a call that was answered.", async () => {
    let signal: AbortSignal | undefined;
    harness.unary = async ({ context }) => {
      signal = context.signal;
      return {};
    };
    await harness.ask({ ask: LIST, headers: { connection: "close" } });
    // By the next answer the server has seen the first connection close.
    await harness.ask({ ask: LIST });
    expect(signal?.aborted).to.equal(false);
  });
});

function head(ask: string, header: string): string {
  const type = ask.startsWith("GET") ? "" : "content-type: application/json\r\n";
  return `${ask} HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\n${type}${header}\r\n\r\n`;
}

function rawExchange(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    let received = "";
    socket.on("data", (chunk) => {
      received += chunk;
    });
    socket.on("close", () => resolve(received)).on("error", reject);
  });
}
