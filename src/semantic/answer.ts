/** Why a guard has no verdict: a fixed list of words, safe for receipts, metrics and the log. */
export const UNAVAILABLE_CAUSES = [
  /** No model is configured. */
  "not_configured",
  /** The action is longer than what a guard is asked about; cutting it would let its end pass unread. */
  "question_too_large",
  /** Too many questions wait already, or the deadline passed while this one waited. */
  "too_busy",
  /** The model failed so often lately that it is left alone. */
  "circuit_open",
  /** Whoever asked gave up. */
  "cancelled",
  /** No whole answer within the deadline. */
  "timed_out",
  /** No connection, or one that broke off. */
  "unreachable",
  /** Status 429. */
  "rate_limited",
  /** Status 408 or 5xx. */
  "server_error",
  /** Any other status that is no 200; redirects are not followed. */
  "rejected",
  /** The model, or a filter before it, declined to answer. */
  "refused",
  /** An answer of another form, or one that is too long. */
  "invalid_answer",
  /** A fault of this program. */
  "internal",
] as const;

/** One word of `UNAVAILABLE_CAUSES`. */
export type UnavailableCause = (typeof UNAVAILABLE_CAUSES)[number];

/** What the model says of an action. */
export interface GuardVerdict {
  readonly kind: "verdict";
  /** Whether the action violates the rule. */
  readonly violates: boolean;
  /** How sure the model says that it is, from 0 to 1. */
  readonly confidence: number;
  /** One line of the model's own words, at most 500 characters, maybe empty. Untrusted text. */
  readonly reason: string;
  /** The model that answered, as the endpoint names it. */
  readonly model: string;
  /** Whole milliseconds from the question to the verdict. */
  readonly latencyMs: number;
}

/** There is no verdict. What that means for the action is for the rule to say; it is never "violates nothing". */
export interface GuardUnavailable {
  readonly kind: "unavailable";
  readonly cause: UnavailableCause;
  /** Whole milliseconds from the question to giving up. */
  readonly latencyMs: number;
}

/** What comes of asking a guard. */
export type GuardAnswer = GuardVerdict | GuardUnavailable;

/** Why one exchange with the model gave nothing, for whoever looks after the model. */
export interface GuardFault {
  readonly kind: "fault";
  readonly cause: UnavailableCause;
  /** A fixed text, without anything of the question, the answer or the key. */
  readonly detail: string;
}

/** Makes a fault. */
export const fault = (cause: UnavailableCause, detail: string): GuardFault => ({ kind: "fault", cause, detail });
