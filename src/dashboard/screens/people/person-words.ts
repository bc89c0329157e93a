import { Role } from "../../../../gen/agentcontrol/v1/access_pb.js";
import type { Person } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";

/** Roles that a person may have. */
export const PERSON_ROLES = [
  { value: Role.OPERATOR, title: "operator: agents, mandates, escalations; no keys" },
  { value: Role.AUDITOR, title: "auditor: reads everything, changes nothing" },
  { value: Role.ADMIN, title: "admin: everything" },
];

/** Returns the name of a person, or their id if they have none. */
export const nameOf = ({ name, actor }: Person): string => (name === "" ? actor : name);

/** Returns the words for a person's role. */
export function roleOf({ role, roleFromGroups }: Person): string {
  if (role === Role.UNSPECIFIED) return "none";
  return `${(Role[role] ?? "").toLowerCase()}${roleFromGroups ? " by groups" : ""}`;
}
