import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { isResponse, type RpcId, type RpcMessage, type RpcResponse } from "./messages.ts";

/** Maximum requests, and tasks, of one session that are remembered: beyond it the oldest is forgotten. */
const MAX_OPEN = 1_000;
const ENDED = new Set<JsonValue | undefined>(["completed", "failed", "cancelled"]);

/**
 * The requests of a server that a session's client has not answered, and the tasks that the client made for them. A client's
 * answers and notifications pass only if they name one of these.
 */
export class ServerRequests {
  /** Progress tokens of the open requests; undefined for a request without one. */
  readonly #open = new Map<RpcId, JsonValue | undefined>();
  /** Progress tokens of the client's tasks, by their ids. */
  readonly #tasks = new Map<string, JsonValue | undefined>();

  /** Notes a message of the server that is passed to the client. */
  note(message: RpcMessage): void {
    if (isResponse(message)) return;
    const { method, params = {} } = message;
    if ("id" in message) put(this.#open, message.id, tokenOf(params));
    else if (method === "notifications/cancelled") this.#open.delete(ownValue(params, "requestId") as RpcId);
  }

  /** Tests whether a client's response answers an open request, which it then closes. */
  takes({ id, result }: RpcResponse): boolean {
    if (!this.#open.has(id)) return false;
    const token = this.#open.get(id);
    this.#open.delete(id);
    const task = result === undefined ? undefined : ownValue(result, "task");
    const taskId = isJsonObject(task) ? ownValue(task, "taskId") : undefined;
    if (typeof taskId === "string") put(this.#tasks, taskId, token);
    return true;
  }

  /** Tests whether a progress token is that of an open request or of a task. */
  hasToken(token: JsonValue | undefined): boolean {
    if (token === undefined) return false;
    return [...this.#open.values(), ...this.#tasks.values()].includes(token);
  }

  /** Tests whether a status is of one of the client's tasks. A task that has ended is forgotten. */
  takesStatus(params: JsonObject): boolean {
    const taskId = ownValue(params, "taskId") as string;
    if (!this.#tasks.has(taskId)) return false;
    if (ENDED.has(ownValue(params, "status"))) this.#tasks.delete(taskId);
    return true;
  }
}

function tokenOf(params: JsonObject): JsonValue | undefined {
  const meta = ownValue(params, "_meta");
  return isJsonObject(meta) ? ownValue(meta, "progressToken") : undefined;
}

function put<Key>(map: Map<Key, JsonValue | undefined>, key: Key, token: JsonValue | undefined): void {
  map.delete(key);
  map.set(key, token);
  const oldest = map.keys().next();
  if (map.size > MAX_OPEN && !oldest.done) map.delete(oldest.value);
}
