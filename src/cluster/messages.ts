import type { MetricObject } from "prom-client";
import type { PortName } from "../server/servers.ts";

/** The figures of one process, as `registry.getMetricsAsJSON()` gives them. */
export type Figures = readonly MetricObject[];

/** From the primary to a worker. */
export type ToWorker =
  /** The first one: what to serve. */
  | { readonly kind: "start"; readonly databaseUrl: string }
  | { readonly kind: "stop"; readonly signal: string }
  /** Comes with the connection. */
  | { readonly kind: "connection"; readonly id: number; readonly port: PortName }
  /** Asks for the worker's figures. */
  | { readonly kind: "count"; readonly id: number }
  /** Answers a `scrape` with the text of all figures. */
  | { readonly kind: "page"; readonly id: number; readonly text: string };

/** From a worker to the primary. */
export type ToPrimary =
  | { readonly kind: "serving" }
  /** It takes no new work, and connections only while there is nobody else. */
  | { readonly kind: "draining" }
  /** The connection is the worker's from now on. */
  | { readonly kind: "taken"; readonly id: number }
  /** A connection that it had taken is closed. */
  | { readonly kind: "closed" }
  /** Asks for the figures of all workers. */
  | { readonly kind: "scrape"; readonly id: number }
  /** Answers a `count`. */
  | { readonly kind: "figures"; readonly id: number; readonly figures: Figures };
