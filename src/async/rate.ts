/** Bounds of a token bucket. */
export interface Rate {
  readonly perSecond: number;
  /** Calls that may come at once after a pause. */
  readonly burst: number;
}

const FORM = /^(\d{1,6}(?:\.\d{1,3})?)(?::(\d{1,7}))?$/;

/**
 * Reads calls per second, with the calls that may come at once behind a colon. Default burst: a second's calls. Undefined for any other
 * text, which `RATE_FORM` says how to mend.
 */
export function rateFrom(text: string): Rate | undefined {
  const [, rate = "", burst] = FORM.exec(text) ?? [];
  const perSecond = Number(rate);
  const most = burst === undefined ? Math.max(1, Math.ceil(perSecond)) : Number(burst);
  return perSecond > 0 && most > 0 ? { perSecond, burst: most } : undefined;
}

/** Form of a rate, for messages. */
export const RATE_FORM = "must be calls per second, such as `100`, or `100:500` for 500 at once";
