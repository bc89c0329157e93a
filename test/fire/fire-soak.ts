import { startBenchPostgres } from "../bench/postgres.ts";
import { runSoak } from "./soak.ts";

const SIZE = { callers: 32, partMs: 60_000 };
/** Share of the early rate that the late one keeps. */
const MIN_RATE = 0.8;
/** MiB by which the service may grow after the third minute. */
const MAX_GROWTH = 50;

/** Runs ten minutes at full rate. Resolves with whether rate and memory stayed within their bounds. */
export async function fireSoak(): Promise<boolean> {
  await using cleanup = new AsyncDisposableStack();
  const { decisions, early, late, rssEarly, rssLate } = await runSoak(await startBenchPostgres(cleanup), SIZE);
  console.log(`soak, ${SIZE.callers} callers over REST: ${decisions} decisions`);
  console.log(`minutes 3-4   median ${Math.round(early)} a second`);
  console.log(
    `minutes 9-10  median ${Math.round(late)} a second: ${(late / early).toFixed(2)} x, at least ${MIN_RATE}`,
  );
  const growth = rssLate - rssEarly;
  console.log(
    `memory        ${Math.round(rssEarly)} MiB after minute 3, ${Math.round(rssLate)} at the end: ${growth.toFixed(0)} more, at most ${MAX_GROWTH}`,
  );
  return late / early >= MIN_RATE && growth <= MAX_GROWTH;
}
