import type { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { type Database, isUniqueViolation, stored } from "../store/database.ts";
import { PersonEntity, SignInEntity, UsedChoiceEntity, WorkspaceEntity } from "../store/entities.ts";
import type { Transaction } from "../store/transaction.ts";
import type { KeyHolder } from "./authenticator.ts";
import { createSecret, hashSecret, SIGN_IN_MARK } from "./keys.ts";
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
  /** Labels of a person without a key; null for the holder of a key. */
  readonly labels: PersonLabels | null;
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

/** Options of the sign-ins. */
export interface SignInsOptions {
  readonly database: Pick<Database, "orm">;
  readonly clock: { now(): number };
  /** Drops what an authenticator has cached of a workspace. */
  readonly forget: (workspaceId: string) => void;
}

/** People who are signed in to the dashboard. Every method rejects with STORE_UNAVAILABLE. */
export class SignIns {
  readonly #orm: Database["orm"];
  readonly #clock: { now(): number };
  readonly #forget: (workspaceId: string) => void;

  constructor({ database, clock, forget }: SignInsOptions) {
    this.#orm = database.orm;
    this.#clock = clock;
    this.#forget = forget;
  }

  /** Signs in for 12 hours, and ends the oldest sign-ins of the same holder beyond the bound. */
  async begin(draft: SignInDraft): Promise<NewSignIn> {
    const { secret, expiresAtMs, insert } = this.#prepared(draft);
    await stored(this.#orm.em.fork().transactional(insert));
    return { secret, expiresAtMs };
  }

  /** Signs in by the choice of a workspace; undefined if the choice was used before, on any process. */
  async beginOnce(
    choice: { readonly id: string; readonly untilMs: number },
    draft: SignInDraft,
  ): Promise<NewSignIn | undefined> {
    const { secret, expiresAtMs, insert } = this.#prepared(draft);
    const use = { choiceHash: hashSecret(choice.id), expiresAtMs: choice.untilMs + REMEMBERED_MS };
    const begin = async (em: Transaction): Promise<void> => {
      await em.nativeDelete(UsedChoiceEntity, { expiresAtMs: { $lte: this.#clock.now() } });
      await em.insert(UsedChoiceEntity, use);
      await insert(em);
    };
    try {
      await stored(this.#orm.em.fork().transactional(begin));
    } catch (error) {
      if (isUniqueViolation(error)) return undefined;
      throw error;
    }
    return { secret, expiresAtMs };
  }

  /** Makes a sign-in of 12 hours with a new secret. `insert` stores it. */
  #prepared(draft: SignInDraft) {
    const secret = createSecret(SIGN_IN_MARK);
    const createdAtMs = this.#clock.now();
    const expiresAtMs = createdAtMs + LIFETIME_MS;
    const { workspaceId, holder, role, labels } = draft;
    const person = labels === null ? undefined : personFromName(holder);
    const insert = async (em: Transaction): Promise<void> => {
      await em.nativeDelete(SignInEntity, { workspaceId, holder, expiresAtMs: { $lte: createdAtMs } });
      const order = { orderBy: { createdAtMs: "desc" }, offset: MAX_PER_HOLDER - 1, limit: MAX_PER_HOLDER } as const;
      const oldest = await em.find(SignInEntity, { workspaceId, holder }, order);
      for (const { secretHash } of oldest) await em.nativeDelete(SignInEntity, { secretHash });
      const row = { workspaceId, holder, role, person: labels !== null, createdAtMs, expiresAtMs };
      await em.insert(SignInEntity, { ...row, secretHash: hashSecret(secret) });
      if (person === undefined) return;
      await em.upsert(PersonEntity, { workspaceId, ...person, ...labels, signedInAtMs: createdAtMs });
    };
    return { secret, expiresAtMs, insert };
  }

  /** Returns the ids of the workspaces that exist. */
  async existing(workspaceIds: readonly string[]): Promise<ReadonlySet<string>> {
    const rows = await stored(this.#orm.em.fork().find(WorkspaceEntity, { workspaceId: { $in: [...workspaceIds] } }));
    return new Set(rows.map(({ workspaceId }) => workspaceId));
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
