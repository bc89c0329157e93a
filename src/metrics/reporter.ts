import type { Registry } from "prom-client";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { FromCollector, ToCollector } from "./collector.ts";
import { readCounts, readReport } from "./report.ts";

/** Milliseconds between the reports of a worker, whose last one the primary keeps if the worker is killed. */
const REPORT_MS = 1_000;
/** Milliseconds that a worker waits for the page of all. */
const PAGE_MS = 6_000;

/** Reports the metrics of a worker to the primary, and gets the page of the whole service from there. */
export class MetricsReporter {
  readonly #own: Registry;
  readonly #timer: NodeJS.Timeout;
  readonly #asked = new Map<number, (text: string) => void>();
  #count = 0;
  #isReporting = false;

  constructor(own: Registry) {
    this.#own = own;
    process.on("message", this.#onMessage);
    this.#timer = setInterval(() => void this.#report(), REPORT_MS).unref();
    void this.#report();
  }

  get contentType(): Registry["contentType"] {
    return this.#own.contentType;
  }

  /**
   * Resolves with the page of the whole service. Rejects with DEADLINE_EXCEEDED if the primary does not answer: the metrics of this
   * worker alone would look like counters that went back.
   */
  async metrics(): Promise<string> {
    const id = ++this.#count;
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const timer = setTimeout(() => reject(notAddedUp()), PAGE_MS);
    this.#asked.set(id, resolve);
    void send({ kind: "ask_page", id });
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#asked.delete(id);
    }
  }

  /** Reports once more. MUST be called when nothing counts any longer. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    process.off("message", this.#onMessage);
    await send({ kind: "metrics", counts: await readCounts(this.#own) });
  }

  readonly #onMessage = (message: FromCollector): void => {
    if (message.kind === "page") this.#asked.get(message.id)?.(message.text);
    if (message.kind === "ask_metrics") void this.#answer(message.id);
  };

  async #answer(id: number): Promise<void> {
    await send({ kind: "metrics", id, ...(await readReport(this.#own)) });
  }

  async #report(): Promise<void> {
    // Reports would pile up for a primary that does not read.
    if (this.#isReporting) return;
    this.#isReporting = true;
    await send({ kind: "metrics", counts: await readCounts(this.#own) });
    this.#isReporting = false;
  }
}

/** Sends a message to the primary. Resolves when it is sent, or cannot be because the primary is gone. */
function send(message: ToCollector): Promise<void> {
  return new Promise((resolve) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => resolve());
    else resolve();
  });
}

const notAddedUp = (): ControlPlaneError =>
  new ControlPlaneError(
    ErrorReason.DEADLINE_EXCEEDED,
    `the metrics of the workers were not added up within ${PAGE_MS / 1_000} seconds; read them again`,
  );
