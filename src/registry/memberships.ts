import type { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { type Database, stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { PersonEntity, SignInEntity } from "../store/entities.ts";
import { lockPerson } from "../store/sql/lock-person.ts";
import { takeRechecks } from "../store/sql/take-rechecks.ts";
import { readerWithin } from "../store/transaction.ts";

/** Milliseconds for which a sign-in is good after its person's issuer was asked. */
export const MEMBERSHIP_MS = 900_000;
/** Milliseconds after which an issuer is asked again, which leaves time for further attempts. */
export const RECHECK_MS = 600_000;
/** Milliseconds from one attempt to the next. */
const ATTEMPT_MS = 60_000;

/** Milliseconds for which an issuer that gives no answer about a person is asked: then they count as gone. */
const PATIENCE_MS = 86_400_000;

/** Place of a person's refresh token, to which its encryption is bound. */
export const refreshPlace = (actor: string): string => `person.sealed_refresh ${actor}`;

/** A person whose issuer is to be asked again. */
export interface DueMembership {
  readonly workspaceId: string;
  /** Name of the person in the log. */
  readonly actor: string;
  readonly subject: string;
  readonly refreshToken: string;
  /** True once the issuer has given no answer for a day. */
  readonly isOverdue: boolean;
}

/** The answer of an issuer about a person. */
export interface RenewedMembership {
  readonly groups: readonly string[];
  /** Role of these groups in the workspace; null for none. */
  readonly groupRole: Role | null;
  readonly refreshToken: string;
}

/** Options of the memberships. */
export interface MembershipsOptions {
  readonly database: Pick<Database, "orm" | "pool">;
  readonly encryptor: Encryptor;
  readonly clock: { now(): number };
  /** The issuer that is asked; people of others are left alone. */
  readonly issuer: string;
  /** Drops what an authenticator has cached of a workspace. */
  readonly forget: (workspaceId: string) => void;
}

/** Memberships of people, which are asked again while they are signed in or own a key that opens. Every method rejects with STORE_UNAVAILABLE. */
export class Memberships {
  readonly #options: MembershipsOptions;

  constructor(options: MembershipsOptions) {
    this.#options = options;
  }

  /**
   * Takes up to `limit` people whose issuer is due to be asked, over all workspaces. Of one who is no longer signed in and owns no key
   * that opens, or whose token cannot be read, the token is dropped.
   */
  async takeDue(limit: number): Promise<readonly DueMembership[]> {
    const { database, clock, issuer } = this.#options;
    const nowMs = clock.now();
    const values = [nowMs, nowMs + ATTEMPT_MS, limit, issuer];
    const { rows } = await stored(database.pool.query<RecheckRow>({ ...takeRechecks, values }));
    const due: DueMembership[] = [];
    for (const { workspace_id: workspaceId, actor, subject, sealed_refresh, checked_at_ms, is_used } of rows) {
      const refreshToken = is_used ? this.#read(workspaceId, actor, sealed_refresh) : undefined;
      const isOverdue = Number(checked_at_ms ?? nowMs) <= nowMs - PATIENCE_MS;
      if (refreshToken === undefined) await this.#dropToken(workspaceId, actor);
      else due.push({ workspaceId, actor, subject, refreshToken, isOverdue });
    }
    return due;
  }

  #read(workspaceId: string, actor: string, sealed: Buffer): string | undefined {
    try {
      return this.#options.encryptor.decrypt(workspaceId, refreshPlace(actor), sealed);
    } catch {
      // The sign-in ends when its time is over, since nobody can ask.
      return undefined;
    }
  }

  async #dropToken(workspaceId: string, actor: string): Promise<void> {
    const em = this.#options.database.orm.em.fork();
    const none = { sealedRefresh: null, recheckAtMs: null };
    await stored(em.nativeUpdate(PersonEntity, { workspaceId, actor }, none));
  }

  /**
   * Keeps the answer of an issuer: their sign-ins have the person's role of now, and end without one. A sign-in that began meanwhile
   * has newer facts, which stay.
   */
  async renew(due: DueMembership, { groups, groupRole, refreshToken }: RenewedMembership): Promise<void> {
    const { encryptor, clock, forget } = this.#options;
    const { workspaceId, actor } = due;
    const nowMs = clock.now();
    await this.#change(due, {
      groups: [...groups],
      groupRole,
      checkedAtMs: nowMs,
      recheckAtMs: nowMs + RECHECK_MS,
      sealedRefresh: encryptor.encrypt(workspaceId, refreshPlace(actor), refreshToken),
    });
    forget(workspaceId);
  }

  /**
   * Ends the sign-ins of a person whom the issuer no longer vouches for. Their groups count no more, and keys that they own are refused
   * until they sign in again.
   */
  async end(due: DueMembership): Promise<void> {
    const nowMs = this.#options.clock.now();
    const gone = { groups: [], groupRole: null, checkedAtMs: nowMs, leftAtMs: nowMs };
    await this.#change(due, { ...gone, recheckAtMs: null, sealedRefresh: null });
    this.#options.forget(due.workspaceId);
  }

  #change({ workspaceId, actor, refreshToken }: DueMembership, facts: ChangedFacts): Promise<void> {
    const change = this.#options.database.orm.em.fork().transactional(async (em) => {
      type Row = { role: Role | null; sealed_refresh: Buffer | null };
      const { rows } = await readerWithin(em).query<Row>({ ...lockPerson, values: [workspaceId, actor] });
      const sealed = rows[0]?.sealed_refresh ?? null;
      if (sealed === null || this.#read(workspaceId, actor, sealed) !== refreshToken) return;
      await em.nativeUpdate(PersonEntity, { workspaceId, actor }, facts);
      // Without its issuer's word no sign-in goes on, whatever role an admin gave.
      const role = facts.sealedRefresh === null ? null : (rows[0]?.role ?? facts.groupRole);
      const where = { workspaceId, holder: actor, person: true };
      if (role === null) await em.nativeDelete(SignInEntity, where);
      else await em.nativeUpdate(SignInEntity, where, { role });
    });
    return stored(change);
  }
}

interface RecheckRow {
  readonly workspace_id: string;
  readonly actor: string;
  readonly subject: string;
  readonly sealed_refresh: Buffer;
  readonly checked_at_ms: string | null;
  readonly is_used: boolean;
}

interface ChangedFacts {
  readonly groups: string[];
  readonly groupRole: Role | null;
  readonly checkedAtMs: number;
  readonly leftAtMs?: number;
  readonly recheckAtMs: number | null;
  readonly sealedRefresh: Buffer | null;
}
