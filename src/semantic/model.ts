import { fault, type GuardFault, type UnavailableCause } from "./answer.ts";
import type { Breaker, CallResult } from "./breaker.ts";
import { createDeadline, type Deadline } from "./deadline.ts";
import { type Endpoint, postQuestion } from "./exchange.ts";
import type { Gate } from "./gate.ts";
import { bodyFrom, type GuardQuestion } from "./question.ts";
import { type ModelVerdict, verdictFrom } from "./verdict.ts";

/** What one question came to, and whether the model was asked. */
export interface Finding {
  readonly found: ModelVerdict | GuardFault;
  readonly isAsked: boolean;
}

/** The model behind a guard. */
export interface Model {
  /** Asks once, when the breaker and the gate let it. */
  ask(question: GuardQuestion, signal: AbortSignal): Promise<Finding>;
}

/** What a model is reached by. */
export interface ModelOptions {
  readonly endpoint: Endpoint;
  /** Its name at the endpoint. */
  readonly name: string;
  readonly deadlineMs: number;
  readonly breaker: Breaker;
  readonly gate: Gate;
}

/** Faults of the endpoint as a whole. All others are about one question, with which nobody may shut out the others. */
const FAILURES: ReadonlySet<UnavailableCause> = new Set(["timed_out", "unreachable", "rate_limited", "server_error"]);

/** What came of a question that the model was not asked. */
export const unasked = (cause: UnavailableCause, detail: string): Finding => ({
  found: fault(cause, detail),
  isAsked: false,
});

const CIRCUIT_OPEN = unasked("circuit_open", "the model failed too often lately");

/** `isShort`: the question gave the model less time than a question usually has, so that its end tells nothing. */
function resultOf({ found }: Finding, isShort: boolean): CallResult {
  if (found.kind === "verdict") return "worked";
  if (found.cause === "cancelled" || (found.cause === "timed_out" && isShort)) return "unknown";
  return FAILURES.has(found.cause) ? "failed" : "worked";
}

/** Creates a model. */
export function createModel({ endpoint, name, deadlineMs, breaker, gate }: ModelOptions): Model {
  const exchange = async (body: string, { signal, endedBy }: Deadline): Promise<Finding> => {
    const reply = await postQuestion(endpoint, body, signal);
    if (reply.kind === "reply") return { found: verdictFrom(reply.text, name), isAsked: true };
    const by = endedBy();
    return { found: by === undefined ? reply : fault(by, "no whole answer in time"), isAsked: true };
  };

  const exchangeIfClosed = async (body: string, deadline: Deadline, isShort: boolean): Promise<Finding> => {
    const call = breaker.begin();
    if (call === undefined) return CIRCUIT_OPEN;
    let result: CallResult = "unknown";
    try {
      const finding = await exchange(body, deadline);
      result = resultOf(finding, isShort);
      return finding;
    } finally {
      call.end(result);
    }
  };

  const exchangeInTurn = async (body: string, deadline: Deadline, isShort: boolean): Promise<Finding> => {
    if (!(await gate.enter(deadline.signal))) {
      return unasked(deadline.endedBy() === "cancelled" ? "cancelled" : "too_busy", "no place was free in time");
    }
    try {
      return await exchangeIfClosed(body, deadline, isShort);
    } finally {
      gate.leave();
    }
  };

  return {
    async ask(question, signal) {
      if (breaker.state === "open") return CIRCUIT_OPEN;
      const body = bodyFrom(name, question);
      if (body === undefined) return unasked("question_too_large", "the question is too large");
      const ms = Math.min(question.timeoutMs ?? deadlineMs, deadlineMs);
      const deadline = createDeadline(ms, signal);
      try {
        return await exchangeInTurn(body, deadline, ms < deadlineMs);
      } finally {
        deadline.clear();
      }
    },
  };
}
