import { JsonFault } from "../json/read-json.ts";
import { completionFrom, isMembers, readAnswer } from "./completion.ts";
import { fault, type ModelFault, type UnavailableCause } from "./fault.ts";

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

/** Missing verdict. The rule determines the consequence for the action; it never means "violates nothing". */
export interface GuardUnavailable {
  readonly kind: "unavailable";
  readonly cause: UnavailableCause;
  /** Whole milliseconds from the question to giving up. */
  readonly latencyMs: number;
}

/** Answer of a guard. */
export type GuardAnswer = GuardVerdict | GuardUnavailable;

/** A verdict as the model gave it. */
export type ModelVerdict = Omit<GuardVerdict, "latencyMs">;

const VERDICT_MEMBERS = ["confidence", "reason", "violates"];
/** Maximum characters of a reason: it is for a person, and stays in the log for good. */
const MAX_REASON_LENGTH = 500;

const invalid = (detail: string): ModelFault => fault("invalid_answer", detail);

// Line breaks and bidirectional controls would let a model forge what a person reads.
function oneLine(text: string): string {
  const line = text.toWellFormed().replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ");
  return [...line.trim()].slice(0, MAX_REASON_LENGTH).join("");
}

/** Reads a text that is a verdict as a whole: one inside other text may come from the action. */
function readVerdict(content: string): Omit<ModelVerdict, "kind" | "model"> | ModelFault {
  const verdict = readAnswer(content, { hasUniqueMembers: true });
  const isRepeated = verdict instanceof JsonFault && verdict.kind === "repeated_member";
  if (isRepeated) return invalid("the verdict names a member twice");
  if (!isMembers(verdict)) return invalid("the text is not a JSON object");
  if (Object.keys(verdict).sort().join() !== VERDICT_MEMBERS.join()) return invalid("the verdict has other members");
  const { violates, confidence, reason } = verdict;
  if (typeof violates !== "boolean") return invalid("`violates` is neither true nor false");
  if (typeof confidence !== "number" || !(confidence >= 0 && confidence <= 1)) {
    return invalid("`confidence` is not a number from 0 to 1");
  }
  if (typeof reason !== "string") return invalid("`reason` is not a string");
  return { violates, confidence, reason: oneLine(reason) };
}

/** Reads a completion. Guesses, repairs and searches for nothing. */
export function verdictFrom(text: string, askedModel: string): ModelVerdict | ModelFault {
  const completion = completionFrom(text, askedModel);
  if (completion.kind === "fault") return completion;
  const verdict = readVerdict(completion.content);
  return "kind" in verdict ? verdict : { kind: "verdict", ...verdict, model: completion.model };
}
