import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "pg";
import { createBackOff } from "../async/back-off.ts";
import type { Portion } from "../async/shared-pot.ts";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason } from "../errors.ts";
import { type JsonBounds, readJson } from "../json/read-json.ts";
import { writeJson } from "../json/write-json.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { createHeldBytes } from "../server/held-bytes.ts";
import { stored, storeFault } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import type { StoreLog } from "../store/migrate.ts";
import {
  endApprovedCall,
  forgetApprovedCall,
  insertApprovedCall,
  keepResult,
  lockKeptResults,
  readApprovedCall,
  readKeptResult,
  renewApprovedCall,
  sweepApprovedCalls,
  takeApprovedCall,
} from "../store/sql/approved-calls.ts";
import { readerWithin } from "../store/transaction.ts";
import type { McpCaller } from "./caller.ts";
import type { RpcResponse } from "./messages.ts";

/** Maximum bytes of a kept result, and of all kept results of a workspace. */
export const MAX_KEPT_BYTES = 8_388_608;
const MAX_WORKSPACE_BYTES = 67_108_864;
/** A kept answer was within bounds when it came. */
const KEPT_BOUNDS: JsonBounds = { maxDepth: Number.POSITIVE_INFINITY, maxValues: Number.POSITIVE_INFINITY };
/** Milliseconds for which a running call is known to run, and between two renewals. */
const LEASE_MS = 30_000;
export const RENEW_MS = 10_000;
const SWEEP_MS = 60_000;
/** Pauses between attempts to write while the database does not answer. */
const RETRY = { firstMs: 250, maxMs: 5_000 };

/** Statuses of an approved call as they are stored. */
const STATUS_NUMBERS = { running: 1, kept: 2, too_large: 3, unknown: 4 } as const;

/**
 * Status of an approved call whose response has reached nobody: it runs; its result is kept; it ran, and its result was too
 * large to keep; or it may have run.
 */
export type ApprovedCallStatus = keyof typeof STATUS_NUMBERS;

/** An approved call whose response has reached nobody. */
export interface ApprovedCall {
  /** The decision that allowed it. */
  readonly decisionId: string;
  readonly digest: string;
  readonly status: ApprovedCallStatus;
}

/** Names an approved call. */
export interface CallKey {
  readonly workspaceId: string;
  readonly agentId: string;
  readonly decisionId: string;
}

/** An approved call of this process. */
export interface RunningCall extends CallKey {
  /** Milliseconds for which its result is kept: as long as an approval can be used. */
  readonly keptMs: number;
}

/** The server's answer to a call, without the id of its request. */
export type KeptAnswer = Pick<RpcResponse, "result" | "error">;

/** A call that one caller alone has taken. */
export interface TakenCall {
  readonly status: Exclude<ApprovedCallStatus, "running">;
  /** Present for the status `kept`. */
  readonly answer: KeptAnswer | undefined;
  /** Puts it back, because it did not reach the caller. */
  putBack(): Promise<void>;
}

/** Parts of `KeptResults`. */
export interface KeptResultsOptions {
  readonly pool: Pool;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  readonly encryptor: Encryptor;
  readonly log: StoreLog;
}

/** Reads an approved call from its row. A running one that was not renewed in time has ended with its process. */
export function approvedCallFrom(
  { decisionId, digest, status, leaseUntilMs }: ApprovedCallRow,
  nowMs: number,
): ApprovedCall {
  const names = Object.keys(STATUS_NUMBERS) as ApprovedCallStatus[];
  const word = names.find((name) => STATUS_NUMBERS[name] === status) ?? "unknown";
  return { decisionId, digest, status: word === "running" && leaseUntilMs <= nowMs ? "unknown" : word };
}

/** The stored form of an approved call. */
export interface ApprovedCallRow {
  readonly decisionId: string;
  readonly digest: string;
  readonly status: number;
  readonly leaseUntilMs: number;
}

/**
 * Approved calls in the database, from before they are sent until their response has reached a client. The results of calls whose
 * client left are encrypted and given out once, on any replica. An entry goes with the end of its time.
 */
export class KeptResults {
  readonly #options: KeptResultsOptions;
  /** Bytes of results that wait for the database. */
  readonly #waiting = createHeldBytes("kept_result_bytes");
  readonly #closing = new AbortController();
  #sweep: NodeJS.Timeout | undefined;

  constructor(options: KeptResultsOptions) {
    this.#options = options;
  }

