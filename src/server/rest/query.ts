import type { DescMessage, Message } from "@bufbuild/protobuf";
import { fieldFault } from "./field-path.ts";
import type { TextBinder } from "./text-binder.ts";

/** Decodes a query string; the values of a name stay in their order. Throws INVALID_FIELD on a malformed escape. */
export function parametersFromQuery(query: string): Map<string, string[]> {
  const parameters = new Map<string, string[]>();
  for (const pair of query.split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = decoded(equals < 0 ? pair : pair.slice(0, equals));
    const value = decoded(equals < 0 ? "" : pair.slice(equals + 1), name);
    const values = parameters.get(name);
    if (values === undefined) parameters.set(name, [value]);
    else values.push(value);
  }
  return parameters;
}

function decoded(text: string, name = "query"): string {
  if (!text.includes("%") && !text.includes("+")) return text;
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw fieldFault("INVALID_FIELD", name, "holds a malformed percent-escape");
  }
}

/** What of a request its query may fill. */
export interface QueryTarget {
  readonly desc: DescMessage;
  readonly binder: TextBinder;
  /** Field paths that the URL path fills. */
  readonly pathFields: readonly string[];
  /** The field that the body fills, `"*"` when the body is the whole request, else `undefined`. */
  readonly bodyField: string | undefined;
}

/** Fills request fields from a query string. Throws a fault that names the parameter when one is unknown, repeated or misfit. */
export function applyQuery(query: string, message: Message, target: QueryTarget): void {
  for (const [name, texts] of parametersFromQuery(query)) {
    if (target.pathFields.includes(name)) throw fieldFault("DUPLICATE_FIELD", name, "is already given by the path");
    if (isBodyField(name, target.bodyField)) throw fieldFault("INVALID_FIELD", name, "belongs in the request body");
    const field = target.binder.bind(target.desc, name);
    if (field === undefined) throw fieldFault("UNKNOWN_FIELD", name, "is not a query parameter of this method");
    if (!field.repeated && texts.length > 1) throw fieldFault("DUPLICATE_FIELD", name, "is given more than once");
    field.set(message, texts);
  }
}

function isBodyField(name: string, bodyField: string | undefined): boolean {
  if (bodyField === undefined) return false;
  return bodyField === "*" || name === bodyField || name.startsWith(`${bodyField}.`);
}
