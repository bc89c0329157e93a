import type { Worker } from "node:cluster";
import type { Registry } from "prom-client";
import { ProcessSums } from "./process-sums.ts";
import { type Figure, type Report, readReport } from "./report.ts";

/** Message of a worker to the primary. */
export type ToCollector =
  /** Its metrics: with all gauges and the id if it was asked for them, else its counts alone. */
  | {
      readonly kind: "metrics";
      readonly id?: number;
      readonly counts: Report["counts"];
      readonly gauges?: Report["gauges"];
    }
  /** Asks for the page of the whole service. */
  | { readonly kind: "ask_page"; readonly id: number };

/** Message of the primary to a worker. */
export type FromCollector =
  | { readonly kind: "ask_metrics"; readonly id: number }
  | { readonly kind: "page"; readonly id: number; readonly text: string };

/** Milliseconds that a worker has for its metrics. Its gauges of the database take up to two seconds. */
const ANSWER_MS = 3_000;

/** Place of the primary among its workers, whose numbers begin with 1. */
const PRIMARY = 0;

/** A question to the worker at a place for its metrics. */
interface Question {
  readonly place: number;
  readonly resolve: (gauges: readonly Figure[]) => void;
}

/** Collects, in the primary, the metrics of the workers, and gives each the page of the whole service. */
export class MetricsCollector {
  readonly #own: Registry;
  readonly #sums = new ProcessSums();
  readonly #workers = new Map<number, Worker>();
  readonly #questions = new Map<number, Question>();
  #count = 0;

  /** `own`: metrics of the primary itself. */
  constructor(own: Registry) {
    this.#own = own;
  }

  /** Takes the reports of the worker with a number until it ends or another gets its number, and answers it. */
  add(number: number, worker: Worker): void {
    this.#end(number);
    this.#workers.set(number, worker);
    const isPresent = (): boolean => this.#workers.get(number) === worker;
    worker.on("message", (message: ToCollector) => {
      if (message.kind === "metrics" && isPresent()) this.#onMetrics(number, message);
      if (message.kind === "ask_page") void this.#sendPage(worker, message.id);
    });
    // Comes after the last message, unlike the end of the process.
    worker.once("disconnect", () => {
      if (isPresent()) this.#end(number);
    });
  }

  #onMetrics(number: number, { id, counts, gauges = [] }: ToCollector & { readonly kind: "metrics" }): void {
    this.#sums.take(number, counts);
    if (id !== undefined) this.#questions.get(id)?.resolve(gauges);
  }

  #end(number: number): void {
    this.#workers.delete(number);
    this.#sums.end(number);
    for (const { place, resolve } of this.#questions.values()) if (place === number) resolve([]);
  }

  async #sendPage(worker: Worker, id: number): Promise<void> {
    send(worker, { kind: "page", id, text: await this.#page() });
  }

  async #page(): Promise<string> {
    const asked = [...this.#workers].filter(([number]) => this.#sums.hasReported(number));
    const gauges = await Promise.all(asked.map(([number, worker]) => this.#gaugesOf(number, worker)));
    const own = await readReport(this.#own);
    this.#sums.take(PRIMARY, own.counts);
    return this.#sums.page([own.gauges, ...gauges]);
  }

  /** Asks a worker for its metrics. Resolves with its gauges; none if it does not answer in time. */
  async #gaugesOf(place: number, worker: Worker): Promise<readonly Figure[]> {
    const id = ++this.#count;
    const { promise, resolve } = Promise.withResolvers<readonly Figure[]>();
    const timer = setTimeout(() => resolve([]), ANSWER_MS);
    this.#questions.set(id, { place, resolve });
    send(worker, { kind: "ask_metrics", id });
    const gauges = await promise;
    clearTimeout(timer);
    this.#questions.delete(id);
    return gauges;
  }
}

function send(worker: Worker, message: FromCollector): void {
  if (worker.isConnected()) worker.send(message, () => undefined);
}
