import type { Holder, IdleThing, Portion, SharedPot } from "../async/shared-pot.ts";

/** The call of an approved task in this process; once it has ended, its outcome. */
export interface TaskRun<Status> {
  readonly ending: AbortController;
  status: Status;
  changedAtMs: number;
}

/** Milliseconds for which an outcome is kept after its client has last asked for it. */
export const KEPT_MS = 600_000;
const SWEEP_MS = 60_000;
/** Bytes that each run counts besides its outcome. */
const RUN_OVERHEAD = 4_096;

/** A run with its part of the pot. Once it has ended, it may go to make room. */
class HeldRun<Status> implements IdleThing {
  readonly holder: Holder;
  readonly run: TaskRun<Status>;
  readonly portion: Portion;
  readonly #onClose: () => void;
  hasEnded = false;
  idleSinceMs = performance.now();

  constructor(holder: Holder, run: TaskRun<Status>, portion: Portion, onClose: () => void) {
    this.holder = holder;
    this.run = run;
    this.portion = portion;
    this.#onClose = onClose;
  }

  async close(): Promise<void> {
    this.portion.release();
    this.#onClose();
  }
}

/** Runs of tasks and their outcomes, which workspaces share the memory of. */
export class TaskRuns<Status> {
  readonly #pot: SharedPot;
  readonly #runs = new Map<string, HeldRun<Status>>();
  readonly #sweep: NodeJS.Timeout;

  constructor(pot: SharedPot) {
    this.#pot = pot;
    this.#sweep = setInterval(() => this.#forgetIdle(), SWEEP_MS);
    this.#sweep.unref();
  }

  /** Returns a run, and keeps its outcome for longer. */
  get(key: string): TaskRun<Status> | undefined {
    const held = this.#runs.get(key);
    if (held !== undefined) held.idleSinceMs = performance.now();
    return held?.run;
  }

  /** Returns a run that has not ended. */
  running(key: string): TaskRun<Status> | undefined {
    const held = this.#runs.get(key);
    return held?.hasEnded === false ? held.run : undefined;
  }

  /** Begins a run. Throws OVERLOADED if its workspace or agent would hold more than its share. */
  begin(holder: Holder, key: string, run: TaskRun<Status>): void {
    this.#makeRoom(holder, RUN_OVERHEAD);
    const portion = this.#pot.take(holder, RUN_OVERHEAD);
    const held: HeldRun<Status> = new HeldRun(holder, run, portion, () => {
      if (this.#runs.get(key) === held) this.#runs.delete(key);
    });
    this.#runs.set(key, held);
  }

  /** Ends a run with its outcome, which is kept; if there is no room for it, with `lost` in its place. */
  end(key: string, status: Status, lost: Status): void {
    const held = this.#runs.get(key);
    if (held === undefined) return;
    const { holder, portion, run } = held;
    const bytes = Buffer.byteLength(JSON.stringify(status));
    try {
      this.#makeRoom(holder, bytes);
      portion.add(bytes);
      run.status = status;
    } catch {
      run.status = lost;
    }
    run.changedAtMs = Date.now();
    held.hasEnded = true;
    held.idleSinceMs = performance.now();
  }

  /** Ends every run in flight, and forgets the outcomes. */
  close(reason: unknown): void {
    clearInterval(this.#sweep);
    for (const held of [...this.#runs.values()]) {
      if (held.hasEnded) void held.close();
      else held.run.ending.abort(reason);
    }
  }

  #makeRoom(holder: Holder, bytes: number): void {
    this.#pot.makeRoom(holder, bytes, () => this.#idle());
  }

  *#idle(): Generator<HeldRun<Status>> {
    for (const held of this.#runs.values()) if (held.hasEnded) yield held;
  }

  #forgetIdle(): void {
    const before = performance.now() - KEPT_MS;
    for (const held of this.#idle()) if (held.idleSinceMs <= before) void held.close();
  }
}
