import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import { type Rate, rateFrom } from "../async/rate.ts";
import { readRateLimits } from "../store/sql/read-workspace.ts";

/** Rates of calls that a workspace sets; null: no limit. */
export interface WorkspaceRate {
  readonly perKey: Rate | null;
  readonly perWorkspace: Rate | null;
}

/** Milliseconds after which rates are read again in the background, in case a wake-up was lost. */
const REFRESH_MS = 5_000;
const MAX_REMEMBERED = 10_000;
const NONE: WorkspaceRate = { perKey: null, perWorkspace: null };

interface Known {
  readonly rate: WorkspaceRate;
  readonly readAtMs: number;
}

/** Rates of calls of every workspace, read from the database and remembered. */
export class WorkspaceRates {
  readonly #pool: Pick<Pool, "query">;
  readonly #known = new LRUCache<string, Known>({ maxSize: MAX_REMEMBERED, sizeCalculation: () => 1 });
  readonly #reading = new Map<string, Promise<WorkspaceRate>>();

  constructor(pool: Pick<Pool, "query">) {
    this.#pool = pool;
  }

  /**
   * Returns the rates of a workspace, at once if they are known. While the database is away these are the last known ones, and none
   * if none are known: a limit protects the service, and MUST NOT take it away. Never rejects.
   */
  readonly of = (workspaceId: string): WorkspaceRate | Promise<WorkspaceRate> => {
    const known = this.#known.get(workspaceId);
    if (known !== undefined && performance.now() - known.readAtMs < REFRESH_MS) return known.rate;
    const reading = this.#reading.get(workspaceId) ?? this.#read(workspaceId, known);
    return known === undefined ? reading : known.rate;
  };

  /** Forgets the rates of a workspace. MUST be called after a change of them, and on wake-ups. */
  forget(workspaceId: string): void {
    this.#known.delete(workspaceId);
    // INVARIANT: a read that began before is not remembered after; it may miss the change.
    this.#reading.delete(workspaceId);
  }

  #read(workspaceId: string, last: Known | undefined): Promise<WorkspaceRate> {
    const readAtMs = performance.now();
    const reading = this.#query(workspaceId)
      .catch(() => last?.rate ?? NONE)
      .then((rate) => {
        if (this.#reading.get(workspaceId) !== reading) return rate;
        this.#reading.delete(workspaceId);
        this.#known.set(workspaceId, { rate, readAtMs });
        return rate;
      });
    this.#reading.set(workspaceId, reading);
    return reading;
  }

  async #query(workspaceId: string): Promise<WorkspaceRate> {
    const { rows } = await this.#pool.query<{ perKey: string; perWorkspace: string }>({
      ...readRateLimits,
      values: [workspaceId],
    });
    const [row] = rows;
    if (row === undefined) return NONE;
    return { perKey: rateFrom(row.perKey) ?? null, perWorkspace: rateFrom(row.perWorkspace) ?? null };
  }
}
