import type { IncomingMessage } from "node:http";
import { create, type DescField, getOption, type Message, ScalarType } from "@bufbuild/protobuf";
import { FieldBehavior, field_behavior } from "../../../gen/google/api/field_behavior_pb.js";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";
import { bodyTooLarge, cancelled } from "../errors.ts";
import { mayHaveBody } from "../http-reply.ts";
import type { RequestBounds } from "../request-bounds.ts";
import { readRequestJson } from "../request-json.ts";
import { fieldFault } from "./field-path.ts";
import type { FieldSetter, JsonReaders, LocalMessage } from "./json.ts";
import { decoded, type Route, type RouteMatch } from "./routes.ts";

/** Parts of an HTTP request from which its message is built. */
export interface RequestParts {
  readonly body: Buffer;
  /** Text of each path field, in the order of the route's `pathFields`; undefined if malformed. */
  readonly captured: RouteMatch["captured"];
  /** Raw text after the question mark. */
  readonly query: string;
  /** The `Last-Event-ID` header. */
  readonly lastEventId: string | undefined;
  /** Resolves when a request of such a weight may be built. */
  readonly weigh: (weight: number) => Promise<void>;
}

/** Builds the request message of a route. Rejects with a `ControlPlaneError` that names the invalid field. */
export type RequestReader = (parts: RequestParts) => Promise<Message>;

/** Compiles the request reader of a route. Throws an `Error` for a field that path, query and body cannot fill. */
export function createRequestReader(
  route: Route,
  readers: JsonReaders,
  maxDepth: number,
  bounds: RequestBounds,
): RequestReader {
  const readBody = bodyReader(route, readers, maxDepth, bounds);
  const setQuery = querySetter(route, readers);
  const resumeField = route.method.methodKind === "unary" ? undefined : cursorOf(route.queryFields);
  return async ({ body, captured, query, lastEventId = "", weigh }) => {
    const message = body.length === 0 ? (create(route.method.input) as LocalMessage) : await readBody(body, weigh);
    for (const [index, field] of route.pathFields.entries()) setPathField(message, field, captured[index]);
    if (query !== "") setQuery(message, query);
    // A client that reconnects to an event stream sends the last `id` that it saw; an explicit cursor wins.
    if (resumeField !== undefined) message[resumeField.localName] ||= lastEventId;
    return message;
  };
}

const cursorOf = (fields: readonly DescField[]): DescField | undefined =>
  fields.find(({ name, scalar }) => name === "cursor" && scalar === ScalarType.STRING);

type BodyReader = (bytes: Buffer, weigh: RequestParts["weigh"]) => Promise<LocalMessage>;

function bodyReader(route: Route, readers: JsonReaders, maxDepth: number, bounds: RequestBounds): BodyReader {
  const { method, body } = route;
  if (body === "message") {
    const read = readers.message(method.input);
    const ignored = outputOnlyFields(route).map(({ name }) => name);
    return async (bytes, weigh) => {
      const { value, weight } = await readRequestJson(bytes, maxDepth, bounds);
      await weigh(weight);
      return read(withoutMembers(value, ignored)) as LocalMessage;
    };
  }
  const set = body === "none" ? refuseBody : readers.field(body);
  return async (bytes, weigh) => {
    const message = create(method.input) as LocalMessage;
    const { value, weight } = await readRequestJson(bytes, maxDepth, bounds);
    await weigh(weight);
    set(message, value, []);
    return message;
  };
}

/** Removes members of a parsed object. */
function withoutMembers(json: unknown, names: readonly string[]): unknown {
  if (typeof json !== "object" || json === null) return json;
  for (const name of names) delete (json as Record<string, unknown>)[name];
  return json;
}

// Some clients send `{}` with every request that may have a body.
const refuseBody: FieldSetter = (_message, json) => {
  const isEmpty = typeof json === "object" && json !== null && !Array.isArray(json) && Object.keys(json).length === 0;
  if (!isEmpty) throw fieldFault("UNKNOWN_FIELD", "body", "is not taken by this method");
};

function setPathField(message: LocalMessage, { localName, name }: DescField, text: string | undefined): void {
  if (text === undefined) throw fieldFault("INVALID_FIELD", name, "holds a malformed percent-escape");
  const given = message[localName];
  if (given && given !== text) throw fieldFault("DUPLICATE_FIELD", name, "differs between the path and the body");
  message[localName] = text;
}

/** Parser of query parameters of one type. `toJson` returns the JSON value, or undefined for malformed text. */
interface TextForm {
  /** Completes "must be …". */
  readonly wanted: string;
  toJson(text: string): unknown;
}

const isInteger = (text: string) => /^-?\d+$/.test(text);
const TEXT: TextForm = { wanted: "text", toJson: (text) => text };
const INT32: TextForm = { wanted: "an integer", toJson: (text) => (isInteger(text) ? Number(text) : undefined) };
const TRUTH: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["false", false],
]);
const BOOL: TextForm = { wanted: "`true` or `false`", toJson: (text) => TRUTH.get(text) };
const INT64: TextForm = { wanted: "an integer", toJson: (text) => (isInteger(text) ? text : undefined) };

