import type { StoreLog } from "../store/migrate.ts";
import type { WorkspaceLogs } from "./workspace-logs.ts";
import type { WorkspaceLog } from "./writer.ts";

/** Work on things of a workspace that fall due, such as the rejection of expired escalations. */
export interface DueWorkOptions {
  readonly log: StoreLog;
  /** Sentence for the service's log when the work fails. */
  readonly failure: string;
  /** Reads the earliest time at which something falls due, by workspace, up to a time; epoch milliseconds. */
  readonly readNext: (
    untilMs: number,
  ) => Promise<readonly { readonly workspaceId: string; readonly dueAtMs: number }[]>;
  /** Does what is due in a workspace. Resolves with the next time, epoch milliseconds; undefined if nothing is left. */
  readonly work: (log: WorkspaceLog) => Promise<number | undefined>;
}

/**
 * Milliseconds between scans for what falls due. Each process keeps the times of what it made itself; scans find what an ended
 * process left behind.
 */
const SCAN_MS = 60_000;
/** Milliseconds after a failure until the next try. */
const RETRY_MS = 1_000;

/** Does work of all workspaces at the time at which it falls due. */
export class DueWork {
  readonly #options: DueWorkOptions;
  #logs: WorkspaceLogs | undefined;
  /** Workspaces with the earliest time that is known and near, epoch milliseconds. */
  readonly #due = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #scanAtMs = 0;
  #running: Promise<void> | undefined;

  constructor(options: DueWorkOptions) {
    this.#options = options;
  }

  /** Notes the time at which something falls due that this process made. */
  readonly note = (workspaceId: string, dueAtMs: number): void => {
    if (this.#note(workspaceId, dueAtMs)) this.#schedule();
  };

  /** Notes a time; false if an earlier one of the workspace is known, or the next scan finds it early enough. */
  #note(workspaceId: string, atMs: number): boolean {
    if (atMs > this.#scanAtMs + SCAN_MS) return false;
    if (atMs >= (this.#due.get(workspaceId) ?? Number.POSITIVE_INFINITY)) return false;
    this.#due.set(workspaceId, atMs);
    return true;
  }

  /** Starts, with what is due already first. */
  start(logs: WorkspaceLogs): void {
    this.#logs = logs;
    this.#schedule();
  }

  /** Stops once the work in progress is done. */
  async close(): Promise<void> {
    this.#logs = undefined;
    clearTimeout(this.#timer);
    await this.#running;
  }

  #schedule(afterMs = 0): void {
    const nowMs = this.#logs?.clock.now();
    if (nowMs === undefined || this.#running !== undefined) return;
    let next = this.#scanAtMs;
    for (const atMs of this.#due.values()) next = Math.min(next, atMs);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#start(), Math.max(afterMs, next - nowMs));
    this.#timer.unref();
  }

  #start(): void {
    const logs = this.#logs;
    if (logs === undefined || this.#running !== undefined) return;
    this.#running = this.#workOnDue(logs).then(
      () => this.#settle(0),
      (error: Error) => {
        this.#options.log.warn({ reason: error.message }, this.#options.failure);
        this.#settle(RETRY_MS);
      },
    );
  }

  #settle(afterMs: number): void {
    this.#running = undefined;
    this.#schedule(afterMs);
  }

  async #workOnDue(logs: WorkspaceLogs): Promise<void> {
    if (logs.clock.now() >= this.#scanAtMs) await this.#scan(logs.clock.now() + SCAN_MS);
    for (const [workspaceId, atMs] of this.#due) {
      if (atMs > logs.clock.now()) continue;
      this.#due.delete(workspaceId);
      const nextMs = await this.#workIn(logs, workspaceId);
      if (nextMs !== undefined) this.#note(workspaceId, nextMs);
    }
  }

  /** Works in a workspace, and returns the time of the next look. A fault in one workspace delays no other. */
  async #workIn(logs: WorkspaceLogs, workspaceId: string): Promise<number | undefined> {
    try {
      return await this.#options.work(await logs.of(workspaceId));
    } catch (error) {
      this.#options.log.warn({ workspaceId, reason: (error as Error).message }, this.#options.failure);
      return logs.clock.now() + RETRY_MS;
    }
  }

  /** Reads what falls due until the next scan. */
  async #scan(untilMs: number): Promise<void> {
    const rows = await this.#options.readNext(untilMs);
    this.#scanAtMs = untilMs;
    for (const { workspaceId, dueAtMs } of rows) this.#note(workspaceId, dueAtMs);
  }
}
