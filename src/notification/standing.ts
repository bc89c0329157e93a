import type { Pool } from "pg";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { MEMBERSHIP_MS } from "../registry/memberships.ts";
import { personFromName } from "../registry/person-name.ts";
import { stored } from "../store/database.ts";
import { readKeyRole, readPersonRole, readSignInRole } from "../store/sql/channels.ts";

/** Role that a key has now, or with which a person is signed in; undefined once it ended. Rejects with STORE_UNAVAILABLE. */
export async function roleOf(
  pool: Pool,
  workspaceId: string,
  holder: string,
  nowMs: number,
): Promise<Role | undefined> {
  const query =
    personFromName(holder) === undefined
      ? { ...readKeyRole, values: [workspaceId, holder, nowMs] }
      : { ...readSignInRole, values: [workspaceId, holder, nowMs, MEMBERSHIP_MS] };
  return (await stored(pool.query<{ role: Role }>(query))).rows[0]?.role;
}

/** True for a role that may answer escalations. */
export const mayAnswer = (role: Role | undefined): boolean => role === Role.ADMIN || role === Role.OPERATOR;

/**
 * Tells whether a key or person may still be told: its role of now may answer. A person away from the dashboard is told: only an answer
 * needs a sign-in. Rejects with STORE_UNAVAILABLE.
 */
export async function mayBeTold(pool: Pool, workspaceId: string, holder: string, nowMs: number): Promise<boolean> {
  if (personFromName(holder) === undefined) return mayAnswer(await roleOf(pool, workspaceId, holder, nowMs));
  const { rows } = await stored(pool.query<{ role: Role }>({ ...readPersonRole, values: [workspaceId, holder] }));
  return mayAnswer(rows[0]?.role);
}
