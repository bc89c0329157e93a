import type { Generation } from "./endpoint.ts";

/** Check that a message has to pass. */
export type MethodRule =
  /** Nothing beside the caller: its key and its agent's status. */
  | "caller"
  /** A decision, sealed in the log. */
  | "decided"
  /** That the session itself has subscribed to the resource. */
  | "own subscription"
  /** That the agent's own call made the task. */
  | "own task"
  /** That the message names a request, progress token or task which is open in the session. */
  | "open in the session";

/** A message of a client that may pass. */
export interface Method {
  readonly method: string;
  readonly kind: "request" | "notification";
  readonly generations: readonly Generation[];
  readonly rule: MethodRule;
  /** Members of `params` that the specification defines, besides `_meta`. */
  readonly members: readonly string[];
}

const STATEFUL: readonly Generation[] = ["stateful"];
const STATELESS: readonly Generation[] = ["stateless"];
const BOTH: readonly Generation[] = ["stateful", "stateless"];

/** Members with which a client of the stateless generation goes on with a request. */
const ROUND = ["inputResponses", "requestState"];

const request = (
  method: string,
  generations: readonly Generation[],
  rule: MethodRule,
  members: readonly string[],
): Method => ({ method, kind: "request", generations, rule, members });

const notification = (method: string, rule: MethodRule, members: readonly string[]): Method => ({
  method,
  kind: "notification",
  generations: STATEFUL,
  rule,
  members,
});

/**
 * The messages of clients that pass, by generation. Any other is refused, unless the server's `pass_methods` names its method.
 * The table in the gateway's guide is compared with this list.
 */
export const METHODS: readonly Method[] = [
  request("initialize", STATEFUL, "caller", ["protocolVersion", "capabilities", "clientInfo"]),
  request("ping", STATEFUL, "caller", []),
  request("logging/setLevel", STATEFUL, "caller", ["level"]),
  request("server/discover", STATELESS, "caller", []),
  request("tools/list", BOTH, "caller", ["cursor"]),
  request("resources/list", BOTH, "caller", ["cursor"]),
  request("resources/templates/list", BOTH, "caller", ["cursor"]),
  request("prompts/list", BOTH, "caller", ["cursor"]),
  request("tools/call", STATEFUL, "decided", ["name", "arguments", "task"]),
  request("tools/call", STATELESS, "decided", ["name", "arguments", ...ROUND]),
  request("resources/read", STATEFUL, "decided", ["uri"]),
  request("resources/read", STATELESS, "decided", ["uri", ...ROUND]),
  request("prompts/get", STATEFUL, "decided", ["name", "arguments"]),
  request("prompts/get", STATELESS, "decided", ["name", "arguments", ...ROUND]),
  request("completion/complete", BOTH, "decided", ["ref", "argument", "context"]),
  request("resources/subscribe", STATEFUL, "decided", ["uri"]),
  request("resources/unsubscribe", STATEFUL, "own subscription", ["uri"]),
  request("subscriptions/listen", STATELESS, "decided", ["notifications"]),
  request("tasks/list", STATEFUL, "own task", ["cursor"]),
  request("tasks/result", STATEFUL, "own task", ["taskId"]),
  request("tasks/get", BOTH, "own task", ["taskId"]),
  request("tasks/cancel", BOTH, "own task", ["taskId"]),
  request("tasks/update", STATELESS, "own task", ["taskId", "inputResponses"]),
  notification("notifications/initialized", "caller", []),
  notification("notifications/roots/list_changed", "caller", []),
  notification("notifications/cancelled", "open in the session", ["requestId", "reason"]),
  notification("notifications/progress", "open in the session", ["progressToken", "progress", "total", "message"]),
  notification("notifications/tasks/status", "open in the session", [
    "taskId",
    "status",
    "statusMessage",
    "createdAt",
    "lastUpdatedAt",
    "ttl",
    "pollInterval",
  ]),
];

const keyOf = (kind: Method["kind"], generation: Generation, method: string): string =>
  `${kind} ${generation} ${method}`;

const BY_KEY: ReadonlyMap<string, Method> = new Map(
  METHODS.flatMap((each) =>
    each.generations.map((generation) => [keyOf(each.kind, generation, each.method), each] as const),
  ),
);

/** Returns the entry for a message of a client; undefined for a message that passes only if its server names it. */
export function findMethod(kind: Method["kind"], generation: Generation, method: string): Method | undefined {
  return BY_KEY.get(keyOf(kind, generation, method));
}

const REQUESTS: ReadonlySet<string> = new Set(
  METHODS.flatMap(({ kind, method }) => (kind === "request" ? [method] : [])),
);

/** Tests whether a method of the specification needs an id. */
export const isRequestMethod = (method: string): boolean => REQUESTS.has(method);
