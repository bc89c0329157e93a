import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { useEffect, useState } from "react";
import { exactText, isoText, startOfDay, useZone, zonedText } from "./zone.ts";

/** Returns the current time, renewed every `everyMs` milliseconds. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
] as const;

/** Writes a duration in its two largest units: `2 h 5 min`. */
export function durationText(ms: number): string {
  const parts: string[] = [];
  let rest = Math.max(0, ms);
  for (const [length, unit] of UNITS) {
    const count = Math.floor(rest / length);
    if (count > 0 || (parts.length === 0 && unit === "s")) parts.push(`${count} ${unit}`);
    rest -= count * length;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** Shows how long ago something happened, with the exact time as its title. */
export function Time({ at }: { readonly at: Timestamp | undefined }) {
  const now = useNow(10_000);
  const [zone] = useZone();
  if (at === undefined) return <span className="hint">never</span>;
  const ms = timestampMs(at);
  const ago = now - ms;
  return (
    <time dateTime={isoText(ms, "utc")} title={isoText(ms, zone)}>
      {Math.abs(ago) < 1_500 ? "now" : ago > 0 ? `${durationText(ago)} ago` : `in ${durationText(-ago)}`}
    </time>
  );
}

/** Shows when something happened: date and time with their zone, and how long ago that is. */
export function ExactTime({ at }: { readonly at: Timestamp }) {
  const [zone] = useZone();
  return (
    <>
      <span className="exact-time">{exactText(timestampMs(at), zone)}</span> <span aria-hidden>·</span> <Time at={at} />
    </>
  );
}

const CLOCK: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const DAY: Intl.DateTimeFormatOptions = { day: "numeric", month: "short", year: "numeric" };

/** Shows the time of day, to the full second that is not earlier, with its day if that is another one than today. */
export function ClockTime({ atMs }: { readonly atMs: number }) {
  const [zone] = useZone();
  const ms = Math.ceil(atMs / 1_000) * 1_000;
  const isToday = startOfDay(ms, zone) === startOfDay(Date.now(), zone);
  return (
    <time dateTime={isoText(atMs, "utc")} title={isoText(atMs, zone)}>
      {zonedText(ms, zone, isToday ? CLOCK : { ...DAY, ...CLOCK })}
    </time>
  );
}

/** Milliseconds below which a time is urgent, and below which it is near. */
const [URGENT_MS, SOON_MS] = [60_000, 900_000];

/** Counts down to a time. */
export function Countdown({ to }: { readonly to: Timestamp }) {
  const now = useNow();
  const left = timestampMs(to) - now;
  const tone = left < URGENT_MS ? "is-urgent" : left < SOON_MS ? "is-soon" : "";
  return (
    <span className={`countdown ${tone}`} role="timer">
      {left <= 0 ? "expired" : durationText(left)}
    </span>
  );
}
