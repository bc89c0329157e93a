import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Throws MALFORMED_JSON for JSON that no record can hold (RFC 7493): half of a surrogate pair, or a number beyond all numbers. */
export function assertRecordable(value: unknown): void {
  if (isRecordable(value)) return;
  const text = "the body holds half of a surrogate pair, or a number that is too great";
  throw new ControlPlaneError(ErrorReason.MALFORMED_JSON, text);
}

function isRecordable(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  if (Array.isArray(value)) return value.every(isRecordable);
  return Object.entries(value).every(([name, each]) => name.isWellFormed() && isRecordable(each));
}
