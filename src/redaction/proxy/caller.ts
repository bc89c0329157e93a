import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import type { WorkspaceLogs } from "../../log/workspace-logs.ts";
import type { Authenticator, KeyHolder } from "../../registry/authenticator.ts";
import { isSameOrigin } from "../../registry/url-origin.ts";
import { isInForce } from "../../state/authority-status.ts";

/** An authenticated caller and the authorization for the model's service. */
export interface ProxyCaller {
  readonly holder: KeyHolder;
  /** `Authorization` for the model's service. */
  readonly authorization: string | undefined;
  /** True if the caller sent its own authorization, so that the account at the model's service is its own. */
  readonly isOwnAccount: boolean;
}

/** Throttle for the guessing of keys, by address. */
export interface WrongKeyCounter {
  /** Counts a wrong key. Returns TOO_MANY_WRONG_KEYS once the address has used up its share. */
  refusal(call: {
    readonly address: string | undefined;
    readonly requestId: string;
    readonly method: string;
  }): ControlPlaneError | undefined;
}

/** Parts of the authentication. */
export interface CallersOptions {
  readonly authenticate: Authenticator["authenticate"];
  readonly wrongKeys: WrongKeyCounter;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  /** This service's own key for the model's service. */
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

/** Returns the bearer token of `Authorization`; undefined without the header. Throws INVALID_FIELD for another scheme. */
function bearerOf(headers: IncomingHttpHeaders): string | undefined {
  const authorization = headerOf(headers, "authorization");
  if (authorization === undefined) return undefined;
  const bearer = BEARER.exec(authorization)?.[1];
  if (bearer === undefined) throw invalidField("authorization", "must be `Bearer` and a key");
  return bearer;
}

/**
 * Authenticates a caller and separates our key from the key for the model. With `X-API-Key`, this is our key, and the bearer
 * token goes upstream. Without it, the bearer token is our key, as clients send their configured `api_key`, and this service's
 * own key goes upstream. A bearer token that is a key of this service never goes upstream.
 *
 * Rejects with KEY_MISSING, KEY_INVALID, INVALID_FIELD, WORKSPACE_NOT_FOUND for another workspace than the key's, AGENT_INACTIVE
 * for a key whose agent is deactivated or revoked, and ROLE_NOT_ALLOWED for an auditor and for a federation token, whose action
 * types do not cover models.
 */
export async function authenticateCaller(
  options: CallersOptions,
  headers: IncomingHttpHeaders,
  workspaceId: string,
): Promise<ProxyCaller> {
  const { authenticate, llmKey } = options;
  const bearer = bearerOf(headers);
  const given = headerOf(headers, "x-api-key");
  const key = given ?? bearer;
  if (key === undefined) {
    throw fault(ErrorReason.KEY_MISSING, "no key came with the call; set it as the client's `api_key`");
  }
  const holder = await authenticate(key);
  if (holder === undefined || holder.isEnded === true) throw keyInvalid();
  if (holder.workspaceId !== workspaceId) {
    const message = `no workspace \`${workspaceId}\``;
    throw fault(ErrorReason.WORKSPACE_NOT_FOUND, message, { workspace_id: workspaceId });
  }
  if (!ROLES.includes(holder.role)) {
    const role = (Role[holder.role] ?? "").toLowerCase();
    throw fault(ErrorReason.ROLE_NOT_ALLOWED, `a key with role \`${role}\` may not ask models`, { role });
  }
  await assertMayAsk(options, holder);
  if (given !== undefined && bearer !== undefined && (await authenticate(bearer)) === undefined) {
    return { holder, authorization: `Bearer ${bearer}`, isOwnAccount: true };
  }
  return { holder, authorization: llmKey === undefined ? undefined : `Bearer ${llmKey}`, isOwnAccount: false };
}

/** Header in which a caller names the origin that its own key is for. */
const ORIGIN_HEADER = "x-llm-origin";

/**
 * Checks that a caller's own key is for the model's service at `url`. It is for the origin that the call names, else for that of the
 * shared service at `sharedUrl`: whoever changes the workspace's service must not get the keys of its callers. Throws
 * INVALID_FIELD, which does not tell where the service is.
 */
export function assertKeyFor(headers: IncomingHttpHeaders, url: string, sharedUrl: string | undefined): void {
  const named = headerOf(headers, ORIGIN_HEADER);
  if (named !== undefined) {
    if (!/^https?:$/.test(URL.parse(named)?.protocol ?? "")) {
      throw invalidField(ORIGIN_HEADER, "must be an origin, such as `https://api.openai.com`");
    }
    if (isSameOrigin(named, url)) return;
    throw invalidField(ORIGIN_HEADER, "is not where the workspace's model service is now, so your key was not sent");
  }
  if (sharedUrl !== undefined && isSameOrigin(sharedUrl, url)) return;
  const message =
    "must name the origin that the key in `authorization` is for, such as `https://api.openai.com`, since the workspace has a model service of its own";
  throw invalidField(ORIGIN_HEADER, message);
}

const keyInvalid = (): ControlPlaneError => fault(ErrorReason.KEY_INVALID, "the key is unknown, expired or revoked");

/** Returns the error, or TOO_MANY_WRONG_KEYS for a wrong key from an address that has sent too many. */
export function countedIfWrongKey(
  error: unknown,
  { headers, socket }: IncomingMessage,
  counter: WrongKeyCounter,
): unknown {
  if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.KEY_INVALID) return error;
  const requestId = headerOf(headers, "x-request-id") ?? "";
  return counter.refusal({ address: socket.remoteAddress, requestId, method: "redaction proxy" }) ?? error;
}

/** Checks the kind of the holder's key, its agent and its credential. */
async function assertMayAsk({ logs }: CallersOptions, { workspaceId, agentId, keyId }: KeyHolder): Promise<void> {
  if (keyId.startsWith("fed_")) {
    throw fault(ErrorReason.ROLE_NOT_ALLOWED, "a federation token may not ask models; use an API key of the workspace");
  }
  if (agentId === null) return;
  const log = await logs.of(workspaceId);
  const state = await log.caughtUp();
  if (state.agents.get(agentId)?.status !== "active") {
    const message = `agent \`${agentId}\` is not active and may not ask models`;
    throw fault(ErrorReason.AGENT_INACTIVE, message, { agent_id: agentId });
  }
  if (!keyId.startsWith("crd_")) return;
  const credential = state.authority.get(keyId);
  if (credential === undefined || !isInForce(credential, logs.clock.now())) throw keyInvalid();
}

/** Milliseconds between checks of a caller whose request is in flight. */
const RECHECK_MS = 1_000;
/** Reasons that end a caller's request: its key, agent or workspace changed. Any other fault counts as temporary. */
const ENDS: readonly ErrorReason[] = [
  ErrorReason.KEY_INVALID,
  ErrorReason.AGENT_INACTIVE,
  ErrorReason.ROLE_NOT_ALLOWED,
  ErrorReason.WORKSPACE_NOT_FOUND,
];

/** Creates a signal that aborts with the error once a caller loses its right to ask. The watch MUST be stopped. */
export function watchCaller(check: () => Promise<unknown>): {
  readonly signal: AbortSignal;
  readonly stop: () => void;
} {
  const ended = new AbortController();
  const timer = setInterval(() => {
    check().catch((error: unknown) => {
      if (error instanceof ControlPlaneError && ENDS.includes(error.reason)) ended.abort(error);
    });
  }, RECHECK_MS);
  return { signal: ended.signal, stop: () => clearInterval(timer) };
}
