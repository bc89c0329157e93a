import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { encodedHeader } from "./headers.ts";
import type { RpcRequest } from "./messages.ts";
import { uriFault } from "./resource-uris.ts";

/** A request as it is decided. */
export interface Subject {
  /** The server's own name of the tool; for any other method than `tools/call`, the method. */
  readonly tool: string;
  readonly isTool: boolean;
  /** Arguments that rules read. */
  readonly arguments: JsonObject;
  /** Members of `params` that make up tool and arguments. */
  readonly members: readonly string[];
  /** True if the decision changes no trust: a client completes what a person types, and the agent does nothing. */
  readonly keepsTrust: boolean;
}

/** Members of `params` that are decided, by method, each with the test that a fitting value passes. */
const MEMBERS: ReadonlyMap<string, Readonly<Record<string, Fits>>> = new Map<string, Record<string, Fits>>([
  ["resources/read", { uri: isText }],
  ["resources/subscribe", { uri: isText }],
  ["prompts/get", { name: isText, arguments: isObjectOrAbsent }],
  ["completion/complete", { ref: isJsonObject, argument: isJsonObject, context: isObjectOrAbsent }],
]);

type Fits = (value: JsonValue | undefined) => boolean;

function isText(value: JsonValue | undefined): boolean {
  return typeof value === "string";
}

function isObjectOrAbsent(value: JsonValue | undefined): boolean {
  return value === undefined || isJsonObject(value);
}

/** Reads the subject of a request that is decided; the text is the reason why its `params` do not fit. */
export function subjectOf({ method, params = {} }: Pick<RpcRequest, "method" | "params">): Subject | string {
  const keepsTrust = method === "completion/complete";
  if (method === "tools/call") {
    const [tool, args] = [ownValue(params, "name"), ownValue(params, "arguments") ?? {}];
    if (typeof tool !== "string" || !isJsonObject(args)) return "`name` must be text and `arguments` an object";
    return { tool, isTool: true, arguments: args, members: ["name", "arguments"], keepsTrust };
  }
  const members = MEMBERS.get(method) ?? {};
  const given: [string, JsonValue][] = [];
  for (const [name, fits] of Object.entries(members)) {
    const value = ownValue(params, name);
    if (!fits(value)) return `\`${name}\` must be ${fits === isText ? "text" : "an object"}`;
    const fault = name === "uri" && typeof value === "string" ? uriFault(value) : undefined;
    if (fault !== undefined) return `\`uri\` ${fault}`;
    if (value !== undefined) given.push([name, value]);
  }
  return {
    tool: method,
    isTool: false,
    arguments: Object.fromEntries(given),
    members: Object.keys(members),
    keepsTrust,
  };
}

/** Returns the request with the arguments that were decided, which may be those that a person edited. */
export function withArguments(request: RpcRequest, { isTool, members }: Subject, args: JsonObject): RpcRequest {
  const { params = {} } = request;
  if (isTool) return { ...request, params: { ...params, arguments: args } };
  const rest = Object.entries(params).filter(([name]) => !members.includes(name));
  const decided = Object.entries(args).filter(([name]) => members.includes(name));
  return { ...request, params: Object.fromEntries([...decided, ...rest]) };
}

/** Returns the headers with the name that a request's `params` have now, if they repeat it. */
export function withName(
  headers: Readonly<Record<string, string>>,
  { params = {} }: RpcRequest,
): Readonly<Record<string, string>> {
  const name = ownValue(params, "name") ?? ownValue(params, "uri");
  if (headers["mcp-name"] === undefined || typeof name !== "string") return headers;
  return { ...headers, "mcp-name": encodedHeader(name) };
}

/** Maximum resources of one subscription: each is a decision. */
const MAX_RESOURCES = 100;

/** Returns the requests for the resources that a `subscriptions/listen` names, as they are decided; or the reason why it does not fit. */
export function subscribedResources({
  params = {},
}: RpcRequest): readonly Pick<RpcRequest, "method" | "params">[] | string {
  const notifications = ownValue(params, "notifications");
  if (!isJsonObject(notifications)) return "`notifications` must be an object";
  const uris = ownValue(notifications, "resourceSubscriptions") ?? [];
  if (!Array.isArray(uris) || !uris.every((uri) => typeof uri === "string"))
    return "`notifications.resourceSubscriptions` must be a list of texts";
  if (uris.length > MAX_RESOURCES) {
    return `\`notifications.resourceSubscriptions\` must have at most ${MAX_RESOURCES} items`;
  }
  for (const uri of uris) {
    const fault = uriFault(uri);
    if (fault !== undefined) return `\`notifications.resourceSubscriptions\` ${fault}`;
  }
  return [...new Set(uris)].map((uri) => ({ method: "resources/subscribe", params: { uri } }));
}
