import type { IncomingHttpHeaders } from "node:http";
import { Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";
import type { WorkspaceLogs } from "../../log/workspace-logs.ts";
import type { Authenticator, KeyHolder } from "../../registry/authenticator.ts";

/** An authenticated caller and the authorization for the model's service. */
export interface ProxyCaller {
  readonly holder: KeyHolder;
  /** `Authorization` for the model's service; undefined: none. */
  readonly authorization: string | undefined;
}

/** Parts of the authentication. */
export interface CallersOptions {
  readonly authenticate: Authenticator["authenticate"];
  readonly logs: Pick<WorkspaceLogs, "of">;
  /** This service's own key for the model's service; undefined: none. */
  readonly llmKey: string | undefined;
}

const BEARER = /^bearer +(\S+) *$/i;
const ROLES: readonly Role[] = [Role.ADMIN, Role.OPERATOR, Role.AGENT];

const headerOf = (headers: IncomingHttpHeaders, name: string): string | undefined => {
  const value = headers[name];
  return typeof value === "string" && value !== "" ? value : undefined;
};

function fault(reason: ErrorReason, message: string, metadata: Record<string, string> = {}): ControlPlaneError {
  return new ControlPlaneError(reason, message, metadata);
}

/**
 * Separates our key from the model's. With `X-API-Key`, that is our key and `Authorization` is forwarded. Without it, our key is
 * the bearer token, as clients send their configured `api_key`, and this service's own key goes upstream. Our key MUST NOT
 * go upstream.
 */
function separateKeys(headers: IncomingHttpHeaders, llmKey: string | undefined) {
  const own = llmKey === undefined ? undefined : `Bearer ${llmKey}`;
  const authorization = headerOf(headers, "authorization");
  const bearer = BEARER.exec(authorization ?? "")?.[1];
  const key = headerOf(headers, "x-api-key");
  if (key === undefined) return { key: bearer, authorization: own };
  return { key, authorization: authorization === undefined || bearer === key ? own : authorization };
}

/**
 * Authenticates a caller. Rejects with KEY_MISSING, KEY_INVALID, WORKSPACE_NOT_FOUND for another workspace than the key's,
 * ROLE_NOT_ALLOWED for an auditor, and AGENT_INACTIVE for a key whose agent is deactivated or revoked.
 */
export async function authenticateCaller(
  { authenticate, logs, llmKey }: CallersOptions,
  headers: IncomingHttpHeaders,
  workspaceId: string,
): Promise<ProxyCaller> {
  const { key, authorization } = separateKeys(headers, llmKey);
  if (key === undefined) {
    throw fault(ErrorReason.KEY_MISSING, "no key came with the call; set it as the client's `api_key`");
  }
  const holder = await authenticate(key);
  if (holder === undefined || holder.isEnded === true) {
    throw fault(ErrorReason.KEY_INVALID, "the key is unknown, expired or revoked");
  }
  if (holder.workspaceId !== workspaceId) {
    const message = `no workspace \`${workspaceId}\``;
    throw fault(ErrorReason.WORKSPACE_NOT_FOUND, message, { workspace_id: workspaceId });
  }
  if (!ROLES.includes(holder.role)) {
    const role = (Role[holder.role] ?? "").toLowerCase();
    throw fault(ErrorReason.ROLE_NOT_ALLOWED, `a key with role \`${role}\` may not ask models`, { role });
  }
  await assertAgentActive(logs, holder);
  return { holder, authorization };
}

async function assertAgentActive(logs: Pick<WorkspaceLogs, "of">, { workspaceId, agentId }: KeyHolder): Promise<void> {
  if (agentId === null) return;
  const log = await logs.of(workspaceId);
  const state = await log.caughtUp();
  if (state.agents.get(agentId)?.status === "active") return;
  const message = `agent \`${agentId}\` is not active and asks no models`;
  throw fault(ErrorReason.AGENT_INACTIVE, message, { agent_id: agentId });
}
