import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import { endAuthority } from "../authority/existing-authority.ts";
import { createAuthority } from "../authority/new-authority.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { stored } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import { insertHookSession, readHookSession, sweepHookSessions } from "../store/sql/hook-sessions.ts";
import type { McpCaller } from "./caller.ts";

/** Seconds that a session of a coding agent lasts: a week. A client's session that goes on longer gets another one. */
const SESSION_SECONDS = 604_800;
/** Milliseconds between two deletions of what has expired. */
const SWEEP_MS = 60_000;
/** Sessions that a process remembers without the database. */
const MAX_KNOWN = 10_000;
/** Id of a client's session that stands in the purpose of ours. */
const SHOWN_ID = /^[\w.-]{1,64}$/;

/** Session of a coding agent, as its client names it. */
export interface ClientSession {
  readonly client: string;
  readonly id: string;
}

/** Parts of `HookSessions`. */
export interface HookSessionsOptions {
  readonly pool: Pool;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  readonly log: StoreLog;
}

interface KnownSession {
  readonly sessionId: string;
  readonly expiresAtMs: number;
}

/**
 * Sessions of coding agents, one for each session of their clients, on every replica and after a restart: the database holds which. One
 * that was ended stays the client's, whose calls are then blocked, until it would have expired.
 */
export class HookSessions {
  readonly #options: HookSessionsOptions;
  readonly #known = new LRUCache<string, KnownSession>({ max: MAX_KNOWN });
  /** Sessions that are looked for. */
  readonly #finding = new Map<string, Promise<KnownSession>>();
  #sweep: NodeJS.Timeout | undefined;

  constructor(options: HookSessionsOptions) {
    this.#options = options;
  }

  /** Starts to delete what has expired. */
  start(): void {
    this.#sweep = setInterval(() => void this.#deleteExpired(), SWEEP_MS);
    this.#sweep.unref();
  }

  close(): void {
    clearInterval(this.#sweep);
  }

  /**
   * Returns the session of the caller's agent for a client's session, and begins it at first. Rejects with AGENT_NOT_FOUND,
   * AGENT_INACTIVE and STORE_UNAVAILABLE.
   */
  async sessionOf(caller: McpCaller, session: ClientSession): Promise<string> {
    const digest = createHash("sha256")
      .update(JSON.stringify([session.client, session.id]))
      .digest("hex");
    const key = `${caller.workspaceId} ${caller.agentId} ${digest}`;
    const known = this.#known.get(key);
    if (known !== undefined && known.expiresAtMs > this.#options.logs.clock.now()) return known.sessionId;
    // Calls of one turn come at the same time.
    const finding =
      this.#finding.get(key) ?? this.#find(caller, session, digest).finally(() => this.#finding.delete(key));
    this.#finding.set(key, finding);
    const found = await finding;
    this.#known.set(key, found);
    return found.sessionId;
  }

  async #find(caller: McpCaller, session: ClientSession, digest: string): Promise<KnownSession> {
    const { workspaceId, agentId, keyId } = caller;
    const found = await this.#read(caller, digest);
    if (found !== undefined) return found;
    const { logs, pool } = this.#options;
    const log = await logs.of(workspaceId);
    const draft = {
      kind: "session" as const,
      agentId,
      text: purposeOf(session, digest),
      lastsSeconds: SESSION_SECONDS,
    };
    const { sealed } = await createAuthority(log, keyId, draft);
    const expiresAtMs = sealed.expires_at_ms ?? Number.MAX_SAFE_INTEGER;
    const values = [workspaceId, agentId, digest, sealed.id, expiresAtMs, logs.clock.now()];
    const { rowCount } = await stored(pool.query({ ...insertHookSession, values }));
    if (rowCount === 1) return { sessionId: sealed.id, expiresAtMs };
    // Another process was first.
    await endAuthority(log, keyId, { kind: "session", id: sealed.id });
    return (await this.#read(caller, digest)) ?? this.#find(caller, session, digest);
  }

  async #read({ workspaceId, agentId }: McpCaller, digest: string): Promise<KnownSession | undefined> {
    const { logs, pool } = this.#options;
    const values = [workspaceId, agentId, digest, logs.clock.now()];
    const { rows } = await stored(pool.query<KnownSession>({ ...readHookSession, values }));
    return rows[0];
  }

  async #deleteExpired(): Promise<void> {
    const { log, logs, pool } = this.#options;
    try {
      await stored(pool.query({ ...sweepHookSessions, values: [logs.clock.now()] }));
    } catch (error) {
      log.warn({ reason: String(error) }, "cannot delete expired sessions of hooks");
    }
  }
}

/** Returns the purpose of a session: its client and the client's id of it, whatever characters that has. */
function purposeOf({ client, id }: ClientSession, digest: string): string {
  return `${client} ${SHOWN_ID.test(id) ? id : digest.slice(0, 16)}`;
}
