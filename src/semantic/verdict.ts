/** Causes of a missing verdict: a fixed list, safe for receipts, metrics and the log. */
export const UNAVAILABLE_CAUSES = [
  /** No model is configured. */
  "not_configured",
  /** The action is too long to ask about; a cut one would let its end pass unread. */
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

/** A model's opinion of an action. */
export interface GuardVerdict {
  readonly kind: "verdict";
  /** True if the action violates the rule. */
  readonly violates: boolean;
  /** The model's own confidence, from 0 to 1. */
  readonly confidence: number;
  /** One line of the model's own words, at most 500 characters, may be empty. Untrusted text. */
  readonly reason: string;
  /** The model that answered, as the endpoint names it. */
  readonly model: string;
  /** Whole milliseconds from the question to the verdict. */
  readonly latencyMs: number;
}

/** No verdict. The rule says what that means for the action; it never means "violates nothing". */
export interface GuardUnavailable {
  readonly kind: "unavailable";
  readonly cause: UnavailableCause;
  /** Whole milliseconds from the question to giving up. */
  readonly latencyMs: number;
}

/** Answer of a guard. */
export type GuardAnswer = GuardVerdict | GuardUnavailable;

/** Reason why one attempt gave no verdict, for the operator of the model. */
export interface GuardFault {
  readonly kind: "fault";
  readonly cause: UnavailableCause;
  /** A fixed text that quotes neither question, answer nor key. */
  readonly detail: string;
}

/** Creates a fault. */
export const fault = (cause: UnavailableCause, detail: string): GuardFault => ({ kind: "fault", cause, detail });

/** A verdict as the model gave it. */
export type ModelVerdict = Omit<GuardVerdict, "latencyMs">;

type Members = Readonly<Record<string, unknown>>;

const VERDICT_MEMBERS = ["confidence", "reason", "violates"];
const STRING_LITERAL = /"[^"\\]*(?:\\.[^"\\]*)*"/g;
/** Maximum characters of a reason: it is for a person, and stays in the log for good. */
const MAX_REASON_LENGTH = 500;
const MODEL_NAME = /^[\x21-\x7e]{1,128}$/;

const invalid = (detail: string): GuardFault => fault("invalid_answer", detail);

function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses a JSON text; undefined if it is malformed. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function callsTool({ tool_calls: calls, function_call: call }: Members): boolean {
  const isEmpty = (calls ?? null) === null || (Array.isArray(calls) && calls.length === 0);
  return !isEmpty || (call ?? null) !== null;
}

/** Text of a completion's only message, which must not call tools. */
function readContent(completion: unknown): string | GuardFault {
  if (!isMembers(completion)) return invalid("the answer is no JSON object");
  const { choices } = completion;
  if (!Array.isArray(choices) || choices.length !== 1) return invalid("the answer has not exactly one choice");
  const [choice] = choices as unknown[];
  if (!isMembers(choice) || !isMembers(choice.message)) return invalid("the choice has no message");
  const { message, finish_reason: finish } = choice;
  if (finish === "content_filter" || (message.refusal ?? "") !== "") return fault("refused", "the model declined");
  if (finish === "length") return invalid("the answer was cut off");
  if (callsTool(message)) return invalid("the model called a tool");
  return typeof message.content === "string" ? message.content : invalid("the message has no text");
}

// Line breaks and bidirectional controls would let a model forge what a person reads.
function oneLine(text: string): string {
  const line = text.toWellFormed().replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ");
  return [...line.trim()].slice(0, MAX_REASON_LENGTH).join("");
}

/** Counts the members of a flat JSON object, duplicates included, which `JSON.parse` drops. */
function countMembers(flatObject: string): number {
  return flatObject.replace(STRING_LITERAL, "").split(":").length - 1;
}

/** Reads a text that is a verdict as a whole: one inside other text may come from the action. */
function readVerdict(content: string): Omit<ModelVerdict, "kind" | "model"> | GuardFault {
  const verdict = parseJson(content);
  if (!isMembers(verdict)) return invalid("the text is no JSON object");
  if (Object.keys(verdict).sort().join() !== VERDICT_MEMBERS.join()) return invalid("the verdict has other members");
  const { violates, confidence, reason } = verdict;
  if (typeof violates !== "boolean") return invalid("`violates` is neither true nor false");
  if (typeof confidence !== "number" || !(confidence >= 0 && confidence <= 1)) {
    return invalid("`confidence` is no number from 0 to 1");
  }
  if (typeof reason !== "string") return invalid("`reason` is no text");
  if (countMembers(content) !== VERDICT_MEMBERS.length) return invalid("the verdict names a member twice");
  return { violates, confidence, reason: oneLine(reason) };
}

/** Reads a completion. Guesses, repairs and searches for nothing. */
export function verdictFrom(text: string, askedModel: string): ModelVerdict | GuardFault {
  const completion = parseJson(text);
  const content = readContent(completion);
  if (typeof content !== "string") return content;
  const verdict = readVerdict(content);
  if ("kind" in verdict) return verdict;
  const { model } = completion as Members;
  const isNamed = typeof model === "string" && MODEL_NAME.test(model);
  return { kind: "verdict", ...verdict, model: isNamed ? model : askedModel };
}
