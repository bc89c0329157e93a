import { startOwnPostgres } from "../support/own-postgres.ts";
import { runManyStreams } from "./many-streams.ts";

const SIZE = { streams: 10_000, keys: 8, slowReaders: 400, decisions: 2_000 };

/** Opens 10,000 streams on one process. Resolves with whether all heard. */
export async function fireStreams(): Promise<boolean> {
  await using cleanup = new AsyncDisposableStack();
  const report = await runManyStreams(await startOwnPostgres(cleanup), SIZE);
  const { streamKib, heardMs, alone, besideSlow, slowMib, faults } = report;
  for (const fault of faults) console.log(fault);
  const times = ([p50, p99]: readonly [number, number]): string => `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`;
  console.log(`${SIZE.streams} streams of ${SIZE.keys} keys: ${streamKib.toFixed(1)} KiB each`);
  console.log(`a decision is heard by all within ${Math.round(heardMs)} ms`);
  console.log(`decisions alone                        ${times(alone)}`);
  console.log(
    `beside ${SIZE.slowReaders} streams that nobody reads  ${times(besideSlow)}; ${Math.round(slowMib)} MiB more`,
  );
  return faults.length === 0;
}
