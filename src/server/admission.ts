import { type DescMethod, getOption, hasOption } from "@bufbuild/protobuf";
import { access, Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Caller } from "../api/context.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { assertCsrfToken, CSRF_HEADER, signInFromCookie } from "./dashboard/cookie.ts";
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

/** Returns the key of a call: `X-API-Key`, otherwise `Authorization: Bearer`, otherwise the cookie of the dashboard. */
export function keyFrom(incoming: IncomingCall): string | undefined {
  return keyInHeaders(incoming) ?? signInFromCookie(incoming.header("cookie"));
}

/** Returns the key in a call's headers: `X-API-Key`, otherwise `Authorization: Bearer`. */
export function keyInHeaders(incoming: IncomingCall): string | undefined {
  const key = incoming.header("x-api-key");
  if (key !== undefined && key !== "") return key;
  const authorization = incoming.header("authorization");
  return authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
}

/**
 * Finds the caller by the key of a call. Rejects with KEY_MISSING or KEY_INVALID, and with CSRF_TOKEN_INVALID for a cookie
 * without its token: a browser also sends cookies with requests that another site caused.
 */
export async function findCaller(incoming: IncomingCall, authenticate: Authenticate): Promise<Caller> {
  const key = keyInHeaders(incoming) ?? keyFromCookie(incoming);
  if (key === undefined) throw keyMissing();
  const caller = await authenticate(key);
  if (caller === undefined) throw keyInvalid();
  return caller;
}

function keyFromCookie(incoming: IncomingCall): string | undefined {
  const secret = signInFromCookie(incoming.header("cookie"));
  if (secret !== undefined) assertCsrfToken(secret, incoming.header(CSRF_HEADER));
  return secret;
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
