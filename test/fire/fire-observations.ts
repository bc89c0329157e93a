import { MAX_SESSION_DIGESTS } from "../../src/provenance/session-values.ts";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { fillSessions } from "./full-sessions.ts";
import { runHistories } from "./session-histories.ts";

const HISTORIES = { processes: 4, histories: 2_000, lanes: 32, killEveryMs: 3_000 };
const SESSIONS = 1_000;
const MIB = 1_048_576;
const MOST_STORED_MIB = 500;
/** Bound of the cache of one workspace. */
const MOST_CACHED_MIB = 64;

/** Lives sessions on processes that are killed, then fills sessions. Resolves with whether decisions, disk and memory are as promised. */
export async function fireObservations(): Promise<boolean> {
  await using cleanup = new AsyncDisposableStack();
  const { kills, decisions, escalated, faults } = await runHistories(await startOwnPostgres(cleanup), HISTORIES);
  for (const fault of faults.slice(0, 20)) console.log(fault);
  const { histories, processes } = HISTORIES;
  console.log(
    `${histories} sessions on ${processes} processes, ${kills} kills: ${decisions} decisions, ${escalated} escalated`,
  );
  console.log(`decisions on which plain sets differ: ${faults.length}`);
  const { storedBytes, cachedBytes, fewestValues, seconds } = await fillSessions(SESSIONS);
  const [stored, cached] = [storedBytes / MIB, cachedBytes / MIB];
  console.log(`${SESSIONS} sessions of ${fewestValues} values, filled in ${Math.round(seconds)} s`);
  console.log(`on disk    ${stored.toFixed(1)} MiB (at most ${MOST_STORED_MIB})`);
  console.log(`in memory  ${cached.toFixed(1)} MiB (at most ${MOST_CACHED_MIB})`);
  const isFull = fewestValues >= MAX_SESSION_DIGESTS;
  return faults.length === 0 && isFull && stored <= MOST_STORED_MIB && cached <= MOST_CACHED_MIB;
}
