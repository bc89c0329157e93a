import type { Pool } from "pg";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { MEMBERSHIP_MS } from "../registry/memberships.ts";
import { personFromName, personIn } from "../registry/person-name.ts";
import { type PersonStanding, roleInOffice, roleUnderOwner } from "../registry/person-role.ts";
import { stored } from "../store/database.ts";
import { readKeyRole, readSignInRole, readStanding } from "../store/sql/channels.ts";

/**
 * Returns the role that a key has now, by its owner too, or with which a person is signed in; undefined once it ended. Rejects with
 * STORE_UNAVAILABLE.
 */
export async function roleOf(
  pool: Pool,
  workspaceId: string,
  holder: string,
  nowMs: number,
): Promise<Role | undefined> {
  if (personFromName(holder) === undefined) return roleOfKey(pool, workspaceId, holder, nowMs);
  const values = [workspaceId, holder, nowMs, MEMBERSHIP_MS];
  return (await stored(pool.query<{ role: Role }>({ ...readSignInRole, values }))).rows[0]?.role;
}

async function roleOfKey(pool: Pool, workspaceId: string, keyId: string, nowMs: number): Promise<Role | undefined> {
  type Row = { readonly role: Role; readonly owner: string | null };
  const { rows } = await stored(pool.query<Row>({ ...readKeyRole, values: [workspaceId, keyId, nowMs] }));
  const [key] = rows;
  const owner = personIn(key?.owner);
  if (key === undefined || owner === undefined) return key?.role;
  return roleUnderOwner(key.role, await standingOf(pool, workspaceId, owner));
}

async function standingOf(pool: Pool, workspaceId: string, name: string): Promise<PersonStanding | null> {
  const { rows } = await stored(pool.query<PersonStanding & {}>({ ...readStanding, values: [workspaceId, name] }));
  return rows[0] ?? null;
}

/** True for a role that may answer escalations. */
export const mayAnswer = (role: Role | undefined): boolean => role === Role.ADMIN || role === Role.OPERATOR;

/**
 * Tells whether a key or person may still be told: its role of now may answer. A person away from the dashboard is told: only an answer
 * needs a sign-in. Rejects with STORE_UNAVAILABLE.
 */
export async function mayBeTold(pool: Pool, workspaceId: string, holder: string, nowMs: number): Promise<boolean> {
  if (personFromName(holder) === undefined) return mayAnswer(await roleOf(pool, workspaceId, holder, nowMs));
  const person = await standingOf(pool, workspaceId, holder);
  return person !== null && mayAnswer(roleInOffice(person));
}
