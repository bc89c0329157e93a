import { type DescMethod, getOption, hasOption } from "@bufbuild/protobuf";
import { access, Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Caller } from "../api/context.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { assertCsrfToken, CSRF_HEADER, SignInCookie } from "./dashboard/cookie.ts";
import type { IncomingCall } from "./incoming-call.ts";

/** Returns the holder of a key; `undefined` for an unknown key. */
export type Authenticate = (key: string) => Promise<Caller | undefined> | Caller | undefined;

/** Access rule of a method. */
export interface AccessRule {
  /** Bit `1 << role` is set for every role that may call. */
  readonly mask: number;
  /** Names of these roles, for messages. */
  readonly roles: string;
  /** True if ended credentials and tokens may call: the decision then refuses the action and records why. */
  readonly opensAfterEnd: boolean;
}

const OPEN_AFTER_END: readonly DescMethod[] = [
  EnforcementService.method.intercept,
  EnforcementService.method.interceptStream,
];

const BEARER = /^bearer +(\S+) *$/i;

/** Parts by which callers are found. */
export interface CallerFinderOptions {
  readonly authenticate: Authenticate;
  /** Cookie of the dashboard. Default: its form without TLS. */
  readonly signInCookie?: SignInCookie | undefined;
  /** Throws KEY_INVALID for a federation token whose audience is not this service. Default: for every one. */
  readonly assertAudience?: ((audience: string, workspaceId: string) => void) | undefined;
}

/** Finds the callers of calls by their keys: `X-API-Key`, otherwise `Authorization: Bearer`, otherwise the dashboard's cookie. */
export class CallerFinder {
  readonly #authenticate: Authenticate;
  readonly #signInCookie: SignInCookie;
  readonly #assertAudience: NonNullable<CallerFinderOptions["assertAudience"]>;

  constructor({ authenticate, signInCookie = new SignInCookie(false), assertAudience }: CallerFinderOptions) {
    this.#authenticate = authenticate;
    this.#signInCookie = signInCookie;
    this.#assertAudience =
      assertAudience ??
      (() => {
        throw keyInvalid();
      });
  }

  /** Returns the key of a call. */
  keyOf(incoming: IncomingCall): string | undefined {
    return keyInHeaders(incoming) ?? this.#signInCookie.secretIn(incoming.header("cookie"));
  }

  /**
   * Finds the caller by the key of a call. Rejects with KEY_MISSING or KEY_INVALID, and with CSRF_TOKEN_INVALID for a cookie
   * without its token: a browser also sends cookies with requests that another site caused.
   */
  async find(incoming: Pick<IncomingCall, "header">): Promise<Caller> {
    const key = keyInHeaders(incoming) ?? this.#keyFromCookie(incoming);
    if (key === undefined) throw keyMissing();
    const caller = await this.#authenticate(key);
    if (caller === undefined) throw keyInvalid();
    if (caller.audience !== undefined) this.#assertAudience(caller.audience, caller.workspaceId);
    return caller;
  }

  #keyFromCookie(incoming: Pick<IncomingCall, "header">): string | undefined {
    const secret = this.#signInCookie.secretIn(incoming.header("cookie"));
    if (secret !== undefined) assertCsrfToken(secret, incoming.header(CSRF_HEADER));
    return secret;
  }
}

/** Returns the key in a call's headers: `X-API-Key`, otherwise `Authorization: Bearer`. */
function keyInHeaders(incoming: Pick<IncomingCall, "header">): string | undefined {
  const key = incoming.header("x-api-key");
  if (key !== undefined && key !== "") return key;
  const authorization = incoming.header("authorization");
  return authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
}

/** Returns KEY_INVALID. */
export function keyInvalid(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.KEY_INVALID, "the key is unknown, expired or revoked");
}

function keyMissing(): ControlPlaneError {
  const text = "no key came with the call; send it as `X-API-Key` or as `Authorization: Bearer`";
  return new ControlPlaneError(ErrorReason.KEY_MISSING, text);
}

/** Reads the `access` option of a method. Throws an `Error` if it is missing, so that no method is open by mistake. */
export function accessRuleOf(method: DescMethod): AccessRule {
  const roles = hasOption(method, access) ? getOption(method, access).roles : [];
  if (roles.length === 0) throw new Error(`${method.toString()} allows no role`);
  return {
    mask: roles.reduce((mask, role) => mask | (1 << role), 0),
    roles: roles.map(roleWord).join(", "),
    opensAfterEnd: OPEN_AFTER_END.includes(method),
  };
}

/**
 * Throws ROLE_NOT_ALLOWED unless the rule lists the caller's role, and KEY_INVALID for an ended credential or token unless the
 * method decides actions.
 */
export function assertMayCall(caller: Caller, rule: AccessRule, method: DescMethod): void {
  if (caller.isEnded === true && !rule.opensAfterEnd) throw keyInvalid();
  if ((rule.mask & (1 << caller.role)) !== 0) return;
  const role = roleWord(caller.role);
  const text = `a key with role \`${role}\` may not call \`${method.name}\`; allowed are ${rule.roles}`;
  const metadata = { role, method: method.name, allowed_roles: rule.roles };
  throw new ControlPlaneError(ErrorReason.ROLE_NOT_ALLOWED, text, metadata);
}

function roleWord(role: Role): string {
  return (Role[role] ?? String(role)).toLowerCase();
}
