import type { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { type Database, isUniqueViolation, stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import {
  PendingChoiceEntity,
  PersonEntity,
  type PersonRow,
  SignInEntity,
  UsedChoiceEntity,
  WorkspaceEntity,
} from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { upsertPerson } from "../store/sql/upsert-person.ts";
import { readerWithin, type Transaction } from "../store/transaction.ts";
import type { KeyHolder } from "./authenticator.ts";
import { personDeactivated } from "./key-owner.ts";
import { createSecret, hashSecret, SIGN_IN_MARK } from "./keys.ts";
import { MEMBERSHIP_MS, RECHECK_MS, refreshPlace } from "./memberships.ts";
import { personFromName } from "./person-name.ts";

/** Milliseconds after which a person has to sign in again. */
const LIFETIME_MS = 43_200_000;
/** Milliseconds for which a used choice is remembered after its time, since the clocks of processes differ a little. */
const REMEMBERED_MS = 60_000;
/** Sign-ins of one holder; a further one ends the oldest. */
const MAX_PER_HOLDER = 100;

/** Party that signs in: the holder of a key, or a person whom an identity provider vouches for. */
export interface SignInDraft {
  readonly workspaceId: string;
  /** The key's id, or the person's name; `resolved_by` and the log show it. */
  readonly holder: string;
  readonly role: Role;
  /** Null for the holder of a key. */
  readonly person: PersonDraft | null;
}

/** Facts of a person without a key who signs in. */
interface PersonDraft {
  readonly labels: PersonLabels;
  /** Role of their groups in the workspace; null if an admin alone gave one. */
  readonly groupRole: Role | null;
  readonly standing: PersonStanding;
}

/** A person's standing at their issuer. */
export interface PersonStanding {
  readonly groups: readonly string[];
  /** Asks the issuer again; null from an issuer that gives none. */
  readonly refreshToken: string | null;
}

/** A workspace that a person may sign in to. */
export interface OpenMembership {
  readonly workspaceId: string;
  readonly role: Role;
  /** Role of their groups; null if an admin alone gave one. */
  readonly groupRole: Role | null;
}

/** Texts that stand beside a person's name, as the identity provider gave them at the last sign-in. */
interface PersonLabels {
  /** Verified email address; null if there is none. */
  readonly email: string | null;
  readonly displayName: string | null;
}

/** A sign-in with the secret of its cookie, which is not stored. */
export interface NewSignIn {
  readonly secret: string;
  readonly expiresAtMs: number;
}

/** Identity of a choice, which is good once, and the end of its time, epoch milliseconds. */
interface ChoiceKey {
  readonly id: string;
  readonly untilMs: number;
}

const choicePlace = (id: string): string => `pending_choice.facts ${id}`;

/** Options of the sign-ins. */
export interface SignInsOptions {
  readonly database: Pick<Database, "orm">;
  /** Encrypts refresh tokens, and what is known of people who choose a workspace. */
  readonly encryptor: Encryptor;
  readonly clock: { now(): number };
  /** Drops what an authenticator has cached of a workspace. */
  readonly forget: (workspaceId: string) => void;
}

/** People who are signed in to the dashboard. Every method rejects with STORE_UNAVAILABLE. */
export class SignIns {
  readonly #orm: Database["orm"];
  readonly #encryptor: Encryptor;
  readonly #clock: { now(): number };
  readonly #forget: (workspaceId: string) => void;

  constructor({ database, encryptor, clock, forget }: SignInsOptions) {
    this.#orm = database.orm;
    this.#encryptor = encryptor;
    this.#clock = clock;
    this.#forget = forget;
  }

  /**
   * Signs in for 12 hours, and ends the oldest sign-ins of the same holder beyond the bound. A person whose issuer cannot be asked again
   * is signed in for 15 minutes. Rejects with PERSON_DEACTIVATED.
   */
  async begin(draft: SignInDraft): Promise<NewSignIn> {
    return stored(this.#orm.em.fork().transactional((em) => this.#insert(em, draft)));
  }

  /** Keeps what is known of a person who chooses a workspace, for as long as the choice is good. */
  async keepStanding({ id, untilMs }: ChoiceKey, standing: PersonStanding): Promise<void> {
    const facts = this.#encryptor.encrypt("", choicePlace(id), JSON.stringify(standing));
    const em = this.#orm.em.fork();
    await stored(em.nativeDelete(PendingChoiceEntity, { expiresAtMs: { $lte: this.#clock.now() } }));
    await stored(em.insert(PendingChoiceEntity, { choiceHash: hashSecret(id), facts, expiresAtMs: untilMs }));
  }

  /**
   * Signs in by the choice of a workspace; undefined if the choice was used before, on any process. Rejects with PERSON_DEACTIVATED.
   */
  async beginOnce(
    choice: ChoiceKey,
    draft: Omit<SignInDraft, "person"> & { readonly person: Omit<PersonDraft, "standing"> },
  ): Promise<NewSignIn | undefined> {
    const choiceHash = hashSecret(choice.id);
    const use = { choiceHash, expiresAtMs: choice.untilMs + REMEMBERED_MS };
    const begin = async (em: Transaction): Promise<NewSignIn | undefined> => {
      await em.nativeDelete(UsedChoiceEntity, { expiresAtMs: { $lte: this.#clock.now() } });
      await em.insert(UsedChoiceEntity, use);
      const kept = await em.findOne(PendingChoiceEntity, { choiceHash });
      if (kept === null) return undefined;
      await em.nativeDelete(PendingChoiceEntity, { choiceHash });
      const text = this.#encryptor.decrypt("", choicePlace(choice.id), kept.facts);
      const standing = JSON.parse(text) as PersonStanding;
      return this.#insert(em, { ...draft, person: { ...draft.person, standing } });
    };
    try {
      return await stored(this.#orm.em.fork().transactional(begin));
    } catch (error) {
      if (isUniqueViolation(error)) return undefined;
      throw error;
    }
  }

  /** Stores a sign-in with a new secret. */
  async #insert(em: Transaction, draft: SignInDraft): Promise<NewSignIn> {
    const { workspaceId, holder, person } = draft;
    const secret = createSecret(SIGN_IN_MARK);
    const createdAtMs = this.#clock.now();
    const canAskAgain = person === null || person.standing.refreshToken !== null;
    const expiresAtMs = createdAtMs + (canAskAgain ? LIFETIME_MS : MEMBERSHIP_MS);
    // The person first: a deactivation locks them first too, and finds the sign-in afterwards.
    const role = person === null ? draft.role : await this.#keepPerson(em, draft, person, createdAtMs);
    await em.nativeDelete(SignInEntity, { workspaceId, holder, expiresAtMs: { $lte: createdAtMs } });
    const order = { orderBy: { createdAtMs: "desc" }, offset: MAX_PER_HOLDER - 1, limit: MAX_PER_HOLDER } as const;
    const oldest = await em.find(SignInEntity, { workspaceId, holder }, order);
    for (const { secretHash } of oldest) await em.nativeDelete(SignInEntity, { secretHash });
    const row = { workspaceId, holder, role, person: person !== null, createdAtMs, expiresAtMs };
    await em.insert(SignInEntity, { ...row, secretHash: hashSecret(secret) });
    return { secret, expiresAtMs };
  }

  /** Keeps the labels, groups and token of a person. Returns their role. Rejects with PERSON_DEACTIVATED. */
  async #keepPerson(
    em: Transaction,
    { workspaceId, holder, role }: SignInDraft,
    { labels, groupRole, standing }: PersonDraft,
    nowMs: number,
  ): Promise<Role> {
    const { refreshToken, groups } = standing;
    const { issuer = "", subject = "" } = personFromName(holder) ?? {};
    const sealed =
      refreshToken === null ? null : this.#encryptor.encrypt(workspaceId, refreshPlace(holder), refreshToken);
    const values = [
      workspaceId,
      createId("per"),
      issuer,
      subject,
      labels.email,
      labels.displayName,
      JSON.stringify(groups),
      groupRole,
      sealed?.toString("hex") ?? null,
      nowMs,
      sealed === null ? null : nowMs + RECHECK_MS,
    ];
    const { rows } = await readerWithin(em).query<{ role: Role | null }>({ ...upsertPerson, values });
    const [row] = rows;
    if (row === undefined) {
      const person = await em.findOne(PersonEntity, { workspaceId, actor: holder });
      throw personDeactivated(person?.personId ?? holder);
    }
    return row.role ?? role;
  }

  /**
   * Returns the workspaces, of those that exist, in which a person has a role: the one that an admin gave them, else that of their
   * groups. Leaves out those in which they are deactivated.
   */
  async memberships(
    name: string,
    byGroups: readonly { readonly workspaceId: string; readonly role: Role }[],
  ): Promise<{ readonly open: readonly OpenMembership[]; readonly isDeactivated: boolean }> {
    const em = this.#orm.em.fork();
    const identity = personFromName(name);
    const known: readonly PersonRow[] = identity === undefined ? [] : await stored(em.find(PersonEntity, identity));
    const found = new Map<string, OpenMembership>();
    for (const { workspaceId, role } of byGroups) found.set(workspaceId, { workspaceId, role, groupRole: role });
    for (const { workspaceId, role, deactivatedAtMs } of known) {
      const groupRole = found.get(workspaceId)?.groupRole ?? null;
      if ((deactivatedAtMs ?? null) !== null) found.delete(workspaceId);
      else if ((role ?? null) !== null) found.set(workspaceId, { workspaceId, role: role as Role, groupRole });
    }
    const rows = await stored(em.find(WorkspaceEntity, { workspaceId: { $in: [...found.keys()] } }));
    const existing = new Set(rows.map(({ workspaceId }) => workspaceId));
    const open = [...found.values()].filter(({ workspaceId }) => existing.has(workspaceId));
    return { open, isDeactivated: known.some(({ deactivatedAtMs }) => (deactivatedAtMs ?? null) !== null) };
  }

  /** Signs out of one browser. */
  async end(secret: string, { workspaceId }: KeyHolder): Promise<void> {
    await stored(this.#orm.em.fork().nativeDelete(SignInEntity, { secretHash: hashSecret(secret) }));
    this.#forget(workspaceId);
  }

  /** Signs out everywhere. Other processes and open streams notice within a second. */
  async endAll({ workspaceId, keyId: holder }: KeyHolder): Promise<void> {
    await stored(this.#orm.em.fork().nativeDelete(SignInEntity, { workspaceId, holder }));
    this.#forget(workspaceId);
  }
}
