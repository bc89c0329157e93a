import type { Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import type { Claims } from "./oidc-issuer.ts";

/** What members of a group become. */
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

/** Marks people among the holders of keys, whose ids begin otherwise. */
const PERSON_MARK = "oidc:";
const MAX_NAME = 200;
/** Subject identifiers are ASCII (OpenID Connect Core §2) and compare exactly. */
const SUBJECT = /^[\x21-\x7e]{1,200}$/;
/** Groups that are looked at; an issuer gives few. */
const MAX_GROUPS = 10_000;

/**
 * Names a person for `resolved_by` and the log: `oidc:` and the email, unless the issuer says that it is not verified, else the
 * preferred username, else the subject. Undefined when none of them can be shown. `readName` gives the normalised form of a name,
 * undefined for a text that could pass for another.
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

/** Finds what a person's groups give: in each workspace the role of the first rule that matches, in the order of the rules. */
export function membershipsFrom(claim: unknown, rules: readonly GroupRule[]): readonly Membership[] {
  const listed: readonly unknown[] = Array.isArray(claim) ? claim.slice(0, MAX_GROUPS) : [claim];
  const groups = new Set(listed.filter((group) => typeof group === "string"));
  const found = new Map<string, Membership>();
  for (const { group, workspaceId, role } of rules) {
    if (groups.has(group) && !found.has(workspaceId)) found.set(workspaceId, { workspaceId, role });
  }
  return [...found.values()];
}
