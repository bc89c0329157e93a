import type { Json } from "./protocol.ts";

/**
 * Parts of an answer that pass unscrubbed, because clients of the protocol break without them: words and counts that a workspace
 * may have registered as values, and vectors, in which every run of digits is chance. Anything else in these members is scrubbed.
 */

/** Members with a word of the protocol. */
const WORD_MEMBERS = new Set([
  "type",
  "object",
  "role",
  "status",
  "finish_reason",
  "reason",
  "service_tier",
  "encoding_format",
]);
/** Words of which those of the protocol are made, such as `response.output_text.delta`. */
const WORDS = new Set(
  [
    "added annotation apply approval arguments assistant audio auto base64 call calls cancelled chat chunk citation code",
    "completed completion computer container content created custom default delta detail developer done embedding end",
    "error expired failed file filter finish flex float found function generating generation image in incomplete input",
    "interpreter interpreting item json length list local max mcp message model models moderation object output part",
    "partial patch path ping priority processing progress queued reasoning refusal requires response role scale schema",
    "search searching shell standard stop stream summary system text thinking thread tier token tokens tool tools",
    "transcript turn url use user web",
  ].flatMap((line) => line.split(" ")),
);

/** True for a word of the protocol: lower-case words of the list, joined by `.` and `_`. */
export const isWord = (text: string): boolean => text.split(/[._]/).every((word) => WORDS.has(word));

/** True if the text of a member is a word of the protocol. */
export const isKeptText = (name: string, text: string): boolean => WORD_MEMBERS.has(name) && isWord(text);

/** Members that count: tokens, places in a list, events. No value that a detector finds has so few digits alone. */
const COUNTS = /^(?:index|sequence_number|(?:\w+_)?(?:index|tokens))$/;
const MAX_COUNT = 9_999_999;
/** Members with a time in seconds. */
const TIMES = /^(?:created|\w+_at)$/;
const [FIRST_TIME, LAST_TIME] = [1_000_000_000, 4_000_000_000];

/** True if the number of a member is a count or a time. */
export function isKeptNumber(name: string, number: number): boolean {
  if (!Number.isInteger(number)) return false;
  if (COUNTS.test(name)) return number >= 0 && number <= MAX_COUNT;
  return TIMES.test(name) && number >= FIRST_TIME && number <= LAST_TIME;
}

/** Bound of the numbers of a vector, most of which are below one. */
const MAX_COMPONENT = 10_000;
/** Numbers of a vector in base64 at the least: fewer could be a text by chance. */
const MIN_COMPONENTS = 64;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

const isComponent = (value: unknown): boolean =>
  Array.isArray(value) ? value.every(isComponent) : typeof value === "number" && Math.abs(value) < MAX_COMPONENT;

/** True for the value of an `embedding` that is a vector: numbers, or the base64 of floats. */
export function isVector(name: string, value: Json): boolean {
  if (name !== "embedding") return false;
  if (Array.isArray(value)) return isComponent(value);
  if (typeof value !== "string" || !BASE64.test(value)) return false;
  const bytes = Buffer.from(value, "base64");
  const count = bytes.length / Float32Array.BYTES_PER_ELEMENT;
  if (!Number.isInteger(count) || count < MIN_COMPONENTS) return false;
  return Array.from({ length: count }, (_, index) => bytes.readFloatLE(index * 4)).every(isComponent);
}
