import { type DescMethod, getOption, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { http } from "../../gen/google/api/annotations_pb.js";
import { type Answer, type CallOptions, ok, type Wire } from "./wire-answer.ts";

/** An HTTP request as the `google.api.http` option of a method asks for it. */
interface HttpRequest {
  readonly verb: string;
  readonly path: string;
  readonly body: string | undefined;
}

/** The route of a method: HTTP verb, path template, and the field that is the body. */
export function routeOf(method: DescMethod): { verb: string; template: string; body: string } {
  const { pattern, body } = getOption(method, http);
  if (pattern.case === undefined || pattern.case === "custom") throw new Error(`${method.name} has no plain route`);
  return { verb: pattern.case.toUpperCase(), template: pattern.value, body };
}

const escaped = (text: string): string => encodeURIComponent(text);

function queryFrom(rest: JsonObject): string {
  const pairs = Object.entries(rest).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => `${escaped(name)}=${escaped(String(each))}`),
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

function httpRequestFor(method: DescMethod, request: JsonObject, raw: string | undefined): HttpRequest {
  const { verb, template, body } = routeOf(method);
  const rest: JsonObject = { ...request };
  const path = template.replace(/\{(\w+)(=\*\*)?\}/g, (_, name: string, isMany: string | undefined) => {
    const text = String(rest[name] ?? "");
    delete rest[name];
    return isMany === undefined ? escaped(text) : text.split("/").map(escaped).join("/");
  });
  if (body === "") return { verb, path: path + queryFrom(rest), body: raw };
  return { verb, path, body: raw ?? JSON.stringify(body === "*" ? rest : (rest[body] ?? null)) };
}

interface RestError {
  readonly status: string;
  readonly message: string;
  readonly details: readonly [
    { readonly reason: string; readonly metadata: JsonValue },
    { readonly field_violations: Answer["violations"] }?,
  ];
}

function answerFromRest(status: number, text: string): Answer {
  const json = JSON.parse(text) as JsonObject & { error?: RestError };
  if (status < 400) return ok(json, status);
  const { error } = json;
  if (error === undefined) throw new Error(`status ${status} came without an error: ${text}`);
  const [info, bad] = error.details;
  return {
    code: error.status,
    reason: info.reason,
    message: error.message,
    metadata: info.metadata,
    status,
    violations: bad?.field_violations ?? [],
    body: undefined,
  };
}

/** REST by `fetch`, along the routes that the descriptors declare. */
export function restWire(baseUrl: string): Wire {
  const send = (method: DescMethod, request: JsonObject, { key, isExpired, raw, signal }: CallOptions) => {
    const { verb, path, body } = httpRequestFor(method, request, raw?.json);
    const headers = {
      ...(key === null ? {} : { "x-api-key": key }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(isExpired ? { "x-request-timeout-ms": "0" } : {}),
    };
    const init = { method: verb, headers, ...(body === undefined ? {} : { body }), ...(signal ? { signal } : {}) };
    return fetch(baseUrl + path, init);
  };
  return {
    name: "rest",
    async unary(method, request, options) {
      const response = await send(method, request, options);
      return answerFromRest(response.status, await response.text());
    },
    async *stream(method, request, options) {
      const response = await send(method, request, options);
      if (response.status >= 400) throw answerFromRest(response.status, await response.text());
      for await (const line of linesOf(response)) {
        const json = JSON.parse(line) as JsonObject;
        if (json.ok === false) throw answerFromRest(500, line);
        yield json;
      }
    },
  };
}

async function* linesOf(response: Response): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines.filter((line) => line !== "");
  }
}
