import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { create } from "@bufbuild/protobuf";
import { expect } from "chai";
import { ControlPlaneError, ErrorReason } from "../../../src/errors.ts";
import { createJsonEncoder } from "../../../src/server/rest/json-encoder.ts";
import { library } from "./descriptors.ts";
import { echo, type Harness, startHarness } from "./harness.ts";

interface Case {
  readonly description: string;
  readonly ask: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

interface Served extends Case {
  readonly rpc: string;
  readonly request: Record<string, unknown>;
}

interface Refused extends Case {
  readonly body?: string;
  readonly status: number;
  readonly reason: string;
  readonly field?: string;
  readonly message?: string;
  readonly allow?: string;
}

function cases<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`../../testdata/rest/${name}`, import.meta.url), "utf8"));
}

const encoder = createJsonEncoder({ registry: library().registry });

describe("the REST transcoder", () => {
  let harness: Harness;
  before(async () => {
    harness = await startHarness();
  });
  after(() => harness.stop());
  beforeEach(() => {
    harness.dispatcher = echo;
    harness.calls.length = 0;
    harness.infos.length = 0;
  });

  function send({ ask, body, headers = {} }: Case & { readonly body?: string }) {
    const [method = "", path = ""] = ask.split(" ");
    return harness.ask(method, path, { headers, ...(body === undefined ? {} : { body }) });
  }

  for (const { rpc, request, body, ...asked } of cases<Served>("requests.json")) {
    it(`understands ${asked.description}.`, async () => {
      const answer = await send({ ...asked, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
      expect(answer.status, answer.text).to.equal(200);
      expect(harness.calls[0]?.method.name).to.equal(rpc);
      const { method, request: message } = harness.calls[0] as (typeof harness.calls)[0];
      expect(JSON.parse(encoder.messageWriter(method.input)(message))).to.containSubset(request);
    });
  }

  for (const { status, reason, field, message = "", allow, ...asked } of cases<Refused>("requests-refused.json")) {
    it(`refuses ${asked.description} with ${status}.`, async () => {
      const answer = await send(asked);
      expect([answer.status, answer.reason]).to.deep.equal([status, reason]);
      expect(answer.field).to.equal(field);
      expect(answer.text).to.contain(message);
      expect(answer.headers.allow).to.equal(allow);
      expect(harness.calls).to.deep.equal([]);
      expect(harness.infos.map((info) => info.status)).to.deep.equal([status]);
    });
  }

  it("answers with JSON that nobody stores.", async () => {
    const answer = await harness.ask("POST", "/v1/books", { body: '{"title":"é"}' });
    expect(answer.json.title).to.equal("é");
    expect(answer.headers).to.include({ "content-type": "application/json", "cache-control": "no-store" });
    expect(answer.headers["content-length"]).to.equal(String(Buffer.byteLength(answer.text)));
  });

  it("answers with one field where the rule names it.", async () => {
    const answer = await harness.ask("PATCH", "/v1/books/b1", { body: '{"title":"t"}' });
    expect(answer.json).to.include({ book_id: "b1", title: "t" });
  });

  it("answers with null where the rule names a field that is unset.", async () => {
    harness.dispatcher = {
      ...echo,
      unary: async ({ method }) => create(method.output),
    };
    const answer = await harness.ask("PATCH", "/v1/books/b1", { body: "{}" });
    expect(answer.text).to.equal("null");
  });

  it("answers HEAD as GET without the body.", async () => {
    const get = await harness.ask("GET", "/v1/books");
    const head = await harness.ask("HEAD", "/v1/books");
    expect(head.status).to.equal(200);
    expect(head.text).to.equal("");
    expect(head.headers["content-length"]).to.equal(get.headers["content-length"]);
  });

  it("answers OPTIONS with 204 and the methods.", async () => {
    const answer = await harness.ask("OPTIONS", "/v1/books/x:archive");
    expect([answer.status, answer.headers.allow]).to.deep.equal([204, "POST, GET, PATCH, PUT, DELETE, HEAD, OPTIONS"]);
  });

  it("takes a request without body and media type where every field may be absent.", async () => {
    const answer = await harness.ask("POST", "/v1/books/b1:archive");
    expect(answer.status).to.equal(200);
    const empty = await harness.ask("POST", "/v1/books", { headers: { "content-length": "0" } });
    expect(empty.status).to.equal(200);
  });

  for (const contentType of [
    "application/json;charset=UTF-8",
    'Application/JSON; charset="utf-8"',
    "application/json; x=y",
  ]) {
    it(`takes the media type ${contentType}.`, async () => {
      const answer = await harness.ask("POST", "/v1/books", { body: "{}", headers: { "content-type": contentType } });
      expect(answer.status).to.equal(200);
    });
  }

  for (const accept of [
    "text/html,application/xhtml+xml,*/*;q=0.8",
    "application/*",
    "application/json;q=0.1, text/html",
    "",
  ]) {
    it(`serves JSON for Accept \`${accept}\`.`, async () => {
      expect((await harness.ask("GET", "/v1/books", { headers: { accept } })).status).to.equal(200);
    });
  }

  it("hands on headers by name in any case.", async () => {
    await harness.ask("GET", "/v1/books", { headers: { "X-API-Key": "k" } });
    expect(harness.calls[0]?.header("x-Api-key")).to.equal("k");
    expect(harness.calls[0]?.header("absent")).to.equal(undefined);
  });

  it("answers what the dispatcher throws, and anything unknown as an internal fault.", async () => {
    harness.dispatcher = {
      ...echo,
      unary: async () => {
        throw new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, "no such agent");
      },
    };
    expect((await harness.ask("GET", "/v1/books")).status).to.equal(404);
    harness.dispatcher = { ...echo, unary: () => Promise.reject(new TypeError("secret")) };
    const answer = await harness.ask("GET", "/v1/books");
    expect(answer.status).to.equal(500);
    expect(answer.text).not.to.contain("secret");
    expect(harness.infos.at(-1)?.error).to.be.instanceOf(TypeError);
  });

  it("reports each request with its route and status.", async () => {
    await harness.ask("GET", "/api/v1/books/x");
    expect(harness.infos).to.have.length(1);
    expect(harness.infos[0]).to.include({
      httpMethod: "GET",
      template: "/api/v1/books/{book_id}",
      status: 200,
      error: undefined,
    });
    expect(harness.infos[0]?.method?.name).to.equal("GetBook");
  });

  it("refuses a body by its declared size, and closes the connection.", async () => {
    const answer = await harness.ask("POST", "/v1/books", { body: Buffer.alloc(100_000, "x") });
    expect([answer.status, answer.reason]).to.deep.equal([413, "BODY_TOO_LARGE"]);
    expect(answer.headers.connection).to.equal("close");
  });

  it("refuses a body of undeclared size as soon as it is too large.", async () => {
    const chunk = `${(9000).toString(16)}\r\n${" ".repeat(9000)}\r\n`;
    const text = await rawExchange(harness.port, `${head("POST", "transfer-encoding: chunked")}${chunk}${chunk}`);
    expect(text).to.match(/^HTTP\/1.1 413 /);
    expect(text.toLowerCase()).to.contain("connection: close");
  });

  it("serves the next request on a connection whose last body it did not read.", async () => {
    const first = `${head("PUT", "content-length: 5", "/v1/books")}[1,2]`;
    const second = `${head("POST", "content-length: 2")}{}`;
    const text = await rawExchange(harness.port, `${first}${second}${head("GET", "connection: close")}`);
    expect(text.match(/HTTP\/1.1 \d+/g)).to.deep.equal(["HTTP/1.1 405", "HTTP/1.1 200", "HTTP/1.1 200"]);
  });

  it("says nothing to a client that leaves in the middle of its body, and serves the next one.", async () => {
    const socket = connect(harness.port, "127.0.0.1");
    socket.write(`${head("POST", "content-length: 50")}{`);
    await new Promise((resolve) => setTimeout(resolve, 20));
    socket.destroy();
    while (harness.infos.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(harness.calls).to.deep.equal([]);
    expect((await harness.ask("GET", "/v1/books")).status).to.equal(200);
  });

  it("aborts the call's signal when the client leaves.", async () => {
    const arrived = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<void>();
    harness.dispatcher = {
      ...echo,
      unary: (call) => {
        call.signal.addEventListener("abort", () => aborted.resolve());
        arrived.resolve();
        return aborted.promise.then(() => call.request);
      },
    };
    const socket = connect(harness.port, "127.0.0.1");
    socket.write(head("GET", "x: y"));
    await arrived.promise;
    socket.destroy();
    await aborted.promise;
    expect(harness.calls[0]?.signal.aborted).to.equal(true);
  });

  it("does not abort the signal of a call that was answered.", async () => {
    await harness.ask("POST", "/v1/books", { body: "{}", headers: { connection: "close" } });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(harness.calls[0]?.signal.aborted).to.equal(false);
  });

  it("lists each route once, aliases included.", () => {
    const routes = harness.transcoder
      .routes()
      .map(({ httpMethod, template, method }) => `${method.name} ${httpMethod} ${template}`);
    expect(new Set(routes).size).to.equal(routes.length);
    expect(routes).to.include.members([
      "GetBook GET /v1/books/{book_id}",
      "GetBook GET /api/v1/{name=shelves/*/books/*}",
      "WatchBooks GET /api/watch/books",
    ]);
    expect(routes).to.have.length(21);
  });
});

function head(method: string, header: string, path = "/v1/books"): string {
  const type = method === "GET" ? "" : "content-type: application/json\r\n";
  return `${method} ${path} HTTP/1.1\r\nhost: x\r\n${type}${header}\r\n\r\n`;
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
