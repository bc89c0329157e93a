import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { PersonRow } from "../store/entities.ts";

/** Columns of a person that decide on their rights. */
export type PersonStanding = Pick<PersonRow, "role" | "groupRole" | "checkedAtMs" | "deactivatedAtMs" | "leftAtMs">;

/** Returns the role that a person has now: the one that an admin gave, else that of their groups; undefined without either. */
export const roleOfPerson = ({ role, groupRole }: Pick<PersonRow, "role" | "groupRole">): Role | undefined =>
  (role ?? groupRole ?? undefined) as Role | undefined;

const isGone = ({ deactivatedAtMs, leftAtMs }: PersonStanding): boolean =>
  (deactivatedAtMs ?? null) !== null || (leftAtMs ?? null) !== null;

/** Returns the role of a person who was neither deactivated nor left their issuer; undefined for others, and without a role. */
export const roleInOffice = (person: PersonStanding): Role | undefined =>
  isGone(person) ? undefined : roleOfPerson(person);

/** Roles from the one with the fewest rights on. */
const RANKS: readonly Role[] = [Role.AGENT, Role.AUDITOR, Role.OPERATOR, Role.ADMIN];

/** Returns the place of a role among all, from the one with the fewest rights on. */
export const rankOf = (role: Role): number => RANKS.indexOf(role);

/**
 * Returns the role that a key has by its owner: its own, or that of the owner if this has fewer rights; undefined for an owner who was
 * deactivated, has no role, or whom the issuer no longer vouches for. A key of somebody who never signed in has its own, and so has one of
 * somebody whose groups an earlier version did not keep, until they sign in.
 */
export function roleUnderOwner(role: Role, owner: PersonStanding | null): Role | undefined {
  if (owner === null) return role;
  if (isGone(owner)) return undefined;
  const most = roleOfPerson(owner);
  if (most === undefined) return (owner.checkedAtMs ?? null) === null ? role : undefined;
  return rankOf(role) > rankOf(most) ? most : role;
}