  /** Starts to delete what has expired. */
  start(): void {
    const sweep = () => void this.#deleteExpired();
    this.#sweep = setInterval(sweep, SWEEP_MS);
    this.#sweep.unref();
    sweep();
  }

  /** Stops. Results that still wait for the database are lost: their calls become `unknown`. */
  close(): void {
    clearInterval(this.#sweep);
    this.#closing.abort(new ControlPlaneError(ErrorReason.SHUTTING_DOWN, "the service is stopping"));
  }

  /** Writes that a call is about to be sent. Rejects with STORE_UNAVAILABLE; the call MUST then not be sent. */
  async begin(key: CallKey, digest: string): Promise<RunningCall> {
    const { settings } = await (await this.#options.logs.of(key.workspaceId)).caughtUp();
    const keptMs = settings.approval_ttl_seconds * 1000;
    const nowMs = this.#now();
    const leaseUntilMs = nowMs + LEASE_MS;
    const values = [STATUS_NUMBERS.running, leaseUntilMs, leaseUntilMs + keptMs, null, nowMs];
    await this.#write(insertApprovedCall, [...valuesOf(key), digest, ...values]);
    return { ...key, keptMs };
  }

  /** Says that a call still runs. Logs a fault. */
  async renew(call: RunningCall): Promise<void> {
    const leaseUntilMs = this.#now() + LEASE_MS;
    try {
      await this.#write(renewApprovedCall, [...valuesOf(call), leaseUntilMs, leaseUntilMs + call.keptMs]);
    } catch (error) {
      this.#warn(call, "cannot renew an approved call", error);
    }
  }

  /** Forgets a call whose response has reached its client. Tries until the database answers. */
  async forget(call: RunningCall): Promise<void> {
    await this.#persist(call, () => this.#write(forgetApprovedCall, valuesOf(call)));
  }

  /** Writes that nobody knows how a call ended. Tries until the database answers. */
  async loseTrack(call: RunningCall): Promise<void> {
    await this.#persist(call, () => this.#end(call, "unknown"));
  }

  /** Keeps the answer to a call whose client has left. Tries until the database answers or the answer has expired. */
  async keep(call: RunningCall, answer: KeptAnswer): Promise<void> {
    const text = await writeJson(answer);
    const bytes = Buffer.byteLength(text);
    await this.#waiting.during({ workspaceId: call.workspaceId }, async (portion) => {
      const sealed = bytes <= MAX_KEPT_BYTES && hasRoom(portion, bytes) ? this.#seal(call, text) : undefined;
      await this.#persist(call, async () => {
        if (sealed === undefined || !(await this.#keepWithin(call, sealed))) await this.#end(call, "too_large");
      });
    });
  }

  /** Reads a call; undefined if its response has reached a client. */
  async find({ digest, ...key }: CallKey & Pick<ApprovedCall, "digest">): Promise<ApprovedCall | undefined> {
    const nowMs = this.#now();
    const values = [...valuesOf(key), nowMs];
    const { rows } = await stored(this.#options.pool.query<ApprovedCallRow>({ ...readApprovedCall, values }));
    return rows[0] && approvedCallFrom({ ...rows[0], digest }, nowMs);
  }

  /**
   * Takes a call that is not running any more, in the transaction that seals who got it. Returns undefined if another caller was
   * first, or if the agent is no longer active.
   */
  async take(caller: McpCaller, { decisionId, digest }: ApprovedCall): Promise<TakenCall | undefined> {
    const { workspaceId, agentId, keyId } = caller;
    const key = { workspaceId, agentId, decisionId };
    const found = await this.#read(key);
    if (found === undefined) return undefined;
    const { sealed, call, expiresAtMs } = found;
    const { status } = call;
    if (status === "running") return undefined;
    const answer = sealed === null ? undefined : await this.#open(key, sealed);
    const log = await this.#options.logs.of(workspaceId);
    const isTaken = await log.change(keyId, async ({ transaction, state, nowMs, seal }) => {
      if (state.agents.get(agentId)?.status !== "active") return false;
      const reader = readerWithin(transaction);
      const { rows } = await reader.query({ ...takeApprovedCall, values: [...valuesOf(key), nowMs] });
      if (rows.length === 0) return false;
      seal({ type: "mcp_result_given", agent_id: agentId, decision_id: decisionId, result: status });
      return true;
    });
    if (!isTaken) return undefined;
    const putBack = async (): Promise<void> => {
      const nowMs = this.#now();
      const values = [...valuesOf(key), digest, STATUS_NUMBERS[status], 0, expiresAtMs, sealed, nowMs];
      const own = { ...key, keptMs: expiresAtMs - nowMs };
      await this.#persist(own, () => this.#write(insertApprovedCall, values));
    };
    return { status, answer, putBack };
  }

  async #read(key: CallKey) {
    const { pool } = this.#options;
    const nowMs = this.#now();
    const values = [...valuesOf(key), nowMs];
    const { rows } = await stored(
      pool.query<ApprovedCallRow & { expiresAtMs: number }>({ ...readApprovedCall, values }),
    );
    const row = rows[0];
    if (row === undefined) return undefined;
    const kept = await stored(
      pool.query<{ sealedResult: Buffer | null }>({ ...readKeptResult, values: valuesOf(key) }),
    );
    if (kept.rows[0] === undefined) return undefined;
    const { sealedResult: sealed } = kept.rows[0];
    return { sealed, call: approvedCallFrom(row, nowMs), expiresAtMs: row.expiresAtMs };
  }