function textFormOf(field: DescField): TextForm {
  if (field.fieldKind === "enum" || field.message?.typeName === "google.protobuf.Timestamp") return TEXT;
  if (field.fieldKind === "scalar" && field.scalar === ScalarType.STRING) return TEXT;
  if (field.fieldKind === "scalar" && field.scalar === ScalarType.INT32) return INT32;
  if (field.fieldKind === "scalar" && field.scalar === ScalarType.INT64) return INT64;
  if (field.fieldKind === "scalar" && field.scalar === ScalarType.BOOL) return BOOL;
  throw new Error(`${field}: fields of this kind cannot be query parameters`);
}

type QuerySetter = (message: LocalMessage, query: string) => void;

function querySetter({ body, pathFields, queryFields }: Route, readers: JsonReaders): QuerySetter {
  const parameters = new Map(queryFields.map((field) => [field.name, parameterSetter(field, readers)]));
  const inPath = new Set(pathFields.map(({ name }) => name));
  const belongsInBody = (name: string) => body === "message" || (body !== "none" && name === body.name);
  return (message, query) => {
    for (const [name, texts] of parametersFromQuery(query)) {
      if (inPath.has(name)) throw fieldFault("DUPLICATE_FIELD", name, "is already given by the path");
      if (belongsInBody(name)) throw fieldFault("INVALID_FIELD", name, "belongs in the request body");
      const set = parameters.get(name);
      if (set === undefined) throw fieldFault("UNKNOWN_FIELD", name, "is not a query parameter of this method");
      set(message, texts);
    }
  };
}

type ParameterSetter = (message: LocalMessage, texts: readonly string[]) => void;

/** Creates the setter of a parameter. Only a list of strings accepts a repeated parameter. */
function parameterSetter(field: DescField, readers: JsonReaders): ParameterSetter {
  const set = readers.field(field);
  if (field.fieldKind === "list" && field.scalar === ScalarType.STRING)
    return (message, texts) => set(message, [...texts], []);
  const form = textFormOf(field);
  return (message, [text = "", ...more]) => {
    if (more.length > 0) throw fieldFault("DUPLICATE_FIELD", field.name, "is given more than once");
    const json = form.toJson(text);
    if (json === undefined) throw fieldFault("INVALID_FIELD", field.name, `must be ${form.wanted}`);
    set(message, json, []);
  };
}

/** Decodes a query string, keeping the order of each name's values. */
function parametersFromQuery(query: string): Map<string, string[]> {
  const parameters = new Map<string, string[]>();
  for (const pair of query.split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = decodedParameter(equals < 0 ? pair : pair.slice(0, equals), "query");
    const value = decodedParameter(equals < 0 ? "" : pair.slice(equals + 1), name);
    const values = parameters.get(name);
    if (values === undefined) parameters.set(name, [value]);
    else values.push(value);
  }
  return parameters;
}

function decodedParameter(text: string, name: string): string {
  const value = decoded(text.replaceAll("+", " "));
  if (value === undefined) throw fieldFault("INVALID_FIELD", name, "holds a malformed percent-escape");
  return value;
}

/** Media types of responses. */
export const JSON_TYPE = "application/json";
export const NDJSON_TYPE = "application/x-ndjson";
export const EVENT_STREAM_TYPE = "text/event-stream";

/** Format of a server stream: Server-Sent Events, or one JSON text per line. */
export type StreamFormat = "sse" | "ndjson";

/** Throws NOT_ACCEPTABLE if an `Accept` header excludes JSON. */
export function assertAcceptsJson(accept: string | undefined): void {
  if (accept !== undefined && accept !== "" && quality(accept, JSON_TYPE) === 0) throw notAcceptable(accept, JSON_TYPE);
}

/**
 * Returns the format of a stream: events if the header names them, otherwise lines. Throws NOT_ACCEPTABLE if the header excludes
 * both.
 */
export function streamFormatFor(accept: string | undefined): StreamFormat {
  if (accept === undefined || accept === "") return "ndjson";
  if (accept.toLowerCase().includes(EVENT_STREAM_TYPE) && quality(accept, EVENT_STREAM_TYPE) > 0) return "sse";
  if (quality(accept, NDJSON_TYPE) > 0 || quality(accept, JSON_TYPE) > 0) return "ndjson";
  throw notAcceptable(accept, `${NDJSON_TYPE} or ${EVENT_STREAM_TYPE}`);
}

// The most specific range that covers the type decides (RFC 9110).
function quality(accept: string, type: string): number {
  const ranges = accept.toLowerCase().split(",").map(rangeFromText);
  for (const range of [type, `${type.slice(0, type.indexOf("/"))}/*`, "*/*"]) {
    const found = ranges.find((each) => each.range === range);
    if (found !== undefined) return found.quality;
  }
  return 0;
}

function rangeFromText(text: string): { range: string; quality: number } {
  const [range = "", ...parameters] = text.split(";").map((part) => part.trim());
  const given = parameters.find((parameter) => parameter.startsWith("q="));
  const quality = given === undefined ? 1 : Number(given.slice(2));
  return { range, quality: Number.isFinite(quality) ? quality : 0 };
}

