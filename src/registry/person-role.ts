import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { PersonRow } from "../store/entities.ts";

/** Returns the role that a person has now: the one that an admin gave, else that of their groups; undefined without either. */
export const roleOfPerson = ({ role, groupRole }: Pick<PersonRow, "role" | "groupRole">): Role | undefined =>
  (role ?? groupRole ?? undefined) as Role | undefined;

/** Roles from the one with the fewest rights on. */
const RANKS: readonly Role[] = [Role.AGENT, Role.AUDITOR, Role.OPERATOR, Role.ADMIN];

/** Returns the place of a role among all, from the one with the fewest rights on. */
export const rankOf = (role: Role): number => RANKS.indexOf(role);

/**
 * Returns the role that a key has by its owner: its own, or that of the owner if this has fewer rights; undefined for an owner who was
 * deactivated, has no role, or whom the issuer no longer vouches for. A key of somebody who never signed in has its own.
 */
export function roleUnderOwner(role: Role, owner: PersonRow | null): Role | undefined {
  if (owner === null) return role;
  if ((owner.deactivatedAtMs ?? null) !== null || (owner.leftAtMs ?? null) !== null) return undefined;
  const most = roleOfPerson(owner);
  if (most === undefined) return undefined;
  return rankOf(role) > rankOf(most) ? most : role;
}
