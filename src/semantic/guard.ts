import type { Registry } from "prom-client";
import type { GuardAnswer } from "./answer.ts";
import { type BreakerOptions, createBreaker, DEFAULT_BREAKER } from "./breaker.ts";
import type { Endpoint } from "./exchange.ts";
import { createGate, DEFAULT_GATE, type GateOptions } from "./gate.ts";
import { createGuardMetrics } from "./metrics.ts";
import { createModel, type Finding, type Model, unasked } from "./model.ts";
import type { GuardQuestion } from "./question.ts";

/** Asks a model about actions. */
export interface Guard {
  /**
   * Asks whether an action violates a rule, within the deadline; `signal` gives up before. MUST NOT reject and MUST NOT
   * throw: whatever happens, the answer says so.
   */
  judge(question: GuardQuestion, signal: AbortSignal): Promise<GuardAnswer>;
}

/** Where a guard tells what happens to it; a pino logger is one. */
export interface GuardLog {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
}

/** What a guard is built from. */
export interface GuardOptions {
  /** Base address of an OpenAI-compatible service, ending in `/v1`; null: every answer is `not_configured`. */
  readonly url: string | null;
  /** Its name at the service; null: every answer is `not_configured`. */
  readonly model: string | null;
  /** Sent as bearer token and kept out of everything else; null: none is sent. */
  readonly key: Endpoint["key"];
  /** Milliseconds for one answer: waiting for a place, connecting, the whole body. */
  readonly deadlineMs: number;
  readonly metrics: Registry;
  readonly log: GuardLog;
  /** Monotonic milliseconds; default: the process's. */
  readonly now?: () => number;
  readonly breaker?: BreakerOptions;
  readonly gate?: GateOptions;
}

const ABSENT: Model = { ask: async () => unasked("not_configured", "no model is configured") };

/** What is logged of a finding; nothing of what was no fault of the model. */
function noteOf({ found, isAsked }: Finding): { readonly cause: string; readonly detail: string } | undefined {
  if (found.kind === "verdict" || found.cause === "cancelled") return undefined;
  const { cause, detail } = found;
  return isAsked || cause === "internal" ? { cause, detail } : undefined;
}

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : typeof error);

/** Creates a guard. What is logged and counted holds nothing of actions, rules, answers or the key. */
export function createGuard(options: GuardOptions): Guard {
  const { url, model: name, key, deadlineMs, log, now = () => performance.now() } = options;
  const breaker = createBreaker(options.breaker ?? DEFAULT_BREAKER, now, (state) => {
    if (state === "open") log.warn({}, "the guard's model fails and is left alone for a while");
    else log.info({}, "the guard's model works again");
  });
  const gate = createGate(options.gate ?? DEFAULT_GATE);
  const model =
    url === null || name === null ? ABSENT : createModel({ endpoint: { url, key }, name, deadlineMs, breaker, gate });
  const metrics = createGuardMetrics(options.metrics, () => breaker.state);

  return {
    async judge(question, signal) {
      const startedAt = now();
      // Whoever asks treats an answer as a finding, and would have to treat an error as a fault of the whole call.
      const finding = await model.ask(question, signal).catch((error) => unasked("internal", nameOf(error)));
      const latencyMs = Math.round(now() - startedAt);
      const { found, isAsked } = finding;
      const note = noteOf(finding);
      if (note !== undefined) log.warn({ ...note, latency_ms: latencyMs }, "the guard has no verdict");
      const answer: GuardAnswer =
        found.kind === "verdict" ? { ...found, latencyMs } : { kind: "unavailable", cause: found.cause, latencyMs };
      metrics.answered(answer, isAsked);
      return answer;
    },
  };
}
