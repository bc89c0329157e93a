import type { Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import type { Claims } from "./oidc-issuer.ts";

/** Role that members of a group get in a workspace. */
export interface GroupRule {
  readonly group: string;
  readonly workspaceId: string;
  readonly role: Role;
}

/** A role in a workspace. */
export interface Membership {
  readonly workspaceId: string;
  readonly role: Role;
}

/** Prefix of a person's name. Ids of keys have other prefixes. */
const PERSON_MARK = "oidc:";
const MAX_NAME = 200;
/** Form of a subject identifier: ASCII, compared exactly (OpenID Connect Core §2). */
const SUBJECT = /^[\x21-\x7e]{1,200}$/;
/** Maximum groups that are read; issuers send few. */
const MAX_GROUPS = 10_000;

/**
 * Names a person for `resolved_by` and the log: `oidc:` and the email, unless the issuer says that it is not verified, else the
 * preferred username, else the subject. Undefined if none of these can be shown. `readName` returns the normalised form of a *
 * name, and undefined for a text that could be mistaken for another name.
 */
export function personFrom(claims: Claims, readName: (text: string) => string | undefined): string | undefined {
  const isVerified = claims.email_verified !== false && claims.email_verified !== "false";
  for (const claim of [isVerified ? claims.email : undefined, claims.preferred_username]) {
    const name = typeof claim === "string" && claim.length <= MAX_NAME ? readName(claim) : undefined;
    if (name !== undefined && name !== "" && name.length <= MAX_NAME) return PERSON_MARK + name;
  }
  const { sub } = claims;
  return typeof sub === "string" && SUBJECT.test(sub) ? PERSON_MARK + sub : undefined;
}

/** Returns a person's roles by groups: in each workspace the role of the first matching rule, in the order of the rules. */
export function membershipsFrom(claim: unknown, rules: readonly GroupRule[]): readonly Membership[] {
  const listed: readonly unknown[] = Array.isArray(claim) ? claim.slice(0, MAX_GROUPS) : [claim];
  const groups = new Set(listed.filter((group) => typeof group === "string"));
  const found = new Map<string, Membership>();
  for (const { group, workspaceId, role } of rules) {
    if (groups.has(group) && !found.has(workspaceId)) found.set(workspaceId, { workspaceId, role });
  }
  return [...found.values()];
}
