import { createHash } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { ownValue } from "../policy/json-value.ts";
import {
  createError,
  RPC_CODES,
  type RpcId,
  type RpcNotification,
  type RpcRequest,
  type RpcResponse,
} from "./messages.ts";
import type { Session } from "./sessions.ts";

/** Maximum subscriptions of a session that are remembered: beyond it the oldest is forgotten. */
const MAX_SUBSCRIPTIONS = 1_000;

/** Tests whether a client's notification names something that is open in its session, or names nothing. Cancels a call that is held. */
export function namesOpen(session: Session, { method, params = {} }: RpcNotification): boolean {
  switch (method) {
    case "notifications/cancelled":
      return cancels(session, params);
    case "notifications/progress":
      return session.fromServer.hasToken(ownValue(params, "progressToken"));
    case "notifications/tasks/status":
      return session.fromServer.takesStatus(params);
    default:
      return true;
  }
}

/** Tests whether the server has to hear of a cancellation. A call that it did not get ends here. */
function cancels({ open }: Session, params: JsonObject): boolean {
  const call = open.get(ownValue(params, "requestId") as RpcId);
  if (call === undefined) return false;
  // A forwarded call is cancelled by its server.
  if (call.isForwarded) return !(call.onCancelled?.(String(ownValue(params, "reason"))) ?? false);
  call.ending.abort(new ControlPlaneError(ErrorReason.CANCELLED, "the client cancelled the call"));
  return false;
}

/** Returns the response to the end of a subscription that the session does not have; undefined for any other request. */
export function foreignSubscription(
  session: Session | undefined,
  { id, method, params = {} }: RpcRequest,
): RpcResponse | undefined {
  if (method !== "resources/unsubscribe" || session?.subscriptions.has(digestOf(ownValue(params, "uri"))))
    return undefined;
  return createError(id, RPC_CODES.invalidParams, "the session has not subscribed to this resource");
}

/** Notes the answer to a request that begins or ends a subscription, and returns it. */
export function changeSubscriptions(
  session: Session | undefined,
  { method, params = {} }: RpcRequest,
  response: RpcResponse,
): RpcResponse {
  if (session === undefined || response.error !== undefined) return response;
  const { subscriptions } = session;
  const digest = digestOf(ownValue(params, "uri"));
  subscriptions.delete(digest);
  if (method === "resources/subscribe") subscriptions.add(digest);
  const [oldest] = subscriptions;
  if (subscriptions.size > MAX_SUBSCRIPTIONS && oldest !== undefined) subscriptions.delete(oldest);
  return response;
}

const digestOf = (uri: JsonValue | undefined): string =>
  createHash("sha256")
    .update(JSON.stringify(uri ?? null))
    .digest("base64");