  /** Keeps a result if the workspace has room. Returns false if it has none. */
  async #keepWithin(call: RunningCall, sealed: Buffer): Promise<boolean> {
    const nowMs = this.#now();
    const client = await stored(this.#options.pool.connect());
    try {
      await client.query("begin");
      await client.query({ ...lockKeptResults, values: [call.workspaceId] });
      const values = [...valuesOf(call), sealed, nowMs + call.keptMs, MAX_WORKSPACE_BYTES, nowMs];
      const { rowCount } = await client.query({ ...keepResult, values });
      await client.query("commit");
      return rowCount === 1;
    } catch (error) {
      await client.query("rollback").catch(() => undefined);
      throw storeFault(error);
    } finally {
      client.release();
    }
  }

  async #end(call: RunningCall, status: "too_large" | "unknown"): Promise<void> {
    const expiresAtMs = this.#now() + call.keptMs;
    await this.#write(endApprovedCall, [...valuesOf(call), STATUS_NUMBERS[status], expiresAtMs]);
  }

  async #write(statement: { readonly name: string; readonly text: string }, values: unknown[]): Promise<void> {
    await stored(this.#options.pool.query({ ...statement, values }));
  }

  /** Runs a write until it succeeds, at most for the time of an approval. MUST NOT reject. */
  async #persist(call: RunningCall, write: () => Promise<void>): Promise<void> {
    const backOff = createBackOff(RETRY);
    const { signal } = this.#closing;
    const untilMs = this.#now() + call.keptMs;
    while (this.#now() <= untilMs) {
      try {
        return await write();
      } catch (error) {
        this.#warn(call, "cannot write an approved call", error);
        if (controlPlaneErrorFrom(error).reason !== ErrorReason.STORE_UNAVAILABLE) return;
      }
      if (await delay(backOff.next(), false, { signal }).catch(() => true)) return;
    }
  }

  async #deleteExpired(): Promise<void> {
    try {
      await this.#write(sweepApprovedCalls, [this.#now()]);
    } catch (error) {
      this.#options.log.warn({ reason: String(error) }, "cannot delete expired results of approved calls");
    }
  }

  #now(): number {
    return this.#options.logs.clock.now();
  }

  #seal(key: CallKey, text: string): Buffer {
    return this.#options.encryptor.encrypt(key.workspaceId, placeOf(key), text);
  }

  async #open(key: CallKey, sealed: Buffer): Promise<KeptAnswer> {
    const text = this.#options.encryptor.decrypt(key.workspaceId, placeOf(key), sealed);
    return (await readJson(text, KEPT_BOUNDS)) as KeptAnswer;
  }

  #warn({ workspaceId, decisionId }: CallKey, message: string, error: unknown): void {
    this.#options.log.warn({ workspaceId, decisionId, reason: String(error) }, message);
  }
}

/** Takes bytes of the results that wait for the database. Returns false if there is no room. */
function hasRoom(portion: Portion, bytes: number): boolean {
  try {
    portion.add(bytes);
    return true;
  } catch {
    return false;
  }
}

const valuesOf = ({ workspaceId, agentId, decisionId }: CallKey): unknown[] => [workspaceId, agentId, decisionId];

/** A result cannot be decrypted as another call's or agent's. */
const placeOf = ({ agentId, decisionId }: CallKey): string =>
  `mcp_approved_call.sealed_result ${agentId} ${decisionId}`;
