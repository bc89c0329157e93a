import type { IncomingMessage } from "node:http";
import { create, type Message } from "@bufbuild/protobuf";
import { readBody } from "./body.ts";
import { fieldFault } from "./field-path.ts";
import type { JsonDecoder } from "./json-decoder.ts";
import { parseJson } from "./json-text.ts";
import { capturedText } from "./path-template.ts";
import { applyQuery } from "./query.ts";
import type { Route } from "./routes.ts";
import type { TextBinder } from "./text-binder.ts";

/** Builds request messages from HTTP requests. */
export interface RequestReader {
  /** Reads body, path and query into the request message of a route. Throws a `ControlPlaneError` that names what is wrong. */
  read(request: IncomingMessage, route: Route, segments: readonly string[], query: string): Promise<Message>;
}

/** What a request reader needs. */
export interface RequestReaderOptions {
  readonly decoder: JsonDecoder;
  readonly binder: TextBinder;
  /** Most bytes that a body may have. */
  readonly maxBodyBytes: number;
  /** Most brackets that may be open at once in a body. */
  readonly maxDepth: number;
}

/** Creates a request reader. */
export function createRequestReader(options: RequestReaderOptions): RequestReader {
  return {
    async read(request, route, segments, query) {
      const body = await readBody(request, options.maxBodyBytes);
      const message = messageFromBody(body, route, options);
      applyPath(message, route, segments);
      if (query !== "") applyQuery(query, message, queryTarget(route, options.binder));
      if (route.resumeField !== undefined) applyLastEventId(message, route, request);
      return message;
    },
  };
}

function messageFromBody(bytes: Buffer, route: Route, { decoder, maxDepth }: RequestReaderOptions): Message {
  const { input } = route.method;
  const { body } = route.binding;
  if (bytes.length === 0) return create(input);
  const parsed = parseJson(bytes, maxDepth);
  if (body === "message") return decoder.decode(input, parsed);
  const message = create(input);
  if (body !== "none") decoder.decodeField(body, message, parsed);
  // Some clients send `{}` with every request that could have a body.
  else if (parsed.text.trim() !== "{}") throw fieldFault("UNKNOWN_FIELD", "body", "is not taken by this method");
  return message;
}

function applyPath(message: Message, { variables }: Route, segments: readonly string[]): void {
  for (const { variable, field } of variables) {
    const { fieldPath } = variable;
    const text = capturedText(variable, segments);
    if (text === undefined) throw fieldFault("INVALID_FIELD", fieldPath, "holds a malformed percent-escape");
    const before = field.get(message);
    field.set(message, [text]);
    const isGiven = Boolean(before);
    if (isGiven && before !== field.get(message)) {
      throw fieldFault("DUPLICATE_FIELD", fieldPath, "differs between the path and the body");
    }
  }
}

function queryTarget(route: Route, binder: TextBinder): Parameters<typeof applyQuery>[2] {
  const { body } = route.binding;
  const bodyField = body === "none" ? undefined : body === "message" ? "*" : body.name;
  const pathFields = route.variables.map(({ variable }) => variable.fieldPath);
  return { desc: route.method.input, binder, pathFields, bodyField };
}

// A client that reconnects to an event stream repeats the last `id` it saw; an explicit cursor wins.
function applyLastEventId(message: Message, { resumeField }: Route, request: IncomingMessage): void {
  const id = request.headers["last-event-id"];
  if (typeof id !== "string" || id === "" || resumeField === undefined) return;
  if (!resumeField.get(message)) resumeField.set(message, [id]);
}
