import { AggregatorRegistry, Registry } from "prom-client";
import type { MetricsPage } from "../server/http-status-pages.ts";
import type { Figures, ToPrimary, ToWorker } from "./messages.ts";

/** Milliseconds that a worker has to tell its figures; one that does not is left out of the page. */
const ANSWER_MS = 1_000;

/** A worker as the exchange sees it. */
export interface Counted {
  /** Label of its figures. A worker that takes the place of another has the same. */
  readonly slot: number;
  send(message: ToWorker): void;
}

/** The primary's side: asks all workers for their figures and makes one page of them. */
export interface MetricsExchange {
  /** Answers a worker's scrape with the page of all. */
  scrape(asking: Counted, id: number, workers: readonly Counted[]): void;
  /** Takes in what a worker tells. */
  told(worker: Counted, id: number, figures: Figures): void;
}

interface Scrape {
  readonly answers: Map<number, Figures>;
  readonly expected: number;
  finish(): void;
}

/** Creates the exchange of a primary. */
export function createMetricsExchange(): MetricsExchange {
  const scrapes = new Map<number, Scrape>();
  let count = 0;
  return {
    scrape(asking, id, workers) {
      count += 1;
      const own = count;
      const answers = new Map<number, Figures>();
      const finish = (): void => {
        if (!scrapes.delete(own)) return;
        clearTimeout(timer);
        void pageOf(answers).then((text) => asking.send({ kind: "page", id, text }));
      };
      const timer = setTimeout(finish, ANSWER_MS);
      scrapes.set(own, { answers, expected: workers.length, finish });
      for (const worker of workers) worker.send({ kind: "count", id: own });
    },
    told({ slot }, id, figures) {
      const scrape = scrapes.get(id);
      if (scrape === undefined) return;
      scrape.answers.set(slot, figures);
      if (scrape.answers.size === scrape.expected) scrape.finish();
    },
  };
}

/** One text of the figures of all, each value labelled with its worker. */
function pageOf(answers: ReadonlyMap<number, Figures>): Promise<string> {
  const labelled = [...answers]
    .sort(([a], [b]) => a - b)
    .map(([slot, figures]) => figures.map((metric) => labelledWith(metric, String(slot))));
  return AggregatorRegistry.aggregate(labelled).metrics();
}

function labelledWith(metric: Figures[number], worker: string): Figures[number] {
  const { values } = metric as unknown as { values: readonly { labels: object }[] };
  return { ...metric, values: values.map((value) => ({ ...value, labels: { ...value.labels, worker } })) } as never;
}

/** The worker's side. */
export interface WorkerMetrics {
  /** The page of all workers; of this one alone while the primary does not answer. */
  readonly page: (own: Registry) => MetricsPage;
  /** Takes in a message of the primary. */
  heard(message: Extract<ToWorker, { kind: "count" | "page" }>): void;
}

/** Creates the worker's side over its way to the primary. */
export function createWorkerMetrics(send: (message: ToPrimary) => void): WorkerMetrics {
  const waiting = new Map<number, (text: string) => void>();
  let registry = new Registry();
  let count = 0;

  const ask = (): Promise<string> =>
    new Promise((resolve) => {
      count += 1;
      const id = count;
      const answer = (text: string | Promise<string>): void => {
        clearTimeout(timer);
        waiting.delete(id);
        resolve(text);
      };
      const timer = setTimeout(() => answer(registry.metrics()), 2 * ANSWER_MS);
      waiting.set(id, answer);
      send({ kind: "scrape", id });
    });

  return {
    page(own) {
      registry = own;
      return { contentType: own.contentType, metrics: ask };
    },
    heard(message) {
      if (message.kind === "page") waiting.get(message.id)?.(message.text);
      else void registry.getMetricsAsJSON().then((figures) => send({ kind: "figures", id: message.id, figures }));
    },
  };
}