function notAcceptable(accept: string, offered: string): ControlPlaneError {
  const text = `nothing that \`${accept}\` accepts is offered; accept \`${offered}\``;
  return new ControlPlaneError(ErrorReason.NOT_ACCEPTABLE, text, { accept, offered });
}

type SizeBounds = Pick<RequestBounds, "maxBytes" | "field">;

const EMPTY = Buffer.alloc(0);

/**
 * Reads a whole JSON body. Throws BODY_TOO_LARGE as soon as the declared or the received size exceeds its bound, any error of
 * `hold`, UNSUPPORTED_MEDIA_TYPE for anything but JSON in plain UTF-8, and CANCELLED if the client disconnects.
 */
export async function readJsonBody(
  request: IncomingMessage,
  bounds: SizeBounds,
  hold: (bytes: number) => void,
): Promise<Buffer> {
  if (!mayHaveBody(request)) return EMPTY;
  const declared = declaredSize(request, bounds);
  assertUncompressed(request);
  const isJson = isJsonMediaType(request.headers["content-type"]);
  if (!isJson && declared > 0) throw notJson(request.headers["content-type"]);
  const body = await collect(request, bounds, hold);
  if (!isJson && body.length > 0) throw notJson(request.headers["content-type"]);
  return body;
}

/**
 * Reads a whole body of any type. Throws BODY_TOO_LARGE as soon as the declared or the received size exceeds its bound, any error of
 * `hold`, the reason of `signal` once it aborts, and CANCELLED if the client disconnects.
 */
export async function readBody(
  request: IncomingMessage,
  bounds: SizeBounds,
  hold: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Buffer> {
  declaredSize(request, bounds);
  return mayHaveBody(request) ? collect(request, bounds, hold, signal) : EMPTY;
}

/** Returns the declared size of a body, 0 without one. Throws BODY_TOO_LARGE. */
function declaredSize(request: IncomingMessage, bounds: SizeBounds): number {
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > bounds.maxBytes) throw bodyTooLarge(bounds);
  return declared;
}

function collect(
  request: IncomingMessage,
  bounds: SizeBounds,
  hold: (bytes: number) => void,
  signal?: AbortSignal,
): Promise<Buffer> {
  // A request that has ended already tells so no more.
  if (request.destroyed) return Promise.reject(cancelled());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (error?: unknown) => {
      request.off("data", onData).off("end", onEnd).off("error", onLost).off("close", onLost);
      signal?.removeEventListener("abort", onAbort);
      if (error === undefined) resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size));
      else reject(error);
    };
    const giveUp = (error: unknown) => {
      request.pause();
      settle(error);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      try {
        if (size > bounds.maxBytes) throw bodyTooLarge(bounds);
        hold(chunk.length);
      } catch (error) {
        giveUp(error);
      }
    };
    const onAbort = () => giveUp(signal?.reason);
    const onEnd = () => settle();
    const onLost = () => settle(cancelled());
    signal?.addEventListener("abort", onAbort, { once: true });
    request.on("data", onData).on("end", onEnd).on("error", onLost).on("close", onLost);
  });
}

function assertUncompressed(request: IncomingMessage): void {
  const encoding = request.headers["content-encoding"];
  if (encoding === undefined || encoding.toLowerCase() === "identity") return;
  const text = `content encoding \`${encoding}\` is not supported; send the body uncompressed`;
  throw new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { content_encoding: encoding });
}

function isJsonMediaType(contentType: string | undefined): boolean {
  const [type = "", ...parameters] = (contentType ?? "").split(";").map((part) => part.trim().toLowerCase());
  if (type !== "application/json") return false;
  const charset = parameters.find((parameter) => parameter.startsWith("charset="));
  return charset === undefined || /^charset="?utf-?8"?$/.test(charset);
}

function notJson(contentType = ""): ControlPlaneError {
  const text = `content type \`${contentType}\` is not supported; send \`application/json\` in utf-8`;
  return new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { content_type: contentType });
}

/** Tests for a field that only the service sets, `OUTPUT_ONLY` in AIP-203. */
export function isOutputOnly(field: DescField): boolean {
  return getOption(field, field_behavior).includes(FieldBehavior.OUTPUT_ONLY);
}

/**
 * Returns the output-only fields of the resource that a PUT or PATCH changes. The body may hold these fields (AIP-203), so that a
 * client can send back what it read; they are ignored.
 */
export function outputOnlyFields({ httpMethod, method }: Pick<Route, "httpMethod" | "method">): DescField[] {
  if (httpMethod !== "PUT" && httpMethod !== "PATCH") return [];
  const taken = new Set(method.input.fields.map(({ name }) => name));
  const resources = method.output.fields.flatMap((field) => (field.fieldKind === "message" ? [field.message] : []));
  return resources.flatMap(({ fields }) => fields).filter((field) => isOutputOnly(field) && !taken.has(field.name));
}
