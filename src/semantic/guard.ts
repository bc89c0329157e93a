import { Counter, Histogram, type Registry } from "prom-client";
import { type Attempt, type Model, type ModelLog, notAsked } from "./model.ts";
import { bodyFrom, type GuardQuestion } from "./question.ts";
import { type GuardAnswer, type ModelVerdict, verdictFrom } from "./verdict.ts";

/** Asks a model about actions. */
export interface Guard {
  /**
   * Asks whether an action violates a rule, within the deadline; `signal` cancels. MUST NOT reject or throw: a failure is an
   * answer too.
   */
  judge(question: GuardQuestion, signal: AbortSignal): Promise<GuardAnswer>;
}

/** Parts of a guard. */
export interface GuardOptions {
  readonly model: Model;
  readonly metrics: Registry;
  readonly log: ModelLog;
  /** Monotonic milliseconds. Default: the process's. */
  readonly now?: () => number;
}

/** Seconds: from a small model nearby up to the longest deadline. */
const BUCKETS_SECONDS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60];

/** Details to log about an attempt; undefined unless the model or this program is at fault. */
function logDetails({
  result,
  isAsked,
}: Attempt<ModelVerdict>): { readonly cause: string; readonly detail: string } | undefined {
  if (result.kind === "verdict" || result.cause === "cancelled") return undefined;
  const { cause, detail } = result;
  return isAsked || cause === "internal" ? { cause, detail } : undefined;
}

const errorName = (error: unknown): string => (error instanceof Error ? error.name : typeof error);

/** Creates a guard. Logs and metrics contain nothing of actions, rules, answers or the key. */
export function createGuard({ model, metrics, log, now = () => performance.now() }: GuardOptions): Guard {
  const count = createCounting(metrics);
  return {
    async judge(question, signal) {
      const startedAt = now();
      const inquiry = {
        holder: question.holder,
        bodyFor: (name: string) => bodyFrom(name, question),
        read: verdictFrom,
        timeoutMs: question.timeoutMs,
        trace: question.trace,
      };
      // Callers treat an answer as a finding, but an error as a failure of the whole call.
      const attempt: Attempt<ModelVerdict> = await model
        .ask(inquiry, signal)
        .catch((error) => notAsked("internal", errorName(error)));
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
function createCounting(registry: Registry) {
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
  return (answer: GuardAnswer, isAsked: boolean): void => {
    if (answer.kind === "verdict") verdicts.inc({ violates: String(answer.violates) });
    else unavailable.inc({ cause: answer.cause });
    if (isAsked) seconds.observe(answer.latencyMs / 1_000);
  };
}
