import { startOfDay, type Zone } from "../../kit/zone.ts";
import type { FeedFilter } from "./feed-filter.ts";

const DAY_MS = 86_400_000;
/** Longest window that the service counts. */
const MAX_WINDOW_MS = 366 * DAY_MS;
const MAX_BARS = 50;
/** Lengths of a bar, seconds. */
const LENGTHS = [1, 2, 5, 10, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_678_400];

/** Window of time that a histogram counts. */
export interface CountedWindow {
  /** Epoch milliseconds, inclusive. */
  readonly sinceMs: number;
  /** Epoch milliseconds, exclusive. */
  readonly untilMs: number;
  readonly bucketSeconds: number;
  /** Name of the window, as in `last 24 hours`. */
  readonly title: string;
}

/**
 * Returns the window of a filter: without a beginning, the last 24 hours before its end; at most 366 days. A window without an end goes
 * to the end of the running bar, so that bars begin at full minutes or hours and stay in their place.
 */
export function countedWindow(
  { since, until }: Pick<FeedFilter, "since" | "until">,
  nowMs: number,
  zone: Zone,
): CountedWindow {
  const [from, end] = [Date.parse(since), Date.parse(until)];
  const hasEnd = !Number.isNaN(end);
  const lastMs = hasEnd ? end : nowMs;
  const hasStart = !Number.isNaN(from) && from < lastMs;
  const spanMs = Math.min(MAX_WINDOW_MS, hasStart ? lastMs - from : DAY_MS);
  const bucketSeconds = LENGTHS.find((length) => spanMs <= length * 1_000 * MAX_BARS) ?? (LENGTHS.at(-1) as number);
  const bucketMs = bucketSeconds * 1_000;
  const originMs = hasStart ? from : startOfDay(nowMs, zone);
  const untilMs = hasEnd ? end : originMs + (Math.floor((nowMs - originMs) / bucketMs) + 1) * bucketMs;
  const isCut = hasStart && untilMs - from > MAX_WINDOW_MS;
  const sinceMs = hasStart && !isCut ? from : untilMs - Math.floor(spanMs / bucketMs) * bucketMs;
  return { sinceMs, untilMs, bucketSeconds, title: titleOf(hasStart, hasEnd, isCut) };
}

function titleOf(hasStart: boolean, hasEnd: boolean, isCut: boolean): string {
  if (isCut) return "last 366 days of this time";
  if (hasStart) return "in this time";
  return hasEnd ? "24 hours before the end" : "last 24 hours";
}
