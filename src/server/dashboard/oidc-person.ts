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

/** Texts that stand beside a person's name, for display alone. */
export interface PersonLabels {
  /** Email address that the issuer has verified; null if there is none. */
  readonly email: string | null;
  readonly displayName: string | null;
}

/** A person whom an issuer vouches for. */
export interface Person {
  /** Name for `resolved_by` and the log. */
  readonly name: string;
  readonly labels: PersonLabels;
}

/** Readers of names, which the service's registry provides. */
export interface PersonReaders {
  /** Returns the name of an issuer's subject; undefined for claims that identify nobody. */
  name(issuer: unknown, subject: unknown): string | undefined;
  /** Returns a text that may stand beside a name; undefined for one that could be mistaken for another. */
  label(text: unknown): string | undefined;
}

/** Maximum groups that are read, and that are kept with their maximum length; issuers send few. */
const MAX_GROUPS = 10_000;
const MAX_KEPT = 2_000;
const MAX_GROUP_LENGTH = 256;

/**
 * Returns a person by their issuer and subject; undefined if these identify nobody. Their labels are the email address, if the
 * issuer says that it is verified, and the name or user name, unless it could be mistaken for an address.
 */
export function personFrom(claims: Claims, readers: PersonReaders): Person | undefined {
  const name = readers.name(claims.iss, claims.sub);
  if (name === undefined) return undefined;
  const isVerified = claims.email_verified === true || claims.email_verified === "true";
  const email = isVerified ? readers.label(claims.email) : undefined;
  const given = [claims.name, claims.preferred_username].map(readers.label);
  const displayName = given.find((text) => text !== undefined && !text.includes("@"));
  return { name, labels: { email: email ?? null, displayName: displayName ?? null } };
}

const listedGroups = (claim: unknown): readonly string[] => {
  const listed: readonly unknown[] = Array.isArray(claim) ? claim.slice(0, MAX_GROUPS) : [claim];
  return listed.filter((group) => typeof group === "string");
};

/** Returns the groups in a claim that are kept with the person: without repetitions, those that are too long and those beyond the bound. */
export function groupsFrom(claim: unknown): readonly string[] {
  const isKept = (group: string): boolean =>
    group !== "" && group.length <= MAX_GROUP_LENGTH && group.isWellFormed() && !group.includes("\u0000");
  return [...new Set(listedGroups(claim).filter(isKept))].slice(0, MAX_KEPT);
}

/** Returns a person's roles by groups: in each workspace the role of the first matching rule, in the order of the rules. */
export function membershipsFrom(claim: unknown, rules: readonly GroupRule[]): readonly Membership[] {
  const groups = new Set(listedGroups(claim));
  const found = new Map<string, Membership>();
  for (const { group, workspaceId, role } of rules) {
    if (groups.has(group) && !found.has(workspaceId)) found.set(workspaceId, { workspaceId, role });
  }
  return [...found.values()];
}
