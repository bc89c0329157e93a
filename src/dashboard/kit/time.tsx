import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { useEffect, useState } from "react";

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
  if (at === undefined) return <span className="hint">never</span>;
  const ms = timestampMs(at);
  const iso = new Date(ms).toISOString();
  const ago = now - ms;
  return (
    <time dateTime={iso} title={iso}>
      {Math.abs(ago) < 1_500 ? "now" : ago > 0 ? `${durationText(ago)} ago` : `in ${durationText(-ago)}`}
    </time>
  );
}

/** Counts down to a time. */
export function Countdown({ to }: { readonly to: Timestamp }) {
  const now = useNow();
  const left = timestampMs(to) - now;
  const tone = left < 60_000 ? "is-urgent" : "";
  return (
    <span className={`countdown ${tone}`} role="timer">
      {left <= 0 ? "expired" : durationText(left)}
    </span>
  );
}
