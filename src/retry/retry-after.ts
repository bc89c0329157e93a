/** A reason of a refusal, as far as it tells when the action may be tried again. */
export interface TimedReason {
  /** Decision of the rule if it is weaker than the decision that was made; `allow` refuses nothing. */
  readonly decision?: string | null | undefined;
  /** Time from which the limit of the rule has room again, epoch milliseconds. */
  readonly resetsAtMs?: number | undefined;
}

/**
 * Returns the time from which limits no longer refuse an action if nothing else happens, epoch milliseconds: the latest of its reasons.
 * Undefined unless each reason that refuses has a time, because the others would refuse it again.
 */
export function retryAfterMs(reasons: readonly TimedReason[]): number | undefined {
  const times: number[] = [];
  for (const { decision, resetsAtMs } of reasons) {
    if (decision === "allow") continue;
    if (resetsAtMs === undefined) return undefined;
    times.push(resetsAtMs);
  }
  return times.length === 0 ? undefined : Math.max(...times);
}

/** Tells a language model when it may try a refused action again: `You may try it again after 14:05:10 UTC.` */
export function retryText(retryAtMs: number, nowMs: number): string {
  return `You may try it again after ${momentText(retryAtMs, nowMs)}.`;
}

/** Writes a time up to the next full second, with its day if that is another one than today's: `14:05:10 UTC`. */
export function momentText(atMs: number, nowMs: number): string {
  const [day = "", time = ""] = new Date(Math.ceil(atMs / 1000) * 1000).toISOString().split("T");
  const shown = `${time.slice(0, "hh:mm:ss".length)} UTC`;
  return new Date(nowMs).toISOString().startsWith(day) ? shown : `${day} ${shown}`;
}
