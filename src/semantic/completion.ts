import { type JsonBounds, JsonFault, readJsonAtOnce } from "../json/read-json.ts";
import { fault, type ModelFault } from "./fault.ts";

/** Text of a completion's only message. */
export interface Completion {
  readonly kind: "completion";
  /** Untrusted text. */
  readonly content: string;
  /** The model that answered, as the endpoint names it. */
  readonly model: string;
}

type Members = Readonly<Record<string, unknown>>;

const MODEL_NAME = /^[\x21-\x7e]{1,128}$/;

const invalid = (detail: string): ModelFault => fault("invalid_answer", detail);

/** Tests for a JSON object. */
export function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof JsonFault);
}

/** Bounds of an answer: far above a completion, far below what would take long. */
const BOUNDS: JsonBounds = { maxDepth: 32, maxValues: 4_096 };

/** Reads a JSON text of a model. Returns a `JsonFault` for text that is malformed or exceeds its bounds. */
export function readAnswer(text: string, bounds: Partial<JsonBounds> = {}): unknown {
  try {
    return readJsonAtOnce(text, { ...BOUNDS, ...bounds });
  } catch (error) {
    if (error instanceof JsonFault) return error;
    throw error;
  }
}

/** Reads the reply of a model that was asked for one message without tool calls. */
export function completionFrom(reply: string, askedModel: string): Completion | ModelFault {
  const completion = readAnswer(reply);
  if (!isMembers(completion)) return invalid("the answer is not a JSON object");
  const { choices, model } = completion;
  if (!Array.isArray(choices) || choices.length !== 1) return invalid("the answer does not have exactly one choice");
  const content = contentOf(choices[0]);
  if (typeof content !== "string") return content;
  const isNamed = typeof model === "string" && MODEL_NAME.test(model);
  return { kind: "completion", content, model: isNamed ? model : askedModel };
}

function contentOf(choice: unknown): string | ModelFault {
  if (!isMembers(choice) || !isMembers(choice.message)) return invalid("the choice has no message");
  const { message, finish_reason: finish } = choice;
  if (finish === "content_filter" || (message.refusal ?? "") !== "") return fault("refused", "the model declined");
  if (finish === "length") return invalid("the answer was cut off");
  if (callsTool(message)) return invalid("the model called a tool");
  return typeof message.content === "string" ? message.content : invalid("the message has no text");
}

function callsTool({ tool_calls: calls, function_call: call }: Members): boolean {
  const isEmpty = (calls ?? null) === null || (Array.isArray(calls) && calls.length === 0);
  return !isEmpty || (call ?? null) !== null;
}
