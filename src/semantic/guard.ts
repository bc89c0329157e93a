import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { Semaphore, type SemaphoreOptions } from "../async/semaphore.ts";
import { type BreakerOptions, type BreakerState, CircuitBreaker, DEFAULT_BREAKER } from "./circuit-breaker.ts";
import { type Attempt, createModel, type Model, notAsked } from "./model.ts";
import type { Endpoint } from "./post-question.ts";
import type { GuardQuestion } from "./question.ts";
import type { GuardAnswer } from "./verdict.ts";

/** Asks a model about actions. */
export interface Guard {
  /**
   * Asks whether an action violates a rule, within the deadline; `signal` cancels. MUST NOT reject or throw: a failure is an
   * answer too.
   */
  judge(question: GuardQuestion, signal: AbortSignal): Promise<GuardAnswer>;
}

/** Log of a guard, such as a pino logger. */
export interface GuardLog {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
}

/** Parts and settings of a guard. */
export interface GuardOptions {
  /** Base address of an OpenAI-compatible service, ending in `/v1`; null: every answer is `not_configured`. */
  readonly url: string | null;
  /** Name of the model at the service; null: every answer is `not_configured`. */
  readonly model: string | null;
  /** Bearer token, kept out of everything but the request; null: none is sent. */
  readonly key: Endpoint["key"];
  /** Milliseconds for one answer, including the wait for a permit. */
  readonly deadlineMs: number;
  readonly metrics: Registry;
  readonly log: GuardLog;
  /** Monotonic milliseconds. Default: the process's. */
  readonly now?: () => number;
  readonly breaker?: BreakerOptions;
  readonly semaphore?: SemaphoreOptions;
}

/** Sixteen at once is one batch of a small model server; four times as many can wait within the deadline. */
const DEFAULT_SEMAPHORE: SemaphoreOptions = { permits: 16, maxWaiting: 64 };
/** Seconds: from a small model nearby up to the longest deadline. */
const BUCKETS_SECONDS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60];
const BREAKER_STATES: readonly BreakerState[] = ["closed", "half_open", "open"];
const ABSENT: Model = { ask: async () => notAsked("not_configured", "no model is configured") };

/** Details to log about an attempt; undefined unless the model or this program is at fault. */
function logDetails({ result, isAsked }: Attempt): { readonly cause: string; readonly detail: string } | undefined {
  if (result.kind === "verdict" || result.cause === "cancelled") return undefined;
  const { cause, detail } = result;
  return isAsked || cause === "internal" ? { cause, detail } : undefined;
}

const errorName = (error: unknown): string => (error instanceof Error ? error.name : typeof error);

/** Creates a guard. Logs and metrics contain nothing of actions, rules, answers or the key. */
export function createGuard(options: GuardOptions): Guard {
  const { url, model: name, key, deadlineMs, log, now = () => performance.now() } = options;
  const breaker = new CircuitBreaker(options.breaker ?? DEFAULT_BREAKER, now, (state) => {
    if (state === "open") log.warn({}, "the guard's model fails and is left alone for a while");
    else log.info({}, "the guard's model works again");
  });
  const semaphore = new Semaphore(options.semaphore ?? DEFAULT_SEMAPHORE);
  const model =
    url === null || name === null
      ? ABSENT
      : createModel({ endpoint: { url, key }, name, deadlineMs, breaker, semaphore });
  const count = createCounting(options.metrics, () => breaker.state);

  return {
    async judge(question, signal) {
      const startedAt = now();
      // Callers treat an answer as a finding, but an error as a failure of the whole call.
      const attempt = await model.ask(question, signal).catch((error) => notAsked("internal", errorName(error)));
      const latencyMs = Math.round(now() - startedAt);
      const { result, isAsked } = attempt;
      const details = logDetails(attempt);
      if (details !== undefined) log.warn({ ...details, latency_ms: latencyMs }, "the guard has no verdict");
      const answer: GuardAnswer =
        result.kind === "verdict" ? { ...result, latencyMs } : { kind: "unavailable", cause: result.cause, latencyMs };
      count(answer, isAsked);
      return answer;
    },
  };
}

/** Registers the metrics of a guard and returns the function that counts an answer. */
function createCounting(registry: Registry, breakerState: () => BreakerState) {
  const registers = [registry];
  const verdicts = new Counter({
    name: "acp_guard_verdicts_total",
    help: "Verdicts of the guard's model, by whether they found a violation.",
    labelNames: ["violates"],
    registers,
  });
  const unavailable = new Counter({
    name: "acp_guard_unavailable_total",
    help: "Questions to the guard's model that got no verdict, by cause.",
    labelNames: ["cause"],
    registers,
  });
  const seconds = new Histogram({
    name: "acp_guard_seconds",
    help: "Seconds from the question to its end, of questions that the guard's model was asked.",
    buckets: BUCKETS_SECONDS,
    registers,
  });
  new Gauge({
    name: "acp_guard_breaker_state",
    help: "1 for the state that the guard's circuit breaker is in, 0 for the others.",
    labelNames: ["state"],
    registers,
    collect() {
      for (const state of BREAKER_STATES) this.set({ state }, breakerState() === state ? 1 : 0);
    },
  });
  return (answer: GuardAnswer, isAsked: boolean): void => {
    if (answer.kind === "verdict") verdicts.inc({ violates: String(answer.violates) });
    else unavailable.inc({ cause: answer.cause });
    if (isAsked) seconds.observe(answer.latencyMs / 1_000);
  };
}
