import type { IncomingMessage } from "node:http";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { assertAudience, type ServiceAudience } from "../authority/audience.ts";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { Authenticator, KeyHolder } from "../registry/authenticator.ts";
import { keyInvalid } from "../server/admission.ts";
import { headerOf } from "../server/http-reply.ts";
import { requestIdFrom } from "../server/incoming-call.ts";
import type { WrongKeys } from "../server/wrong-keys.ts";
import type { AccessTokens } from "./access-tokens.ts";

/** Caller of the gateway: a key of the workspace, and the agent that it acts for. */
export interface McpCaller {
  readonly workspaceId: string;
  /** `key_…`, `crd_…`, `fed_…`; for an access token `oidc:` and its issuer and subject. */
  readonly keyId: string;
  readonly role: Role;
  readonly agentId: string;
  /** True for a key that is bound to the agent. */
  readonly isKeyBound: boolean;
  /** True for a credential or token that has ended: its calls are refused on record. */
  readonly isEnded: boolean;
  /** Epoch milliseconds; null for a key that does not expire. */
  readonly expiresAtMs: number | null;
}

/** Parts of `McpCallers`. */
export interface McpCallersOptions {
  readonly authenticate: Authenticator["authenticate"];
  /** Counts unknown keys. Access tokens do not count: a client renews an expired token when it is refused. */
  readonly wrongKeys: Pick<WrongKeys, "refusal">;
  /** Verifier of the configured issuer's access tokens. */
  readonly tokens?: Pick<AccessTokens, "claims" | "callerOf"> | undefined;
  /** Audience of federation tokens that is accepted besides the resource itself. */
  readonly audience?: string | undefined;
  /** Audiences of federation tokens where a call has no resource. */
  readonly service: Pick<ServiceAudience, "of">;
}

const BEARER = /^bearer +(\S+) *$/i;
const AGENT_HEADER = "x-agent-id";
const MAX_AGENT_ID = 64;
const ROLES: readonly Role[] = [Role.ADMIN, Role.OPERATOR, Role.AGENT];

/** Finds the callers of the gateway. */
export class McpCallers {
  readonly #authenticate: Authenticator["authenticate"];
  readonly #tokens: McpCallersOptions["tokens"];
  readonly #audience: string | undefined;
  readonly #service: McpCallersOptions["service"];
  readonly #wrongKeys: McpCallersOptions["wrongKeys"];

  constructor({ authenticate, wrongKeys, tokens, audience, service }: McpCallersOptions) {
    this.#service = service;
    this.#wrongKeys = wrongKeys;
    this.#audience = audience;
    this.#authenticate = authenticate;
    this.#tokens = tokens;
  }

  /**
   * Finds the caller by `X-API-Key`, else by `Authorization: Bearer`: an API key, an agent's credential, or, for this `resource`,
   * a federation token or an access token of the configured issuer. With an unbound key, `X-Agent-Id` names the agent. Rejects
   * with KEY_MISSING, KEY_INVALID, TOO_MANY_WRONG_KEYS, ROLE_NOT_ALLOWED for auditors, AGENT_NOT_ALLOWED for another agent than
   * the key's, and INVALID_FIELD for an unbound key without an agent.
   */
  async identify(request: IncomingMessage, resource: string | undefined): Promise<McpCaller> {
    const key = keyOf(request);
    if (this.#tokens?.claims(key)) {
      const caller = await this.#tokens.callerOf(key, resource);
      agentOf(request, caller);
      return caller;
    }
    const holder = await this.#authenticate(key);
    if (holder === undefined) throw this.#wrongKey(request, keyInvalid());
    this.#assertAudience(request, holder, resource);
    if (!ROLES.includes(holder.role)) {
      const role = (Role[holder.role] ?? "").toLowerCase();
      throw new ControlPlaneError(ErrorReason.ROLE_NOT_ALLOWED, `a key with role \`${role}\` may not call tools`, {
        role,
      });
    }
    const { workspaceId, keyId, role, isEnded = false, expiresAtMs = null } = holder;
    const agentId = agentOf(request, holder);
    return { workspaceId, keyId, role, agentId, isKeyBound: holder.agentId !== null, isEnded, expiresAtMs };
  }

  /** Throws KEY_INVALID for a federation token for another audience. */
  #assertAudience(request: IncomingMessage, holder: KeyHolder, resource: string | undefined): void {
    const { audience, workspaceId } = holder;
    if (audience === undefined) return;
    const own = resource === undefined ? this.#service.of(workspaceId) : [resource];
    try {
      assertAudience(
        audience,
        [...own, this.#audience].filter((each) => each !== undefined),
      );
    } catch (error) {
      throw this.#wrongKey(request, error as ControlPlaneError);
    }
  }

  /** Counts a wrong key. Returns the refusal, or TOO_MANY_WRONG_KEYS. */
  #wrongKey(request: IncomingMessage, refusal: ControlPlaneError): ControlPlaneError {
    const requestId = requestIdFrom(headerOf(request, "x-request-id"));
    const address = request.socket.remoteAddress;
    const { message: reason } = refusal;
    return this.#wrongKeys.refusal({ address, requestId, method: "gateway", reason }) ?? refusal;
  }
}

/** Returns the key of a request: `X-API-Key`, else the bearer token. Throws KEY_MISSING. */
export function keyOf({ headers }: IncomingMessage): string {
  const given = headers["x-api-key"];
  if (typeof given === "string" && given !== "") return given;
  const { authorization } = headers;
  const bearer = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
  if (bearer !== undefined) return bearer;
  const text = "no key came with the call; send it as `X-API-Key` or as `Authorization: Bearer`";
  throw new ControlPlaneError(ErrorReason.KEY_MISSING, text);
}

function agentOf({ headers }: IncomingMessage, { agentId }: Pick<KeyHolder, "agentId">): string {
  const value = headers[AGENT_HEADER];
  const named = typeof value === "string" && value !== "" ? value : undefined;
  if (agentId !== null) {
    if (named === undefined || named === agentId) return agentId;
    const text = `the key is bound to agent \`${agentId}\` and cannot act as another`;
    throw new ControlPlaneError(ErrorReason.AGENT_NOT_ALLOWED, text, { agent_id: agentId });
  }
  if (named === undefined) {
    throw invalidField("X-Agent-Id", "must name the calling agent: the key is not bound to one");
  }
  if (named.length > MAX_AGENT_ID) throw invalidField("X-Agent-Id", `must have at most ${MAX_AGENT_ID} characters`);
  return named;
}
