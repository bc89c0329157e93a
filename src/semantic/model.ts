import { Gauge, type Registry } from "prom-client";
import type { Holder } from "../async/shared-pot.ts";
import { Slots, type SlotsOptions } from "../async/slots.ts";
import { overShare } from "../errors.ts";
import type { TracePlace } from "../tracing/trace-context.ts";
import type { Tracing } from "../tracing/tracing.ts";
import {
  type BreakerOptions,
  type BreakerState,
  type CallResult,
  CircuitBreaker,
  DEFAULT_BREAKER,
} from "./circuit-breaker.ts";
import { fault, type ModelFault, type UnavailableCause } from "./fault.ts";
import { type Endpoint, postQuestion } from "./post-question.ts";

/** An answer of a model, as its reply was read. */
interface Answer {
  readonly kind: string;
}

/** One request to a model, and how its reply is read. */
export interface Inquiry<T extends Answer> {
  /** Workspace and agent that ask. */
  readonly holder: Holder;
  /** Builds the body of the request to the model of this name; undefined for one that is too large to ask. */
  bodyFor(model: string): string | undefined;
  /** Reads the reply. */
  read(reply: string, model: string): T | ModelFault;
  /** Milliseconds for the answer; only shortens the model's own deadline. */
  readonly timeoutMs?: number | undefined;
  /** True for an answer that takes longer than most, so that a timeout says nothing about the endpoint. Default false. */
  readonly isLong?: boolean;
  /** Place in the trace of what is asked about. Default: it belongs to no trace. */
  readonly trace?: TracePlace | undefined;
}

/** One attempt to get an answer. */
export interface Attempt<T extends Answer> {
  readonly result: T | ModelFault;
  /** True if the request was sent to the model. */
  readonly isAsked: boolean;
}

/** A model behind an OpenAI-compatible service, shared by all that ask it. */
export interface Model {
  /** False if none is configured: every result is `not_configured`. */
  readonly isConfigured: boolean;
  /** Asks once, if the circuit breaker allows it and the workspace and agent have room. */
  ask<T extends Answer>(inquiry: Inquiry<T>, signal: AbortSignal): Promise<Attempt<T>>;
}

/** Log of a model, such as a pino logger. */
export interface ModelLog {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
}

/** Parts and settings of a model. */
export interface ModelOptions {
  /** Base address of the service, ending in `/v1`; null: no model. */
  readonly url: string | null;
  /** Name of the model at the service; null: no model. */
  readonly name: string | null;
  /** Bearer token, kept out of everything but the request; null: none is sent. */
  readonly key: Endpoint["key"];
  /** Milliseconds for one answer, including the wait for a slot. */
  readonly deadlineMs: number;
  readonly metrics: Registry;
  readonly log: ModelLog;
  /** Monotonic milliseconds. Default: the process's. */
  readonly now?: () => number;
  readonly breaker?: BreakerOptions;
  readonly slots?: Pick<SlotsOptions, "permits" | "size">;
  /** Records every request as a span. Default: nothing is recorded. */
  readonly tracing?: Tracing | undefined;
}

/**
 * Of one workspace alone, half: sixteen at once are one batch of a small model server, and four times as many can wait within the
 * deadline.
 */
const DEFAULT_SLOTS = { permits: 32, size: 160 };
const BREAKER_STATES: readonly BreakerState[] = ["closed", "half_open", "open"];

/** Faults of the endpoint. The others concern one question, which must not be able to open the breaker for all. */
const FAILURES: ReadonlySet<UnavailableCause> = new Set(["timed_out", "unreachable", "rate_limited", "server_error"]);

/** Creates the attempt for a request that was not sent. */
export const notAsked = (cause: UnavailableCause, detail: string): Attempt<never> => ({
  result: fault(cause, detail),
  isAsked: false,
});

const CIRCUIT_OPEN = notAsked("circuit_open", "the model failed too often lately");
const ABSENT: Model = { isConfigured: false, ask: async () => notAsked("not_configured", "no model is configured") };

/**
 * Classifies an attempt for the circuit breaker. `saysLittle`: the answer had less time than it may take, so that a timeout
 * says nothing about the endpoint.
 */
function callResult({ result }: Attempt<Answer>, saysLittle: boolean): CallResult {
  if (!isFault(result)) return "worked";
  if (result.cause === "cancelled" || (result.cause === "timed_out" && saysLittle)) return "unknown";
  return FAILURES.has(result.cause) ? "failed" : "worked";
}

