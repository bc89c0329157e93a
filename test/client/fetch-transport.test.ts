import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { expect } from "chai";
import { EnforcementService, InterceptResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService, WaitEscalationResponseSchema } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { createFetchTransport } from "../../src/client/fetch-transport.ts";
import { rejection } from "./harness.ts";

const BASE_URL = "https://control.example.com/";
const HEARTBEAT = toBinary(WaitEscalationResponseSchema, create(WaitEscalationResponseSchema, { heartbeat: true }));
const END = 2;

/** Frames one piece of a stream. */
function envelope(flags: number, data: Uint8Array | string): Uint8Array {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  const framed = new Uint8Array(5 + bytes.length);
  new DataView(framed.buffer).setUint32(1, bytes.length);
  framed[0] = flags;
  framed.set(bytes, 5);
  return framed;
}

/** Sends bytes in pieces of one size. */
function piecesOf(bytes: Uint8Array, size: number, onCancel?: () => void): ReadableStream<Uint8Array> {
  let from = 0;
  return new ReadableStream({
    pull(controller) {
      if (from >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(from, from + size));
      from += size;
    },
    cancel: () => onCancel?.(),
  });
}

const answering =
  (body: BodyInit | null, contentType: string, status = 200): typeof fetch =>
  () =>
    Promise.resolve(new Response(body, { status, headers: { "content-type": contentType } }));

const unary = (fetch: typeof globalThis.fetch, options = {}) =>
  createClient(EnforcementService, createFetchTransport({ baseUrl: BASE_URL, fetch })).intercept({}, options);
const wait = (fetch: typeof globalThis.fetch, options = {}) =>
  createClient(EscalationService, createFetchTransport({ baseUrl: BASE_URL, fetch })).waitEscalation({}, options);
async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of stream) items.push(item);
  return items;
}
const fault = async (call: Promise<unknown>) => (await rejection(call)) as ConnectError;

describe("the transport over fetch", () => {
  const STREAM = "application/connect+proto";

  it("posts to the method's path, follows no redirect and says how long it waits.", async () => {
    const sent: [string, RequestInit | undefined][] = [];
    const body = toBinary(InterceptResponseSchema, create(InterceptResponseSchema, { decisionId: "dec_1" }));
    const fetch: typeof globalThis.fetch = (input, init) => {
      sent.push([String(input), init]);
      return answering(body as BodyInit, "application/proto")(input, init);
    };
    expect((await unary(fetch, { timeoutMs: 1_500, headers: { "x-api-key": "key" } })).decisionId).to.equal("dec_1");
    const [url, init] = sent[0] as [string, RequestInit];
    expect(url).to.equal("https://control.example.com/agentcontrol.v1.EnforcementService/Intercept");
    expect(init).to.include({ method: "POST", redirect: "error" });
    expect(Object.fromEntries(new Headers(init.headers))).to.deep.equal({
      "connect-protocol-version": "1",
      "connect-timeout-ms": "1500",
      "content-type": "application/proto",
      "x-api-key": "key",
    });
  });

  it("reads an error with its details, and takes anything else for an answer of another server.", async () => {
    const info = create(ErrorInfoSchema, { reason: "AGENT_NOT_FOUND" });
    const value = Buffer.from(toBinary(ErrorInfoSchema, info)).toString("base64").replace(/=+$/, "");
    const details = [{ type: "google.rpc.ErrorInfo", value }];
    const json = JSON.stringify({ code: "not_found", message: "no such agent", details });
    const own = await fault(unary(answering(json, "application/json", 404)));
    expect(own).to.include({ code: Code.NotFound, rawMessage: "no such agent" });
    expect(own.findDetails(ErrorInfoSchema)[0]?.reason).to.equal("AGENT_NOT_FOUND");
    const cases: readonly [number, string, string, Code][] = [
      [503, "text/html", "<html>", Code.Unavailable],
      [401, "text/plain", "", Code.Unauthenticated],
      [404, "application/json", "not json", Code.Unimplemented],
      [500, "application/json", '{"error": "else"}', Code.Unknown],
      [400, "application/json", '{"code": "1", "message": "x"}', Code.Internal],
      [403, "application/json", '{"code": "aborted", "message": "x", "details": [null]}', Code.PermissionDenied],
      [403, "application/json", '{"code": "aborted", "message": "x", "details": "none"}', Code.PermissionDenied],
      [403, "application/json", "null", Code.PermissionDenied],
      [200, "text/html", "<html>", Code.Unknown],
    ];
    for (const [status, type, body, code] of cases)
      expect((await fault(unary(answering(body, type, status)))).code, `${status} ${body}`).to.equal(code);
  });

  for (const size of [1, 3, 7, 1_000]) {
    it(`reads a stream that arrives in pieces of ${size} bytes.`, async () => {
      const bytes = Buffer.concat([envelope(0, HEARTBEAT), envelope(0, HEARTBEAT), envelope(END, "{}")]);
      const messages = await all(wait(answering(piecesOf(bytes, size), STREAM)));
      expect(messages.map(({ heartbeat }) => heartbeat)).to.deep.equal([true, true]);
    });
  }

  it("ends a stream with the error in its trailer, and with INTERNAL when there is none.", async () => {
    const trailer = JSON.stringify({ error: { code: "unauthenticated", message: "the key has ended" } });
    const ended = Buffer.concat([envelope(0, HEARTBEAT), envelope(END, trailer)]);
    const error = await fault(all(wait(answering(piecesOf(ended, 10), STREAM))));
    expect(error).to.include({ code: Code.Unauthenticated, rawMessage: "the key has ended" });
    const cases = { cut: envelope(0, HEARTBEAT), compressed: envelope(1, HEARTBEAT), nothing: new Uint8Array() };
    for (const [name, bytes] of Object.entries(cases))
      expect((await fault(all(wait(answering(piecesOf(bytes, 10), STREAM))))).code, name).to.equal(Code.Internal);
    expect((await fault(all(wait(answering("<html>", "text/html", 502))))).code).to.equal(Code.Unavailable);
  });

  it("lets the connection go when the caller aborts, and when the time is up.", async () => {
    const endless = (onCancel: () => void) =>
      answering(
        new ReadableStream({
          start: (controller) => controller.enqueue(envelope(0, HEARTBEAT)),
          cancel: onCancel,
        }),
        STREAM,
      );
    const leaving = new AbortController();
    const aborted = Promise.withResolvers<void>();
    const reading = fault(all(wait(endless(aborted.resolve), { signal: leaving.signal })));
    leaving.abort(new Error("enough"));
    expect((await reading).code).to.equal(Code.Canceled);
    const late = Promise.withResolvers<void>();
    expect((await fault(all(wait(endless(late.resolve), { timeoutMs: 50 })))).code).to.equal(Code.DeadlineExceeded);
    await Promise.all([aborted.promise, late.promise]);
  });

  it("keeps the platform's fault as the cause.", async () => {
    const cause = new TypeError("fetch failed", {
      cause: Object.assign(new Error("refused"), { code: "ECONNREFUSED" }),
    });
    const error = await fault(unary(() => Promise.reject(cause)));
    expect(error).to.include({ code: Code.Unknown, cause });
  });

  it("cannot send a stream of messages.", async () => {
    const client = createClient(EnforcementService, createFetchTransport({ baseUrl: BASE_URL, fetch: undefined }));
    const requests = async function* () {
      yield { intercept: { agentId: "agt_1" } };
    };
    const error = await fault(all(client.interceptStream(requests())));
    expect(error).to.be.instanceOf(ConnectError).and.to.include({ code: Code.Unimplemented });
  });
});
