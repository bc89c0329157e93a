import { invalidField } from "../errors.ts";

const EACH_CALL = "each_call";
const SECONDS = /^\d{1,5}$/;
const MAX_SECONDS = 86_400;
/** Seconds of a server in mode `open` whose registration names no others. */
const OPEN_SECONDS = 5;

/**
 * Reads the maximum age of a server's listing: `each_call`, which is 0, or seconds. An empty text stands for the default of the
 * mode, which is null. Throws INVALID_FIELD.
 */
export function driftFrom(text: string): number | null {
  if (text === "") return null;
  if (text === EACH_CALL) return 0;
  const seconds = SECONDS.test(text) ? Number(text) : Number.NaN;
  if (seconds <= MAX_SECONDS) return seconds;
  throw invalidField("drift", `must be \`${EACH_CALL}\`, or seconds from 0 to ${MAX_SECONDS}`);
}

/** Returns the seconds in force: the server's own, or the default of its mode. */
export function driftSecondsOf(own: number | null, mode: "open" | "quarantine"): number {
  return own ?? (mode === "quarantine" ? 0 : OPEN_SECONDS);
}

/** Writes seconds as `drift` of the interface. */
export const driftText = (seconds: number): string => (seconds === 0 ? EACH_CALL : String(seconds));
