import { Worker } from "node:worker_threads";

/** A thread that does jobs one at a time, each within a time. A thread that fails or takes too long is given up for a new one. */
export class WorkerThread<Job, Result> {
  readonly #start: () => Worker;
  readonly #onGivenUp: () => void;
  #thread: Worker | undefined;
  #isClosed = false;

  /**
   * `url`: the file of the thread, beside that of the caller (`import.meta.url`), whose ending is the same. `onGivenUp` is called
   * before a new thread may start.
   */
  constructor(url: URL, onGivenUp: () => void = () => undefined) {
    this.#start = () => new Worker(url);
    this.#onGivenUp = onGivenUp;
  }

  /** True while a thread runs. */
  get isStarted(): boolean {
    return this.#thread !== undefined;
  }

  /** Does a job. Resolves with undefined if the thread fails, takes longer than `maxMs`, its start included, or is closed. */
  async run(job: Job, maxMs: number): Promise<Result | undefined> {
    if (this.#isClosed) return undefined;
    this.#thread ??= this.#startThread();
    const thread = this.#thread;
    const { promise, resolve } = Promise.withResolvers<Result | undefined>();
    const settle = (result: Result | undefined): void => {
      clearTimeout(timer);
      thread.off("message", settle).off("error", fail).off("exit", fail);
      if (result === undefined) this.#giveUp(thread);
      resolve(result);
    };
    const fail = (): void => settle(undefined);
    const timer = setTimeout(fail, maxMs);
    thread.on("message", settle).on("error", fail).on("exit", fail);
    thread.postMessage(job);
    return promise;
  }

  /** Ends the thread; the job at hand resolves with undefined. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#thread?.terminate();
  }

  #startThread(): Worker {
    const thread = this.#start();
    thread.unref();
    return thread;
  }

  #giveUp(thread: Worker): void {
    this.#thread = undefined;
    this.#onGivenUp();
    // A late error of an abandoned thread must not end the process.
    thread.on("error", () => undefined);
    void thread.terminate();
  }
}

/** Returns the address of a file beside another one, with its ending: `.ts` in sources, `.js` in a build. */
export const besideModule = (moduleUrl: string, name: string): URL =>
  new URL(`${name}${moduleUrl.endsWith(".ts") ? ".ts" : ".js"}`, moduleUrl);
