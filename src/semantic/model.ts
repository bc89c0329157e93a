import type { Semaphore } from "../async/semaphore.ts";
import type { CallResult, CircuitBreaker } from "./circuit-breaker.ts";
import { type Endpoint, postQuestion } from "./post-question.ts";
import { bodyFrom, type GuardQuestion } from "./question.ts";
import { fault, type GuardFault, type ModelVerdict, type UnavailableCause, verdictFrom } from "./verdict.ts";

/** One attempt to get a verdict. */
export interface Attempt {
  readonly result: ModelVerdict | GuardFault;
  /** True if the question was sent to the model. */
  readonly isAsked: boolean;
}

/** The model behind a guard. */
export interface Model {
  /** Asks once, if the circuit breaker and the semaphore allow it. */
  ask(question: GuardQuestion, signal: AbortSignal): Promise<Attempt>;
}

/** Parts of a model. */
export interface ModelOptions {
  readonly endpoint: Endpoint;
  /** Name of the model at the endpoint. */
  readonly name: string;
  readonly deadlineMs: number;
  readonly breaker: CircuitBreaker;
  readonly semaphore: Semaphore;
}

/** Faults of the endpoint. The others concern one question, which must not be able to open the breaker for all. */
const FAILURES: ReadonlySet<UnavailableCause> = new Set(["timed_out", "unreachable", "rate_limited", "server_error"]);

/** The attempt for a question that was not sent. */
export const notAsked = (cause: UnavailableCause, detail: string): Attempt => ({
  result: fault(cause, detail),
  isAsked: false,
});

const CIRCUIT_OPEN = notAsked("circuit_open", "the model failed too often lately");

/** `isShortened`: the question allowed less time than usual, so that a timeout says nothing about the endpoint. */
function callResult({ result }: Attempt, isShortened: boolean): CallResult {
  if (result.kind === "verdict") return "worked";
  if (result.cause === "cancelled" || (result.cause === "timed_out" && isShortened)) return "unknown";
  return FAILURES.has(result.cause) ? "failed" : "worked";
}

/** Creates a model. */
export function createModel({ endpoint, name, deadlineMs, breaker, semaphore }: ModelOptions): Model {
  const send = async (body: string, { signal, endedBy }: Deadline): Promise<Attempt> => {
    const reply = await postQuestion(endpoint, body, signal);
    if (reply.kind === "reply") return { result: verdictFrom(reply.text, name), isAsked: true };
    const by = endedBy();
    return { result: by === undefined ? reply : fault(by, "no whole answer in time"), isAsked: true };
  };

  const sendThroughBreaker = async (body: string, deadline: Deadline, isShortened: boolean): Promise<Attempt> => {
    const call = breaker.begin();
    if (call === undefined) return CIRCUIT_OPEN;
    let result: CallResult = "unknown";
    try {
      const attempt = await send(body, deadline);
      result = callResult(attempt, isShortened);
      return attempt;
    } finally {
      call.end(result);
    }
  };

  const sendInTurn = async (body: string, deadline: Deadline, isShortened: boolean): Promise<Attempt> => {
    const release = await semaphore.acquire({ signal: deadline.signal });
    if (release === undefined) {
      return notAsked(deadline.endedBy() === "cancelled" ? "cancelled" : "too_busy", "no place was free in time");
    }
    try {
      return await sendThroughBreaker(body, deadline, isShortened);
    } finally {
      release();
    }
  };

  return {
    async ask(question, signal) {
      if (breaker.state === "open") return CIRCUIT_OPEN;
      const body = bodyFrom(name, question);
      if (body === undefined) return notAsked("question_too_large", "the question is too large");
      const ms = Math.min(question.timeoutMs ?? deadlineMs, deadlineMs);
      const deadline = createDeadline(ms, signal);
      try {
        return await sendInTurn(body, deadline, ms < deadlineMs);
      } finally {
        deadline.clear();
      }
    },
  };
}

type EndedBy = "timed_out" | "cancelled";

/** An abort signal that knows why it aborted. */
interface Deadline {
  readonly signal: AbortSignal;
  /** Undefined until the signal aborts. */
  endedBy(): EndedBy | undefined;
  /** Stops the timer and the listening to the caller's signal. MUST be called. */
  clear(): void;
}

/** Creates a deadline that the caller's signal brings forward. */
function createDeadline(ms: number, caller: AbortSignal): Deadline {
  const controller = new AbortController();
  let endedBy: EndedBy | undefined;
  const end = (by: EndedBy) => (): void => {
    endedBy ??= by;
    controller.abort();
  };
  const cancel = end("cancelled");
  const timer = setTimeout(end("timed_out"), ms);
  // Not `AbortSignal.any`: a stream's signal outlives thousands of questions and would keep something of each.
  caller.addEventListener("abort", cancel, { once: true });
  if (caller.aborted) cancel();
  return {
    signal: controller.signal,
    endedBy: () => endedBy,
    clear() {
      clearTimeout(timer);
      caller.removeEventListener("abort", cancel);
    },
  };
}
