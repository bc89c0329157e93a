import { type DescField, type DescMethod, getOption, hasOption } from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { http } from "../../../gen/google/api/annotations_pb.js";
import type { HttpRule } from "../../../gen/google/api/http_pb.js";

/** One way to reach an RPC over HTTP, as its `google.api.http` option declares it. */
export interface HttpBinding {
  /** Upper-case HTTP method. */
  readonly httpMethod: string;
  readonly template: string;
  /** Where the body goes: the whole request, one field of it, or nowhere. */
  readonly body: "message" | "none" | DescField;
  /** The response field that alone makes the response body; `undefined`: the whole response. */
  readonly responseBody: DescField | undefined;
}

const ANY_METHOD = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const RESPONSE_BODY_FIELD = 12;

/** The bindings of an RPC, the main one first; empty when it has no `google.api.http` option. */
export function httpBindingsFromMethod(method: DescMethod): HttpBinding[] {
  if (!hasOption(method, http)) return [];
  const rule = getOption(method, http);
  return [rule, ...rule.additionalBindings].flatMap((each) => bindingsFromRule(method, each));
}

function bindingsFromRule(method: DescMethod, rule: HttpRule): HttpBinding[] {
  const { methods, template } = patternOf(method, rule);
  const body = bodyOf(method, rule.body);
  const responseName = responseBodyName(rule);
  const responseBody = responseName === "" ? undefined : fieldNamed(method, method.output.fields, responseName);
  return methods.map((httpMethod) => ({ httpMethod, template, body, responseBody }));
}

function patternOf(method: DescMethod, { pattern }: HttpRule): { methods: string[]; template: string } {
  if (pattern.case === undefined) throw new Error(`${method}: its google.api.http rule has no path`);
  if (pattern.case !== "custom") return { methods: [pattern.case.toUpperCase()], template: pattern.value };
  const { kind, path } = pattern.value;
  return { methods: kind === "*" ? ANY_METHOD : [kind.toUpperCase()], template: path };
}

function bodyOf(method: DescMethod, body: string): HttpBinding["body"] {
  if (body === "") return "none";
  return body === "*" ? "message" : fieldNamed(method, method.input.fields, body);
}

function fieldNamed(method: DescMethod, fields: readonly DescField[], name: string): DescField {
  const field = fields.find((each) => each.name === name);
  if (field === undefined) throw new Error(`${method}: its google.api.http rule names the unknown field \`${name}\``);
  return field;
}

// The http.proto that the code is generated from may predate `response_body`, which then is an unknown field.
function responseBodyName(rule: HttpRule): string {
  if ("responseBody" in rule) return String(rule.responseBody);
  const unknown = rule.$unknown?.findLast((field) => field.no === RESPONSE_BODY_FIELD);
  return unknown === undefined ? "" : new BinaryReader(unknown.data).string();
}
