import { createHash } from "node:crypto";
import type { Pool } from "pg";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { outcomeTimeoutMs } from "../state/fold.ts";
import { stored } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import { insertHookCall, sweepHookCalls, takeHookCall } from "../store/sql/hook-calls.ts";
import type { McpCaller } from "./caller.ts";

/** Milliseconds between two deletions of what has expired. */
const SWEEP_MS = 60_000;

/** A tool call as its client names it, in the event before the tool and in the one after it. */
export interface HookCallName {
  readonly client: string;
  readonly sessionId: string;
  readonly toolUseId: string;
}

/** Parts of `HookCalls`. */
export interface HookCallsOptions {
  readonly pool: Pool;
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
  readonly log: StoreLog;
}

/**
 * Tool calls of coding agents that are allowed and whose end is not reported yet, in the database: the event after a tool may come to
 * another replica. An entry goes with its report, or with the time after which the outcome is unknown.
 */
export class HookCalls {
  readonly #options: HookCallsOptions;
  #sweep: NodeJS.Timeout | undefined;

  constructor(options: HookCallsOptions) {
    this.#options = options;
  }

  /** Starts to delete what has expired. */
  start(): void {
    const sweep = () => void this.#deleteExpired();
    this.#sweep = setInterval(sweep, SWEEP_MS);
    this.#sweep.unref();
    sweep();
  }

  close(): void {
    clearInterval(this.#sweep);
  }

  /**
   * Notes the decision that allowed a call, of which there may be several: one for each hook that runs. Rejects with
   * STORE_UNAVAILABLE.
   */
  async note({ workspaceId, agentId }: McpCaller, call: HookCallName, decisionId: string): Promise<void> {
    const { logs, pool } = this.#options;
    const expiresAtMs = logs.clock.now() + outcomeTimeoutMs(await (await logs.of(workspaceId)).caughtUp());
    const values = [workspaceId, agentId, digestOf(call), decisionId, expiresAtMs];
    await stored(pool.query({ ...insertHookCall, values }));
  }

  /** Takes the decisions that allowed a call: a second event after it gets none. Rejects with STORE_UNAVAILABLE. */
  async take({ workspaceId, agentId }: McpCaller, call: HookCallName): Promise<readonly string[]> {
    const { logs, pool } = this.#options;
    const values = [workspaceId, agentId, digestOf(call), logs.clock.now()];
    const { rows } = await stored(pool.query<{ decisionId: string }>({ ...takeHookCall, values }));
    return rows.map(({ decisionId }) => decisionId);
  }

  async #deleteExpired(): Promise<void> {
    const { log, logs, pool } = this.#options;
    try {
      await stored(pool.query({ ...sweepHookCalls, values: [logs.clock.now()] }));
    } catch (error) {
      log.warn({ reason: String(error) }, "cannot delete expired calls of hooks");
    }
  }
}

/** Returns the form of a call's name in the database, whatever characters its client gives it. */
const digestOf = ({ client, sessionId, toolUseId }: HookCallName): string =>
  createHash("sha256")
    .update(JSON.stringify([client, sessionId, toolUseId]))
    .digest("hex");
