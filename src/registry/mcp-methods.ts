/**
 * Methods and notifications of the gateway's table, of every generation of the protocol. The table settles how each of them
 * passes, so no server's registration can let one pass undecided.
 */
export const TABLE_METHODS: readonly string[] = [
  "initialize",
  "ping",
  "logging/setLevel",
  "server/discover",
  "tools/list",
  "tools/call",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "resources/subscribe",
  "resources/unsubscribe",
  "subscriptions/listen",
  "prompts/list",
  "prompts/get",
  "completion/complete",
  "tasks/list",
  "tasks/get",
  "tasks/result",
  "tasks/update",
  "tasks/cancel",
  "sampling/createMessage",
  "elicitation/create",
  "roots/list",
  "notifications/initialized",
  "notifications/cancelled",
  "notifications/progress",
  "notifications/roots/list_changed",
  "notifications/tasks/status",
];

/** The methods in the form in which names are compared: a lenient server may take `Tools/Call` for `tools/call`. */
const COMPARABLE: ReadonlySet<string> = new Set(TABLE_METHODS.map((method) => method.toLowerCase()));

/** Tests whether the gateway's table has a method, in any letter case. */
export const isTableMethod = (method: string): boolean => COMPARABLE.has(method.toLowerCase());
