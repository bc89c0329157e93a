import { create, type DescField, type Message, ScalarType } from "@bufbuild/protobuf";
import { fieldFault } from "./field-path.ts";
import type { FieldSetter, JsonReaders, LocalMessage } from "./json-reader.ts";
import { parseJson } from "./json-text.ts";
import { outputOnlyFields } from "./output-only.ts";
import { decoded, type Route, type RouteMatch } from "./routes.ts";

/** Parts of an HTTP request that make its message. */
export interface RequestParts {
  readonly body: Buffer;
  /** Text of each path field, in the order of the route's `pathFields`; undefined if malformed. */
  readonly captured: RouteMatch["captured"];
  /** Raw text after the question mark. */
  readonly query: string;
  /** The `Last-Event-ID` header. */
  readonly lastEventId: string | undefined;
}

/** Builds the request message of a route. Throws a `ControlPlaneError` that names the invalid field. */
export type RequestReader = (parts: RequestParts) => Message;

/** Compiles the request reader of a route. Throws an `Error` for a field that neither path, query nor body can fill. */
export function createRequestReader(route: Route, readers: JsonReaders, maxDepth: number): RequestReader {
  const readBody = bodyReader(route, readers, maxDepth);
  const setQuery = querySetter(route, readers);
  const resumeField = route.method.methodKind === "unary" ? undefined : cursorOf(route.queryFields);
  return ({ body, captured, query, lastEventId = "" }) => {
    const message = body.length === 0 ? (create(route.method.input) as LocalMessage) : readBody(body);
    for (const [index, field] of route.pathFields.entries()) setPathField(message, field, captured[index]);
    if (query !== "") setQuery(message, query);
    // A client that reconnects to an event stream sends the last `id` it saw; an explicit cursor wins.
    if (resumeField !== undefined) message[resumeField.localName] ||= lastEventId;
    return message;
  };
}

const cursorOf = (fields: readonly DescField[]): DescField | undefined =>
  fields.find(({ name, scalar }) => name === "cursor" && scalar === ScalarType.STRING);

function bodyReader(route: Route, readers: JsonReaders, maxDepth: number): (bytes: Buffer) => LocalMessage {
  const { method, body } = route;
  if (body === "message") {
    const read = readers.message(method.input);
    const ignored = outputOnlyFields(route).map(({ name }) => name);
    return (bytes) => read(withoutMembers(parseJson(bytes, maxDepth).value, ignored)) as LocalMessage;
  }
  const set = body === "none" ? refuseBody : readers.field(body);
  return (bytes) => {
    const message = create(method.input) as LocalMessage;
    set(message, parseJson(bytes, maxDepth).value, []);
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
  throw new Error(`${field}: a query cannot fill a field of this kind`);
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

/** Only a list of texts takes a parameter more than once. */
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
