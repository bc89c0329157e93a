import { setFlagsFromString } from "node:v8";

/** Cores that a process must have, on average, for the helping threads of its collector to find one free. */
const CORES_FOR_HELP = 4;

/**
 * Whether the main thread of each process is to collect young garbage alone. With few cores the threads that help it take
 * them from the other processes and the database, and the main thread stands still until the last of them had its turn:
 * two workers on two cores decide 8 % more actions a second without that help, and one process as many.
 */
export const scavengesAlone = (cores: number, processes: number): boolean => cores / processes < CORES_FOR_HELP;

/** Sets who collects young garbage in this process, one of so many. MUST be called before much of it was made. */
export function setScavenger(cores: number, processes: number): void {
  if (scavengesAlone(cores, processes)) setFlagsFromString("--no-parallel-scavenge");
}
