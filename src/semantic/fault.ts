/** Causes of a missing answer: a fixed list, safe for receipts, metrics and the log. */
export const UNAVAILABLE_CAUSES = [
  /** No model is configured. */
  "not_configured",
  /** The question is too long; in a cut one the end would pass unread. */
  "question_too_large",
  /** The queue for a permit is full, or the deadline passed in it. */
  "too_busy",
  /** The circuit breaker is open. */
  "circuit_open",
  /** The caller gave up. */
  "cancelled",
  /** No whole answer within the deadline. */
  "timed_out",
  /** No connection, or one that broke off. */
  "unreachable",
  /** Status 429. */
  "rate_limited",
  /** Status 408 or 5xx. */
  "server_error",
  /** Any other status except 200; redirects are not followed. */
  "rejected",
  /** The model, or a filter before it, declined to answer. */
  "refused",
  /** A malformed or oversized answer. */
  "invalid_answer",
  /** A fault of this program. */
  "internal",
] as const;

/** One of `UNAVAILABLE_CAUSES`. */
export type UnavailableCause = (typeof UNAVAILABLE_CAUSES)[number];

/** Reason why one attempt gave no answer, for the operator of the model. */
export interface ModelFault {
  readonly kind: "fault";
  readonly cause: UnavailableCause;
  /** A fixed text that quotes neither question, answer nor key. */
  readonly detail: string;
}

/** Creates a fault. */
export const fault = (cause: UnavailableCause, detail: string): ModelFault => ({ kind: "fault", cause, detail });
