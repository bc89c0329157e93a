/** A time as the redaction interface writes it: ISO 8601 in UTC, to the millisecond, without a zone designator. */
export const zonelessTime = (ms: number): string => new Date(ms).toISOString().slice(0, -1);
