import { setFlagsFromString } from "node:v8";

/** Cores that a process must have, on average, for the helping threads of its collector to find one free. */
const CORES_FOR_HELP = 4;
/** Percent of what lives that garbage may add to it before the whole heap is collected. */
const GROWTH_PERCENT = 200;

/**
 * Whether the main thread of each process is to collect young garbage alone. With few cores the threads that help it take
 * them from the other processes and the database, and the main thread stands still until the last of them had its turn:
 * two workers on two cores decide 8 % more actions a second without that help, and one process as many.
 */
export const scavengesAlone = (cores: number, processes: number): boolean => cores / processes < CORES_FOR_HELP;

/**
 * Sets how this process, one of so many, collects its garbage. MUST be called before much of it was made.
 *
 * Nothing of a request outlives its reply, but hundreds wait for the database at once, which V8 takes for long lives. It
 * would then make such objects among the old ones, where they keep alive what they hold: three quarters of what survived
 * one collection survived the next, and pauses took twice as long. And where collections are quick it lets a heap grow so
 * little that the young half alone brings the next one on. Both, with what batches let go of: 7 % more decisions a second.
 */
export function setCollector(cores: number, processes: number): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
  if (scavengesAlone(cores, processes)) setFlagsFromString("--no-parallel-scavenge");
}