const isFault = (result: Answer | ModelFault): result is ModelFault => result.kind === "fault";

/** Creates a model. Logs and metrics contain nothing of requests, answers or the key. */
export function createModel(options: ModelOptions): Model {
  const { url, name, key, deadlineMs, log, now = () => performance.now() } = options;
  const breaker = new CircuitBreaker(options.breaker ?? DEFAULT_BREAKER, now, (state) => {
    if (state === "open") log.warn({}, "the guard's model fails and is left alone for a while");
    else log.info({}, "the guard's model works again");
  });
  showState(breaker, options.metrics);
  if (url === null || name === null) return ABSENT;
  const endpoint: Endpoint = { url, key };
  const slots = new Slots({
    ...(options.slots ?? DEFAULT_SLOTS),
    name: "model_questions",
    unit: "questions to the model",
    advice: "ask fewer at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });

  async function send<T extends Answer>(
    { read }: Inquiry<T>,
    body: string,
    { signal, endedBy }: Deadline,
    trace: TracePlace | undefined,
  ): Promise<Attempt<T>> {
    const reply = await postQuestion(endpoint, { body, signal, trace });
    if (reply.kind === "reply") return { result: read(reply.text, name as string), isAsked: true };
    const by = endedBy();
    return { result: by === undefined ? reply : fault(by, "no whole answer in time"), isAsked: true };
  }

  const { hostname, port } = new URL(url);
  const attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": name,
    "server.address": hostname,
    "server.port": port === "" ? undefined : Number(port),
  };

  async function sendTraced<T extends Answer>(
    inquiry: Inquiry<T>,
    body: string,
    deadline: Deadline,
  ): Promise<Attempt<T>> {
    const parent = inquiry.trace;
    const span = options.tracing?.start(`chat ${name}`, { kind: "client", parent, attributes });
    const attempt = await send(inquiry, body, deadline, span?.isSampled === true ? span : parent);
    span?.end(isFault(attempt.result) ? attempt.result.cause : undefined);
    return attempt;
  }

  async function sendThroughBreaker<T extends Answer>(
    inquiry: Inquiry<T>,
    body: string,
    deadline: Deadline,
  ): Promise<Attempt<T>> {
    const call = breaker.begin();
    if (call === undefined) return CIRCUIT_OPEN;
    let result: CallResult = "unknown";
    try {
      const attempt = await sendTraced(inquiry, body, deadline);
      result = callResult(attempt, inquiry.isLong === true || deadline.ms < deadlineMs);
      return attempt;
    } finally {
      call.end(result);
    }
  }

  async function sendInTurn<T extends Answer>(
    inquiry: Inquiry<T>,
    body: string,
    deadline: Deadline,
  ): Promise<Attempt<T>> {
    const release = await slots.acquireIfRoom(inquiry.holder, deadline.signal);
    if (release === undefined) {
      return notAsked(deadline.endedBy() === "cancelled" ? "cancelled" : "too_busy", "no place was free in time");
    }
    try {
      return await sendThroughBreaker(inquiry, body, deadline);
    } finally {
      release();
    }
  }

  return {
    isConfigured: true,
    async ask(inquiry, signal) {
      if (breaker.state === "open") return CIRCUIT_OPEN;
      const body = inquiry.bodyFor(name);
      if (body === undefined) return notAsked("question_too_large", "the question is too large");
      const deadline = createDeadline(Math.min(inquiry.timeoutMs ?? deadlineMs, deadlineMs), signal);
      try {
        return await sendInTurn(inquiry, body, deadline);
      } finally {
        deadline.clear();
      }
    },
  };
}

function showState(breaker: CircuitBreaker, registry: Registry): void {
  new Gauge({
    name: "acp_guard_breaker_state",
    help: "Processes whose circuit breaker of the guard is in the state.",
    labelNames: ["state"],
    registers: [registry],
    collect() {
      for (const state of BREAKER_STATES) this.set({ state }, breaker.state === state ? 1 : 0);
    },
  });
}

type EndedBy = "timed_out" | "cancelled";

/** An abort signal that knows why it aborted. */
interface Deadline {
  /** Its length in milliseconds. */
  readonly ms: number;
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
    ms,
    signal: controller.signal,
    endedBy: () => endedBy,
    clear() {
      clearTimeout(timer);
      caller.removeEventListener("abort", cancel);
    },
  };
}
