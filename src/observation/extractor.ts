import { Worker } from "node:worker_threads";
import type { Holder } from "../async/shared-pot.ts";
import { Slots } from "../async/slots.ts";
import { doInTurns } from "../async/work.ts";
import { overShare } from "../errors.ts";
import { type ContentDigests, type ContentJob, digestsOfContent } from "./content-values.ts";

/** Characters of a content from which on a thread reads it. */
const LONG_CONTENT = 4_096;
/** Milliseconds that the thread may take for one content of 1 MiB, its start included. */
const MAX_MS = 10_000;
/** Contents that use the thread or wait for it, of which one workspace alone has half. */
const MAX_CONTENTS = 128;

/** Reads the values of contents: short ones in turns of the event loop, long ones in a thread of its own. */
export class Extractor {
  readonly #slots = new Slots({
    name: "observed_contents",
    permits: 1,
    size: MAX_CONTENTS,
    unit: "long contents that are read",
    advice: "send fewer at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });
  #thread: Worker | undefined;
  #isClosed = false;

  /**
   * Returns the digests of the values in a content; undefined for a content that takes too long. Rejects with OVERLOADED, and with the
   * signal's reason once it aborts.
   */
  async digestsOf(job: ContentJob, holder: Holder, signal?: AbortSignal): Promise<ContentDigests | undefined> {
    if (job.content.length < LONG_CONTENT) return doInTurns(digestsOfContent(job));
    return this.#slots.run(() => this.#inThread(job), holder, signal);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#thread?.terminate();
  }

  async #inThread(job: ContentJob): Promise<ContentDigests | undefined> {
    if (this.#isClosed) return undefined;
    this.#thread ??= startThread();
    const thread = this.#thread;
    const { promise, resolve } = Promise.withResolvers<ContentDigests | undefined>();
    const settle = (digests: Readonly<Record<string, Uint8Array>> | undefined): void => {
      clearTimeout(timer);
      thread.off("message", settle).off("error", fail).off("exit", fail);
      if (digests === undefined) this.#giveUp(thread);
      resolve(digests && buffersFrom(digests));
    };
    const fail = (): void => settle(undefined);
    const timer = setTimeout(fail, MAX_MS);
    thread.on("message", settle).on("error", fail).on("exit", fail);
    thread.postMessage(job);
    return promise;
  }

  #giveUp(thread: Worker): void {
    if (this.#thread === thread) this.#thread = undefined;
    // A late error of an abandoned thread must not end the process.
    thread.on("error", () => undefined);
    void thread.terminate();
  }
}

/** Messages of threads bring plain arrays of bytes. */
const buffersFrom = (digests: Readonly<Record<string, Uint8Array>>): ContentDigests =>
  Object.fromEntries(
    Object.entries(digests).map(([source, bytes]) => [
      source,
      Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length),
    ]),
  );

function startThread(): Worker {
  // The thread's file is TypeScript when this one is, and JavaScript in a build.
  const thread = new Worker(new URL(import.meta.url.replace(/extractor(\.[jt]s)$/, "extract-thread$1")));
  thread.unref();
  return thread;
}
