import type { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason, invalidField, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { SealedPerson } from "../state/control-changes.ts";
import { type Database, stored } from "../store/database.ts";
import { ApiKeyEntity, PersonEntity, PersonInviteEntity, type PersonRow, SignInEntity } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { insertPerson } from "../store/sql/insert-person.ts";
import { readPersonFacts } from "../store/sql/read-person-facts.ts";
import { type Reader, readerWithin } from "../store/transaction.ts";
import { assertAdminLeft } from "./keys.ts";
import { cursorOf, newestFirst, type Page, type PageRequest, pageFrom } from "./page.ts";
import { givenPersonName, personName } from "./person-name.ts";
import { rankOf, roleOfPerson } from "./person-role.ts";

/** Fields of a person whom an admin adds. */
export interface PersonDraft {
  /** Display name. */
  readonly name: string;
  readonly role: Role;
  /** Issuer and subject, under which the person signs in; both or none. */
  readonly issuer?: string | undefined;
  readonly subject?: string | undefined;
}

/** A person with what other tables say of them. */
export interface PersonView {
  readonly person: PersonRow;
  /** Keys that they own and that open. */
  readonly openKeys: number;
  /** Time of the last call with one of their keys, epoch milliseconds; null if there was none. */
  readonly keyUsedAtMs: number | null;
  /** End of the open invite, epoch milliseconds; null without one. */
  readonly invitedUntilMs: number | null;
}

const personNotFound = (personId: string): ControlPlaneError =>
  notFound(ErrorReason.PERSON_NOT_FOUND, "person", { person_id: personId });

const sealedFrom = ({ personId, actor, role }: PersonRow): SealedPerson => ({
  person_id: personId,
  actor,
  role: role ?? null,
});

/** Checks issuer and subject. Throws INVALID_FIELD unless both are absent or together they identify one person. */
function assertIdentity({ issuer, subject }: PersonDraft): void {
  if (issuer === undefined && subject === undefined) return;
  if (issuer === undefined) throw invalidField("issuer", "goes together with `subject`");
  if (subject === undefined) throw invalidField("subject", "goes together with `issuer`");
  if (personName("https://issuer.example", subject) === undefined)
    throw invalidField("subject", "must have 1 to 255 visible characters of ASCII");
  if (personName(issuer, subject) === undefined)
    throw invalidField("issuer", "must be the address of an issuer: https or http, of ASCII without blanks and `|`");
}

/** Finds a person inside a change of the workspace. Rejects with PERSON_NOT_FOUND. */
export async function findPerson({ transaction, state }: ChangeScope, personId: string): Promise<PersonRow> {
  const where = { workspaceId: state.workspaceId, personId };
  const person = await transaction.findOne(PersonEntity, where, { disableIdentityMap: true });
  if (person === null) throw personNotFound(personId);
  return person;
}

/**
 * Adds a person. Throws PERSON_EXISTS when issuer and subject are those of another, and INVALID_FIELD for a name that could be
 * mistaken for an id, and for an issuer or subject without the other.
 */
export function createPerson(log: WorkspaceLog, by: string, draft: PersonDraft): Promise<PersonRow> {
  const name = givenPersonName("name", draft.name);
  assertIdentity(draft);
  const { issuer = null, subject = null, role } = draft;
  return log.change(by, async (scope) => {
    const { transaction, state, nowMs, seal } = scope;
    const { workspaceId } = state;
    if (issuer !== null && (await transaction.count(PersonEntity, { workspaceId, issuer, subject })) > 0) {
      const message = `a person with subject \`${subject}\` of issuer \`${issuer}\` exists`;
      throw new ControlPlaneError(ErrorReason.PERSON_EXISTS, message, { subject: subject ?? "", issuer });
    }
    const personId = createId("per");
    const values = [workspaceId, personId, issuer, subject, name, role, nowMs, by];
    await readerWithin(transaction).query({ ...insertPerson, values });
    const person = await findPerson(scope, personId);
    seal({ type: "person_created", person: sealedFrom(person) });
    return person;
  });
}

/** Returns a person. Rejects with PERSON_NOT_FOUND. */
export async function getPerson(
  { orm }: Pick<Database, "orm">,
  workspaceId: string,
  personId: string,
): Promise<PersonRow> {
  const row = await stored(orm.em.fork().findOne(PersonEntity, { workspaceId, personId }));
  if (row === null) throw personNotFound(personId);
  return row;
}

/** Lists the people of a workspace, newest first, deactivated ones included. */
export async function listPeople(
  { orm }: Pick<Database, "orm">,
  workspaceId: string,
  page: PageRequest<string>,
): Promise<Page<PersonRow, string>> {
  const { where, options } = newestFirst("personId", page);
  const rows: PersonRow[] = await stored(orm.em.fork().find(PersonEntity, { workspaceId, ...where }, options));
  return pageFrom(rows, page.size, (person) => cursorOf(person, person.personId));
}

/** Adds to people what their keys and invites say. */
export async function viewsOf(
  reader: Reader,
  workspaceId: string,
  people: readonly PersonRow[],
  nowMs: number,
): Promise<readonly PersonView[]> {
  if (people.length === 0) return [];
  const values = [workspaceId, people.map(({ personId }) => personId), nowMs];
  type Facts = { id: string; open_keys: number; key_used_at_ms: string | null; invited_until_ms: string | null };
  const { rows } = await stored(reader.query<Facts>({ ...readPersonFacts, values }));
  const facts = new Map(rows.map((row) => [row.id, row]));
  const numberOf = (text: string | number | null | undefined): number | null =>
    text === null || text === undefined ? null : Number(text);
  return people.map((person) => {
    const found = facts.get(person.personId);
    return {
      person,
      openKeys: found?.open_keys ?? 0,
      keyUsedAtMs: numberOf(found?.key_used_at_ms),
      invitedUntilMs: numberOf(found?.invited_until_ms),
    };
  });
}

/**
 * Revokes keys that a person owns, and seals each end. Throws LAST_ADMIN_KEY when the workspace would be left without a working
 * admin key.
 */
async function revokeKeysOf(scope: ChangeScope, owner: string, isMeant: (role: Role) => boolean): Promise<void> {
  const { transaction, state, nowMs, seal } = scope;
  const { workspaceId } = state;
  const rows = await transaction.find(ApiKeyEntity, { workspaceId, owner, revokedAtMs: null });
  const ended = rows.filter(({ role }) => isMeant(role as Role));
  await assertAdminLeft(scope, ended);
  for (const { keyId } of ended) {
    await transaction.nativeUpdate(ApiKeyEntity, { keyId, workspaceId }, { revokedAtMs: nowMs });
    await transaction.nativeDelete(SignInEntity, { workspaceId, holder: keyId });
    seal({ type: "key_revoked", key_id: keyId });
  }
}

/**
 * Changes the name or role of a person; undefined fields keep their values, and nothing is sealed if all do. Their sign-ins get
 * another role at once. Keys of theirs with more rights than the new role end: LAST_ADMIN_KEY when no admin key would be left.
 */
export function updatePerson(
  log: WorkspaceLog,
  by: string,
  personId: string,
  update: { readonly name?: string | undefined; readonly role?: Role | undefined },
): Promise<PersonRow> {
  const name = update.name === undefined ? undefined : givenPersonName("name", update.name);
  return log.change(by, async (scope) => {
    const { transaction, state, seal } = scope;
    const { workspaceId } = state;
    const person = await findPerson(scope, personId);
    const after = { ...person, name: name ?? person.name, role: update.role ?? person.role };
    if (after.name === person.name && after.role === person.role) return person;
    await transaction.nativeUpdate(PersonEntity, { workspaceId, personId }, { name: after.name, role: after.role });
    const role = roleOfPerson(after);
    if (role !== undefined && role !== roleOfPerson(person)) {
      const { actor: holder } = person;
      await transaction.nativeUpdate(SignInEntity, { workspaceId, holder, person: true }, { role });
      await revokeKeysOf(scope, holder, (of) => rankOf(of) > rankOf(role));
    }
    seal({ type: "person_updated", person: sealedFrom(after) });
    return after;
  });
}

/**
 * Deactivates a person: their sign-ins, the keys that they own and their invite end at once, and they cannot sign in. Again changes
 * nothing. Throws LAST_ADMIN_KEY when the workspace would be left without a working admin key.
 */
export function deactivatePerson(log: WorkspaceLog, by: string, personId: string): Promise<PersonRow> {
  return log.change(by, async (scope) => {
    const { transaction, state, nowMs, seal } = scope;
    const { workspaceId } = state;
    const person = await findPerson(scope, personId);
    if ((person.deactivatedAtMs ?? null) !== null) return person;
    const ended = { deactivatedAtMs: nowMs, sealedRefresh: null, recheckAtMs: null };
    // The person first, whom a sign-in locks first too: it either is refused, or its row is there to be deleted.
    await transaction.nativeUpdate(PersonEntity, { workspaceId, personId }, ended);
    await transaction.nativeDelete(SignInEntity, { workspaceId, holder: person.actor });
    await transaction.nativeDelete(PersonInviteEntity, { workspaceId, personId });
    await revokeKeysOf(scope, person.actor, () => true);
    seal({ type: "person_deactivated", person: sealedFrom(person) });
    return { ...person, ...ended };
  });
}

/** Lets a deactivated person sign in and be invited again. Their keys stay revoked. Nothing is sealed for an active person. */
export function reactivatePerson(log: WorkspaceLog, by: string, personId: string): Promise<PersonRow> {
  return log.change(by, async (scope) => {
    const { transaction, state, seal } = scope;
    const person = await findPerson(scope, personId);
    if ((person.deactivatedAtMs ?? null) === null) return person;
    const where = { workspaceId: state.workspaceId, personId };
    await transaction.nativeUpdate(PersonEntity, where, { deactivatedAtMs: null });
    seal({ type: "person_reactivated", person: sealedFrom(person) });
    return { ...person, deactivatedAtMs: null };
  });
}
