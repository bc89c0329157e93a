import { fault, type GuardFault, type GuardVerdict } from "./answer.ts";

/** A verdict as the model gave it. */
export type ModelVerdict = Omit<GuardVerdict, "latencyMs">;

type Members = Readonly<Record<string, unknown>>;

const VERDICT_KEYS = "confidence,reason,violates";
/** Characters of a reason that are kept: it is for a person, and becomes part of the log for good. */
const MAX_REASON_LENGTH = 500;
const MODEL_NAME = /^[\x21-\x7e]{1,128}$/;

const invalid = (detail: string): GuardFault => fault("invalid_answer", detail);

function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of a JSON text; undefined when it is none. */
function parsed(text: string): unknown {
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

/** The text of a completion's only message, which calls no tools. */
function contentFrom(completion: unknown): string | GuardFault {
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

// Characters that break lines or turn the writing direction would let a model forge what a person reads.
function oneLine(text: string): string {
  const line = text.toWellFormed().replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ");
  return [...line.trim()].slice(0, MAX_REASON_LENGTH).join("");
}

/** The whole text must be the verdict: one found inside of other text may be one that the action brought along. */
function judgedFrom(content: string): Omit<ModelVerdict, "kind" | "model"> | GuardFault {
  const verdict = parsed(content);
  if (!isMembers(verdict)) return invalid("the text is no JSON object");
  if (Object.keys(verdict).sort().join() !== VERDICT_KEYS) return invalid("the verdict has other members");
  const { violates, confidence, reason } = verdict;
  if (typeof violates !== "boolean") return invalid("`violates` is neither true nor false");
  if (typeof confidence !== "number" || !(confidence >= 0 && confidence <= 1)) {
    return invalid("`confidence` is no number from 0 to 1");
  }
  return typeof reason === "string"
    ? { violates, confidence, reason: oneLine(reason) }
    : invalid("`reason` is no text");
}

/** Reads a completion. Nothing is guessed, repaired or searched for: an answer of another form is none. */
export function verdictFrom(text: string, askedModel: string): ModelVerdict | GuardFault {
  const completion = parsed(text);
  const content = contentFrom(completion);
  if (typeof content !== "string") return content;
  const judged = judgedFrom(content);
  if ("kind" in judged) return judged;
  const { model } = completion as Members;
  const isNamed = typeof model === "string" && MODEL_NAME.test(model);
  return { kind: "verdict", ...judged, model: isNamed ? model : askedModel };
}
