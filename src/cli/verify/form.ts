import type { JsonMembers } from "./canonical-text.ts";
import { VerificationError } from "./verification-error.ts";

/** Reads standard base64, strictly: undefined for any other text, or another number of bytes than `length`. */
export function bytesFromBase64(text: unknown, length?: number): Buffer | undefined {
  if (typeof text !== "string") return undefined;
  const bytes = Buffer.from(text, "base64");
  if (bytes.toString("base64") !== text) return undefined;
  return length === undefined || bytes.length === length ? bytes : undefined;
}

/** Reads a whole number from 0 on, as a JSON number or, as int64 may be written, as digits. */
export function indexFrom(value: unknown): number | undefined {
  const number = typeof value === "string" && /^\d{1,16}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

/** Reads a list of SHA-256 hashes. */
export function hashesFrom(value: unknown): readonly Buffer[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const hashes = value.flatMap((each) => bytesFromBase64(each, 32) ?? []);
  return hashes.length === value.length ? hashes : undefined;
}

/** Whether a value is a JSON object. */
export function isMembers(value: unknown): value is JsonMembers {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A member of something that was read, or the refusal of it. */
export function required<T>(value: T | undefined, where: string, what: string): T {
  if (value !== undefined) return value;
  throw new VerificationError("malformed", `${where} has no ${what}`);
}

/** A text, or undefined. */
export const textFrom = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
