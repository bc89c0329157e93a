import { isTableMethod } from "../registry/mcp-methods.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import { errorBody, type Incoming, type Refusal } from "./incoming.ts";
import { isRequest, isResponse, RPC_CODES } from "./messages.ts";
import { findMethod, isRequestMethod, type Method } from "./methods.ts";

/** Returns the entry of the list of methods for a message; undefined for a response and for a method that is not listed. */
export function methodOf({ message, generation }: Pick<Incoming, "message" | "generation">): Method | undefined {
  if (isResponse(message)) return undefined;
  return findMethod(isRequest(message) ? "request" : "notification", generation, message.method);
}

/**
 * Refuses a message whose method neither the list of methods has for its generation nor its server names, and a request without
 * an id. Undefined if the message may pass.
 */
export function methodRefusal(
  { message, generation }: Pick<Incoming, "message" | "generation">,
  method: Method | undefined,
  { passMethods }: Pick<McpServer, "passMethods">,
): Refusal | undefined {
  if (isResponse(message) || method !== undefined) return undefined;
  const { method: name } = message;
  if (!isRequest(message) && isRequestMethod(name)) {
    return { status: 400, body: errorBody(RPC_CODES.invalidRequest, "a request needs an `id`") };
  }
  // A notification of the other generation, which a stateless client may send to no effect.
  if (!isRequest(message) && generation === "stateless" && findMethod("notification", "stateful", name))
    return undefined;
  if (passMethods.includes(name) && !isTableMethod(name)) return undefined;
  const text = "the gateway does not pass this method; `pass_methods` of the server can name it";
  const body = errorBody(RPC_CODES.methodNotFound, text, undefined, isRequest(message) ? message.id : null);
  if (!isRequest(message)) return { status: 400, body };
  return { status: generation === "stateless" ? 404 : 200, body };
}
