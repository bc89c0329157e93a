import type { Holder } from "../async/shared-pot.ts";
import { Slots } from "../async/slots.ts";
import { doInTurns } from "../async/work.ts";
import { besideModule, WorkerThread } from "../async/worker-thread.ts";
import { overShare } from "../errors.ts";
import { type ContentDigests, type ContentJob, digestsOfContent } from "./content-values.ts";

/** Characters of a content from which on a thread reads it. */
const LONG_CONTENT = 4_096;
/** Milliseconds that the thread may take for one content of 1 MiB, its start included. */
const MAX_MS = 10_000;
/** Contents that use the thread or wait for it, of which one workspace alone has half. */
const MAX_CONTENTS = 128;

interface ThreadDigests {
  readonly digests: Readonly<Record<string, Uint8Array>>;
  readonly isCut: boolean;
}

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
  readonly #thread = new WorkerThread<ContentJob, ThreadDigests>(besideModule(import.meta.url, "extract-thread"));

  /**
   * Returns the digests of the values in a content; undefined for a content that takes too long. Rejects with OVERLOADED, and with the
   * signal's reason once it aborts.
   */
  async digestsOf(job: ContentJob, holder: Holder, signal?: AbortSignal): Promise<ContentDigests | undefined> {
    if (job.content.length < LONG_CONTENT) return doInTurns(digestsOfContent(job));
    const digests = await this.#slots.run(() => this.#thread.run(job, MAX_MS), holder, signal);
    return digests && buffersFrom(digests);
  }

  async close(): Promise<void> {
    await this.#thread.close();
  }
}

/** Messages of threads bring plain arrays of bytes, each with memory of its own. */
const buffersFrom = ({ digests, isCut }: ThreadDigests): ContentDigests => ({
  digests: Object.fromEntries(
    Object.entries(digests).map(([source, { buffer, byteOffset, length }]) => [
      source,
      Buffer.from(buffer as ArrayBuffer, byteOffset, length),
    ]),
  ),
  isCut,
});
