import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect } from "chai";
import type { Client, Pool, PoolClient, QueryResult } from "pg";
import { createDatabaseClock, type DatabaseClock } from "../../src/log/clock.ts";
import { WorkspaceLog } from "../../src/log/writer.ts";
import { loadState } from "../../src/state/load.ts";
import type { Replica } from "../support/harness.ts";
import { withOwner } from "../support/owner.ts";
import { isPooled } from "../support/pooler.ts";
import { comparable, foldedState } from "./comparable.ts";

/** Hooks around the n-th append outside of a lock. */
export interface Around {
  /** Right before it is sent; those behind it wait. */
  readonly before?: (count: number, values: readonly unknown[]) => Promise<unknown>;
  /** Before its answer is passed on. */
  readonly after?: (count: number, client: PoolClient) => Promise<unknown>;
}

interface WatchedAppends {
  readonly pool: Pool;
  /** Events of the appends in order: `sent 1`, `appended 1`; `refused` for one that wrote nothing. */
  readonly events: string[];
}

/** A log whose appends are watched. */
export interface WatchedLog {
  readonly log: WorkspaceLog;
  readonly events: WatchedAppends["events"];
  /** Sets its clock ahead, as if so many milliseconds went by at once. */
  skip(ms: number): void;
}

/** A pool whose appends are watched. They are sent in the order in which they come, whatever is done around them. */
function watchAppends(pool: Pool, { before, after }: Around = {}): WatchedAppends {
  const events: string[] = [];
  let appends = 0;
  let order: Promise<unknown> = Promise.resolve();
  /** A connection's, on the wire as soon as it is written; the pool's own queries take any. */
  const streamOf = (target: Pool | PoolClient): Socket | undefined =>
    (target as { connection?: { stream: Socket } }).connection?.stream;
  const append = async (target: Pool | PoolClient, args: Parameters<Pool["query"]>): Promise<QueryResult> => {
    const count = ++appends;
    const [{ values }] = args as unknown as [{ values: unknown[] }];
    // A turn later, when the batch behind has been decided: what is done here is not to change whether it follows.
    order = order.then(() => before && nextTurn().then(() => before(count, values)));
    await order;
    const stream = streamOf(target);
    const written = stream?.bytesWritten ?? -1;
    const answer = target.query(...args) as unknown as Promise<QueryResult>;
    // Behind a pooler it waits in the connection until the one before it is answered.
    const isSent = isPooled() || (stream?.bytesWritten ?? 0) > written;
    events.push(`${isSent ? "sent" : "kept back"} ${count}`);
    try {
      const result = await answer;
      await after?.(count, target as PoolClient);
      events.push(`${result.rows.length > 0 ? "appended" : "refused"} ${count}`);
      return result;
    } catch (error) {
      events.push(`failed ${count}`);
      throw error;
    }
  };
  const watched = <T extends Pool | PoolClient>(target: T, isLocked: () => boolean): T =>
    new Proxy(target, {
      get(_, name) {
        const value = Reflect.get(target, name) as unknown;
        if (name === "connect") return async () => watchedClient(await pool.connect());
        if (name !== "query") return typeof value === "function" ? value.bind(target) : value;
        return (...args: Parameters<Pool["query"]>) => {
          const [statement] = args as unknown as [{ name?: string }];
          if (statement.name?.startsWith("append-") && !isLocked()) return append(target, args);
          return target.query(...args);
        };
      },
    });
  const watchedClient = (client: PoolClient): PoolClient =>
    watched(client, () => client.getTransactionStatus() === "T");
  return { pool: watched(pool, () => false), events };
}

/** Opens a log of its own on the database of a replica. `given` is a clock that `skip` does not move. */
export async function openWatchedLog(
  { database }: Replica,
  around?: Around,
  given?: DatabaseClock,
): Promise<WatchedLog> {
  let skippedMs = 0;
  const state = await loadState(database.pool, "default");
  const clock = given ?? createDatabaseClock(() => performance.now() + skippedMs);
  clock.observe(Date.now(), performance.now(), performance.now());
  const { pool, events } = watchAppends(database.pool, around);
  const log = new WorkspaceLog({ ...database, pool }, state, clock);
  const skip = (ms: number): void => {
    skippedMs += ms;
  };
  return { log, events, skip };
}

/** Asserts that a log holds in memory what its entries say, and nothing tentative. */
export async function assertFolded({ database: { pool } }: Replica, log: WorkspaceLog): Promise<void> {
  const state = await log.caughtUp();
  const { lastAtMs } = state;
  const folded = await comparable(pool, await foldedState(pool), lastAtMs);
  expect(await comparable(pool, state, lastAtMs)).to.deep.equal(folded);
}

/** Runs `use` while another connection holds the end of the log. */
export function whileHeld<T>(url: string, use: (holder: Client) => Promise<T>): Promise<T> {
  return withOwner(url, async (holder) => {
    await holder.query("begin");
    await holder.query("select 1 from ledger_head where workspace_id = 'default' for update");
    const result = await use(holder);
    await holder.query("rollback");
    return result;
  });
}
