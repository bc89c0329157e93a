import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect as http2Connect } from "node:http2";
import { gzipSync } from "node:zlib";
import { create, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { ConnectError } from "@connectrpc/connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { expect } from "chai";
import { EnforcementService, InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import {
  connectBodyOutcome,
  connectOutcome,
  grpcFailure,
  type Harness,
  KEY,
  MAX_BODY_BYTES,
  type Outcome,
  rawPost,
  startHarness,
  type TestWire,
  WIRES,
} from "./harness.ts";

const INTERCEPT = "/agentcontrol.v1.EnforcementService/Intercept";

/** A struct of `levels` nested objects or arrays. */
function nested(levels: number, kind: "object" | "array"): JsonObject {
  let value: unknown = 1;
  for (let level = 1; level < levels; level++) value = kind === "object" ? { a: value } : [value];
  return { a: value } as JsonObject;
}

/** A record of a message's binary form: a field that holds bytes. */
const bytesOf = (field: number, bytes: Uint8Array): Buffer =>
  Buffer.from(new BinaryWriter().tag(field, WireType.LengthDelimited).bytes(bytes).finish());

/** An Intercept request with these entries of metadata, field 4. */
const metadataOf = (...entries: readonly Buffer[]): Buffer =>
  bytesOf(4, Buffer.concat(entries.map((entry) => bytesOf(1, entry))));

const times = (count: number, bytes: Buffer): readonly Buffer[] => Array.from({ length: count }, () => bytes);

/** A `google.protobuf.Value` that is true. */
const TRUE = Buffer.from([0x20, 1]);

describe("requests that no service may see", () => {
  let harness: Harness;

  before(async () => {
    harness = await startHarness();
  });
  beforeEach(() => {
    harness.seen.length = 0;
  });
  after(() => harness.stop());

  const expectRefusal = (outcome: Outcome, code: string, reason: string): void => {
    expect({ code: outcome.code, reason: outcome.reason }).to.deep.equal({ code, reason });
    expect(harness.seen).to.have.length(0);
  };
  const withMetadata = (wire: TestWire, metadata: JsonObject) =>
    harness.intercept(wire, { actionType: "send", agentId: "agt_1", metadata });

  for (const wire of WIRES) {
    for (const kind of ["object", "array"] as const) {
      it(`takes 64 open brackets and refuses 65 over ${wire}, in nested ${kind}s`, async () => {
        expect((await withMetadata(wire, nested(63, kind))).code).to.equal("OK");
        harness.seen.length = 0;
        expectRefusal(await withMetadata(wire, nested(64, kind)), "INVALID_ARGUMENT", "BODY_TOO_DEEP");
      });

      it(`refuses 1,000 levels over ${wire}, in nested ${kind}s`, async () => {
        // The client library itself refuses to write more than some depth as JSON; what it cannot write is sent by hand below.
        expectRefusal(await withMetadata(wire, nested(1000, kind)), "INVALID_ARGUMENT", "BODY_TOO_DEEP");
      });
    }

    it(`refuses a body that is too large over ${wire} and goes on serving`, async () => {
      const outcome = await withMetadata(wire, { text: "x".repeat(MAX_BODY_BYTES) });
      expectRefusal(outcome, "RESOURCE_EXHAUSTED", "BODY_TOO_LARGE");
      expect((await withMetadata(wire, {})).code).to.equal("OK");
    });

    it(`takes 25,000 values of free JSON over ${wire} and refuses one more`, async () => {
      const zeros = (count: number) => withMetadata(wire, { a: Array.from({ length: count }, () => true) });
      expect((await zeros(24_998)).code).to.equal("OK");
      harness.seen.length = 0;
      const outcome = await zeros(25_010);
      expect(outcome.reason).to.be.oneOf(["INVALID_FIELD", "BODY_TOO_LARGE"]);
      expect(harness.seen).to.have.length(0);
    });
  }

  const [MEMBER, EMPTY] = [metadataOf(Buffer.concat([bytesOf(1, Buffer.from("m")), bytesOf(2, TRUE)])), metadataOf()];
  const COSTLY: readonly { description: string; message: Buffer }[] = [
    { description: "very many values", message: metadataOf(...Array.from({ length: 70_000 }, () => Buffer.alloc(0))) },
    { description: "a member merged again and again", message: Buffer.concat([MEMBER, ...times(40_000, EMPTY)]) },
    { description: "very many unknown fields", message: Buffer.concat(times(70_000, Buffer.from([0x78, 1]))) },
  ];
  for (const { description, message } of COSTLY) {
    const framed = (flags: number, bytes: Buffer) => {
      const prefix = Buffer.alloc(5, flags);
      prefix.writeUInt32BE(bytes.length, 1);
      return Buffer.concat([prefix, bytes]);
    };
    const forms: readonly (readonly [string, Record<string, string>, Buffer])[] = [
      ["Connect", { "content-type": "application/proto" }, message],
      ["packed Connect", { "content-type": "application/proto", "content-encoding": "gzip" }, gzipSync(message)],
      ["gRPC-Web", { "content-type": "application/grpc-web+proto" }, framed(0, message)],
      [
        "packed gRPC-Web",
        { "content-type": "application/grpc-web", "grpc-encoding": "gzip" },
        framed(1, gzipSync(message)),
      ],
    ];
    for (const [wire, headers, body] of forms) {
      it(`refuses ${description} over ${wire} before it is decoded`, async () => {
        const answer = await rawPost(harness.httpPort, INTERCEPT, { ...KEY, ...headers }, body);
        expect(answer.body.toString()).to.match(/60(,|%2C)000( |%20)values/);
        expect(harness.seen).to.have.length(0);
      });
    }

    it(`refuses ${description} over gRPC before it is decoded`, async () => {
      const outcome = await grpcFailure(harness.grpcClient, INTERCEPT, message);
      expectRefusal(outcome, "RESOURCE_EXHAUSTED", "BODY_TOO_LARGE");
    });
  }

  it("takes packed messages in binary form over Connect and gRPC-Web", async () => {
    const bytes = toBinary(InterceptRequestSchema, create(InterceptRequestSchema, { actionType: "a", agentId: "b" }));
    const packed = gzipSync(bytes);
    const unary = { ...KEY, "content-type": "application/proto", "content-encoding": "gzip" };
    expect((await rawPost(harness.httpPort, INTERCEPT, unary, packed)).status).to.equal(200);
    const web = { ...KEY, "content-type": "application/grpc-web+proto", "grpc-encoding": "gzip" };
    const body = Buffer.concat([Buffer.from([1, 0, 0, 0, packed.length]), packed]);
    expect((await rawPost(harness.httpPort, INTERCEPT, web, body)).body.toString()).to.contain("grpc-status: 0");
    expect(harness.seen.map(({ request }) => request)).to.deep.equal([
      create(InterceptRequestSchema, { actionType: "a", agentId: "b" }),
      create(InterceptRequestSchema, { actionType: "a", agentId: "b" }),
    ]);
  });

  it("refuses a packed message over Connect that unpacks to too much", async () => {
    const headers = { ...KEY, "content-type": "application/proto", "content-encoding": "gzip" };
    const answer = await rawPost(harness.httpPort, INTERCEPT, headers, gzipSync(Buffer.alloc(10 * MAX_BODY_BYTES)));
    expectRefusal(connectBodyOutcome(answer), "RESOURCE_EXHAUSTED", "BODY_TOO_LARGE");
  });

  for (const [description, value] of [
    ["NaN", Number.NaN],
    ["an infinity", Number.POSITIVE_INFINITY],
  ] as const) {
    for (const wire of ["connect", "grpc-web", "grpc"] as const) {
      it(`refuses ${description} inside a struct over ${wire}, naming its path`, async () => {
        const outcome = await withMetadata(wire, { items: [{ x: 1 }, { amount: value }] });
        expectRefusal(outcome, "INVALID_ARGUMENT", "INVALID_FIELD");
        expect(outcome.violations[0]?.field).to.equal("metadata.items[1].amount");
      });
    }
  }

  const JSON_BODIES: readonly { description: string; body: string | Buffer; reason: string; field?: string }[] = [
    { description: "no JSON", body: '{"agentId": }', reason: "MALFORMED_JSON" },
    { description: "an unknown field", body: '{"agentid":"a"}', reason: "UNKNOWN_FIELD", field: "agentid" },
    { description: "a wrong type", body: '{"agentId":5}', reason: "INVALID_FIELD", field: "agent_id" },
    {
      description: "a field twice",
      body: '{"agentId":"a","agentId":"b"}',
      reason: "DUPLICATE_FIELD",
      field: "agentId",
    },
    { description: "invalid UTF-8", body: Buffer.from([0x22, 0xff, 0x22]), reason: "MALFORMED_JSON" },
    {
      description: "half a surrogate pair in a struct",
      body: '{"actionType":"a","agentId":"b","metadata":{"x":["\\ud800"]}}',
      reason: "INVALID_FIELD",
      field: "metadata.x[0]",
    },
    {
      description: "a number beyond all doubles",
      body: '{"actionType":"a","agentId":"b","metadata":{"x":1e999}}',
      reason: "INVALID_FIELD",
      field: "metadata.x",
    },
    { description: "100,000 brackets", body: `{"metadata":{"a":${"[".repeat(100_000)}`, reason: "BODY_TOO_DEEP" },
  ];
  for (const { description, body, reason, field } of JSON_BODIES) {
    it(`refuses a Connect body in JSON with ${description}`, async () => {
      const answer = await rawPost(harness.httpPort, INTERCEPT, { ...KEY, "content-type": "application/json" }, body);
      expect(answer.status).to.equal(400);
      const outcome = connectBodyOutcome(answer);
      expectRefusal(outcome, "INVALID_ARGUMENT", reason);
      if (field !== undefined) expect(outcome.violations[0]?.field).to.equal(field);
    });
  }

  const WATCH = "/agentcontrol.v1.EnforcementService/WatchDecisions";
  for (const [method, type, refusal] of [
    [INTERCEPT, "application/json", /UNKNOWN_FIELD/],
    [WATCH, "application/connect+json", /UNKNOWN_FIELD/],
    [INTERCEPT, "application/grpc-web+json", /grpc-message: .*%20is%20unknown/],
    [WATCH, "application/grpc-web+json", /grpc-message: .*%20is%20unknown/],
  ] as const) {
    it(`refuses an unknown member whose name holds half of a surrogate pair, ${type} to ${method.slice(36)}`, async () => {
      const json = Buffer.from('{"\\ud800":1}');
      const body = type === "application/json" ? json : Buffer.concat([Buffer.from([0, 0, 0, 0, json.length]), json]);
      const answer = await rawPost(harness.httpPort, method, { ...KEY, "content-type": type }, body);
      expect(answer.body.toString()).to.match(refusal);
      expect(harness.seen).to.have.length(0);
    });
  }

  it("refuses a body that is no message over Connect", async () => {
    const headers = { ...KEY, "content-type": "application/proto" };
    const answer = await rawPost(harness.httpPort, INTERCEPT, headers, Buffer.from([0x0a, 0xff]));
    expect(answer.status).to.equal(400);
    const outcome = connectBodyOutcome(answer);
    expectRefusal(outcome, "INVALID_ARGUMENT", "INVALID_FIELD");
  });

  it("refuses a body that is no message over gRPC-Web", async () => {
    const headers = { ...KEY, "content-type": "application/grpc-web+proto" };
    const answer = await rawPost(harness.httpPort, INTERCEPT, headers, Buffer.from([0, 0, 0, 0, 2, 0x0a, 0xff]));
    expect(answer.body.toString()).to.contain("grpc-status: 3");
    expect(harness.seen).to.have.length(0);
  });

  it("refuses a body that is no message over gRPC", async () => {
    const outcome = await grpcFailure(harness.grpcClient, INTERCEPT, Buffer.from([0x0a, 0xff]));
    expectRefusal(outcome, "INVALID_ARGUMENT", "INVALID_FIELD");
  });

  it("takes a compressed request over Connect, and refuses one that unpacks to too much", async () => {
    const headers = { ...KEY, "content-type": "application/json", "content-encoding": "gzip" };
    const good = JSON.stringify({ actionType: "send", agentId: "agt_1" });
    expect((await rawPost(harness.httpPort, INTERCEPT, headers, gzipSync(good))).status).to.equal(200);
    harness.seen.length = 0;
    const bomb = gzipSync(JSON.stringify({ actionContent: "x".repeat(10 * MAX_BODY_BYTES) }));
    const answer = await rawPost(harness.httpPort, INTERCEPT, headers, bomb);
    const outcome = connectBodyOutcome(answer);
    expectRefusal(outcome, "RESOURCE_EXHAUSTED", "BODY_TOO_LARGE");
  });

  it("cancels the Connect call of a client that leaves in the middle of its body, which is no fault", async () => {
    const headers = { ...KEY, "content-type": "application/json", "content-length": 100 };
    const options = { host: "127.0.0.1", port: harness.httpPort, path: INTERCEPT, method: "POST", headers };
    const before = harness.logged.length;
    const sent = httpRequest({ ...options, agent: false }).on("error", () => undefined);
    await new Promise((resolve) => sent.write('{"agent', resolve));
    sent.destroy();
    for (let counted = ""; !counted.includes('code="CANCELLED",wire="connect"'); )
      counted = await (await fetch(harness.url("/metrics"))).text();
    expect(harness.logged.slice(before)).to.deep.equal([]);
  });

  for (const [wire, path, type] of [
    ["REST", "/v1/enforce/intercept", "application/json"],
    ["Connect", INTERCEPT, "application/proto"],
    ["Connect in JSON", INTERCEPT, "application/json"],
    ["gRPC-Web", INTERCEPT, "application/grpc-web+proto"],
  ] as const) {
    it(`refuses a key that is none over ${wire} before the body has come`, async () => {
      const headers = { "x-api-key": "acp_nobody", "content-type": type, "content-length": 1_000 };
      const options = { host: "127.0.0.1", port: harness.httpPort, path, method: "POST", headers };
      const sent = httpRequest({ ...options, agent: false }).on("error", () => undefined);
      sent.flushHeaders();
      const [response] = (await once(sent, "response")) as [IncomingMessage];
      let text = "";
      for await (const chunk of response) text += chunk;
      sent.destroy();
      if (wire === "gRPC-Web") expect(text + JSON.stringify(response.headers)).to.match(/grpc-status"?: ?"?16/);
      else expect(response.statusCode).to.equal(401);
      expect(harness.seen).to.have.length(0);
    });
  }

  it("refuses a key that is none over gRPC before it looks at the message", async () => {
    const session = http2Connect(`http://127.0.0.1:${harness.grpcPort}`);
    try {
      const fields = { ":method": "POST", ":path": INTERCEPT, "content-type": "application/grpc", te: "trailers" };
      const stream = session.request({ ...fields, "x-api-key": "acp_nobody" });
      // No message of this type.
      stream.end(Buffer.from([0, 0, 0, 0, 2, 0x0a, 0xff]));
      const status = await new Promise((resolve) => {
        for (const event of ["response", "trailers"] as const)
          stream.on(event, (headers) => headers["grpc-status"] !== undefined && resolve(headers["grpc-status"]));
      });
      expect(status).to.equal("16");
    } finally {
      session.destroy();
    }
  });

  it("refuses an unknown compression over Connect", async () => {
    const headers = { ...KEY, "content-type": "application/json", "content-encoding": "zstd" };
    const answer = await rawPost(harness.httpPort, INTERCEPT, headers, "{}");
    const outcome = connectBodyOutcome(answer);
    expectRefusal(outcome, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE");
  });
});

describe("methods that are not there", () => {
  let harness: Harness;

  before(async () => {
    harness = await startHarness();
  });
  after(() => harness.stop());

  const UNKNOWN = "/agentcontrol.v1.EnforcementService/Guess";

  it("are UNIMPLEMENTED over Connect, with our reason", async () => {
    const answer = await rawPost(harness.httpPort, UNKNOWN, { "content-type": "application/json" }, "{}");
    const outcome = connectBodyOutcome(answer);
    expect({ status: answer.status, code: outcome.code, reason: outcome.reason }).to.deep.equal({
      status: 404,
      code: "UNIMPLEMENTED",
      reason: "ROUTE_NOT_FOUND",
    });
  });

  it("are UNIMPLEMENTED over gRPC-Web, with our reason", async () => {
    const headers = { "content-type": "application/grpc-web+proto" };
    const answer = await rawPost(harness.httpPort, "/other.v1.Service/Guess", headers, Buffer.alloc(5));
    const trailers = new Headers(answer.headers as Record<string, string>);
    const outcome = connectOutcome(findTrailerError(trailers) as ConnectError);
    expect({ status: answer.status, code: outcome.code, reason: outcome.reason }).to.deep.equal({
      status: 200,
      code: "UNIMPLEMENTED",
      reason: "ROUTE_NOT_FOUND",
    });
  });

  it("are UNIMPLEMENTED over gRPC", async () => {
    const outcome = await grpcFailure(harness.grpcClient, UNKNOWN, Buffer.alloc(0));
    expect(outcome.code).to.equal("UNIMPLEMENTED");
  });

  it("are ROUTE_NOT_FOUND with 404 for a caller that speaks no such protocol", async () => {
    const response = await fetch(harness.url(UNKNOWN));
    expect(response.status).to.equal(404);
    expect(await response.json()).to.have.nested.property("error.details[0].reason", "ROUTE_NOT_FOUND");
  });

  it("answer a wrong HTTP method and a wrong content type in the REST form", async () => {
    const got = await fetch(harness.url(INTERCEPT));
    expect([got.status, got.headers.get("allow")]).to.deep.equal([405, "POST"]);
    const posted = await rawPost(harness.httpPort, INTERCEPT, { "content-type": "text/plain" }, "{}");
    expect(posted.status).to.equal(415);
    expect(JSON.parse(posted.body.toString())).to.have.nested.property(
      "error.details[0].reason",
      "UNSUPPORTED_MEDIA_TYPE",
    );
  });
});

describe("a request in two parts over gRPC", () => {
  it("is decoded whole", async () => {
    const harness = await startHarness();
    const session = http2Connect(`http://127.0.0.1:${harness.grpcPort}`);
    try {
      const message = create(InterceptRequestSchema, { actionType: "send", agentId: "agt_1" });
      const bytes = toBinary(InterceptRequestSchema, message);
      const framed = Buffer.concat([Buffer.from([0, 0, 0, 0, bytes.length]), bytes]);
      const stream = session.request({
        ":method": "POST",
        ":path": `/${EnforcementService.typeName}/Intercept`,
        "content-type": "application/grpc",
        te: "trailers",
        ...KEY,
      });
      stream.write(framed.subarray(0, 7));
      await new Promise((resolve) => setImmediate(resolve));
      stream.end(framed.subarray(7));
      const status = await new Promise((resolve) =>
        stream.once("trailers", (trailers) => resolve(trailers["grpc-status"])),
      );
      expect(status).to.equal("0");
      expect(harness.seen[0]?.request).to.deep.equal(message);
    } finally {
      session.destroy();
      await harness.stop();
    }
  });
});
