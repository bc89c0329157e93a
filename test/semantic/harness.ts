import { Registry } from "prom-client";
import { Secret } from "../../src/config.ts";
import { createGuard, type Guard } from "../../src/semantic/guard.ts";
import { createModel, type Model, type ModelOptions } from "../../src/semantic/model.ts";
import type { GuardQuestion } from "../../src/semantic/question.ts";
import type { GuardAnswer } from "../../src/semantic/verdict.ts";

/** A guard with what it told its surroundings. */
export interface WatchedGuard {
  /** Asks; by default about `QUESTION`, without ever giving up. */
  judge(question?: Partial<GuardQuestion>, signal?: AbortSignal): Promise<GuardAnswer>;
  /** Everything that was logged, as JSON. */
  readonly logged: string[];
  metrics(): Promise<string>;
  readonly guard: Guard;
  readonly model: Model;
}

/** Texts that must not show anywhere but in the request. */
export const CANARIES = ["canary-key", "canary-rule", "canary-content", "canary-metadata", "canary-reason"];

/** A question with a canary in every part. */
export const QUESTION: GuardQuestion = {
  holder: { workspaceId: "default" },
  rule: "canary-rule: no secrets leave the company",
  action: {
    actionType: "mail.send",
    actionContent: "canary-content",
    tool: "send_mail",
    metadata: { arguments: { to: "canary-metadata" } },
  },
};

/** Never aborts. */
export const PATIENT = new AbortController().signal;

/** Creates a guard of a model at a URL; its deadline is long enough for any answer that comes at all. */
export function watchedGuard(url: string | null, options: Partial<ModelOptions> = {}): WatchedGuard {
  const logged: string[] = [];
  const write = (details: object, message: string): void => void logged.push(JSON.stringify({ ...details, message }));
  const metrics = new Registry();
  const log = { info: write, warn: write };
  const key = new Secret("canary-key");
  const model = createModel({ url, name: "model", key, deadlineMs: 20_000, metrics, log, ...options });
  const guard = createGuard({ model, metrics, log, ...(options.now && { now: options.now }) });
  return {
    guard,
    model,
    logged,
    metrics: () => metrics.metrics(),
    judge: (question = {}, signal = PATIENT) => guard.judge({ ...QUESTION, ...question }, signal),
  };
}

/** The cause of an answer, or `verdict`. */
export const causeOf = (answer: GuardAnswer): string => (answer.kind === "verdict" ? "verdict" : answer.cause);
