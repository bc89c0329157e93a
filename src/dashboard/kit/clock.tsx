import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";

const two = (n: number): string => String(n).padStart(2, "0");
const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", year: "numeric" });

/** Shows the time of day to the millisecond, with the day unless it is today. */
export function Clock({ at }: { readonly at: Timestamp | undefined }) {
  if (at === undefined) return null;
  const time = new Date(timestampMs(at));
  const clock = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  const isToday = time.toDateString() === new Date().toDateString();
  return (
    <time className="clock" dateTime={time.toISOString()} title={time.toISOString()}>
      {isToday ? null : <span className="clock-day">{DAY.format(time)} </span>}
      {clock}
      <span className="clock-ms">.{String(time.getMilliseconds()).padStart(3, "0")}</span>
    </time>
  );
}
