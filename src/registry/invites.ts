import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { type Database, stored } from "../store/database.ts";
import { PersonEntity, PersonInviteEntity, type PersonRow } from "../store/entities.ts";
import { readerWithin } from "../store/transaction.ts";
import { personDeactivated } from "./key-owner.ts";
import {
  type CreatedKey,
  createSecret,
  hasApiKeyEnded,
  hashSecret,
  INVITE_MARK,
  putKey,
  ttlSecondsIn,
} from "./keys.ts";
import { findPerson } from "./people.ts";
import { personFromName } from "./person-name.ts";
import { roleOfPerson } from "./person-role.ts";

/** Milliseconds for which the link of an invite is good. */
const LIFETIME_MS = 72 * 3_600_000;
/** Name of a key that an invite made. The person stands beside it as its owner, and their name can change and be erased. */
const KEY_NAME = "personal key";
const SECRET = /^acpi_[a-z2-7]{52}$/;

/** An invite with the secret of its link, which is not stored. */
export interface NewInvite {
  readonly person: PersonRow;
  readonly secret: string;
  readonly expiresAtMs: number;
}

/** A person's key, made by the opening of their invite. */
export interface OpenedInvite extends CreatedKey {
  readonly person: PersonRow;
}

/**
 * Makes a link that shows a person a new key of theirs, once and within 72 hours. An earlier link of the person ends. Rejects with
 * PERSON_NOT_FOUND, with PERSON_DEACTIVATED, and with INVALID_FIELD for a person without a role.
 */
export function invitePerson(log: WorkspaceLog, by: string, personId: string): Promise<NewInvite> {
  return log.change(by, async (scope) => {
    const { transaction, state, nowMs, seal } = scope;
    const { workspaceId } = state;
    const person = await findPerson(scope, personId);
    if ((person.deactivatedAtMs ?? null) !== null) throw personDeactivated(personId);
    if (roleOfPerson(person) === undefined)
      throw invalidField("person_id", `names a person without a role: \`${personId}\`; give them one first`);
    const secret = createSecret(INVITE_MARK);
    const expiresAtMs = nowMs + LIFETIME_MS;
    await transaction.nativeDelete(PersonInviteEntity, { workspaceId, personId });
    const row = { workspaceId, personId, createdBy: by, createdAtMs: nowMs, expiresAtMs };
    await transaction.insert(PersonInviteEntity, { ...row, secretHash: hashSecret(secret) });
    seal({ type: "person_invited", person_id: personId, expires_at: new Date(expiresAtMs).toISOString() });
    return { person, secret, expiresAtMs };
  });
}

/** Creates INVITE_INVALID, which tells a forged link from a used or expired one as little as a wrong key tells of itself. */
function inviteInvalid(): ControlPlaneError {
  const message = "the invite is unknown, expired, or was used already; ask for another one";
  return new ControlPlaneError(ErrorReason.INVITE_INVALID, message);
}

/** Tests whether the key or person that made an invite may still make keys. */
async function mayStillInvite({ transaction, state, nowMs }: ChangeScope, by: string): Promise<boolean> {
  const { workspaceId } = state;
  if (personFromName(by) === undefined)
    return !(await hasApiKeyEnded(readerWithin(transaction), workspaceId, by, nowMs));
  const maker = await transaction.findOne(PersonEntity, { workspaceId, actor: by, deactivatedAtMs: null });
  return maker !== null && roleOfPerson(maker) === Role.ADMIN;
}

/** Parts that opening an invite needs. */
export interface InviteParts {
  readonly database: Pick<Database, "orm">;
  readonly logs: Pick<WorkspaceLogs, "of">;
  /** Drops what an authenticator has cached of a workspace. */
  readonly forget: (workspaceId: string) => void;
}

/**
 * Uses an invite: makes a key of its person, with their role, and ends the invite, on every replica. The maker of the invite counts
 * as the maker of the key. Rejects with INVITE_INVALID for every text that opens no invite, and when its person or its maker has
 * lost their rights.
 */
export async function openInvite({ database, logs, forget }: InviteParts, secret: string): Promise<OpenedInvite> {
  if (!SECRET.test(secret)) throw inviteInvalid();
  const secretHash = hashSecret(secret);
  const found = await stored(database.orm.em.fork().findOne(PersonInviteEntity, { secretHash }));
  if (found === null) throw inviteInvalid();
  const { workspaceId, personId, createdBy } = found;
  const log = await logs.of(workspaceId);
  const opened = await log.change(createdBy, async (scope) => {
    const { transaction, nowMs } = scope;
    const person = await findPerson(scope, personId);
    const where = { workspaceId, personId, secretHash, expiresAtMs: { $gt: nowMs } };
    const used = await transaction.nativeDelete(PersonInviteEntity, where);
    const role = roleOfPerson(person);
    const isOpen = used === 1 && (person.deactivatedAtMs ?? null) === null && role !== undefined;
    if (!isOpen || !(await mayStillInvite(scope, createdBy))) throw inviteInvalid();
    const draft = { name: KEY_NAME, role, agentId: null, owner: person.actor };
    const ttlSeconds = ttlSecondsIn(scope, draft);
    return { person, ...(await putKey(scope, createdBy, { ...draft, ttlSeconds })) };
  });
  forget(workspaceId);
  return opened;
}
