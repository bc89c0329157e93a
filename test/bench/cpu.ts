import { readdirSync, readFileSync } from "node:fs";

/** Ticks a second that Linux counts processor time in, whatever the kernel's own rate. */
const TICKS = 100;

interface ProcessTimes {
  readonly parent: number;
  /** Seconds of the process itself. */
  readonly own: number;
  /** Seconds of its children that have ended. */
  readonly ended: number;
}

function timesOf(pid: number | string): ProcessTimes | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name of the program may hold spaces and brackets; what follows it does not.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const seconds = (from: number): number => (Number(fields[from]) + Number(fields[from + 1])) / TICKS;
    return { parent: Number(fields[1]), own: seconds(11), ended: seconds(13) };
  } catch {
    return undefined;
  }
}

/** Seconds of processor time that a process has used. Undefined where the system does not tell (other than Linux). */
export function cpuSeconds(pid: number): number | undefined {
  return timesOf(pid)?.own;
}

/** The same of a process with all its children. */
export function cpuSecondsWithChildren(pid: number): number | undefined {
  const root = timesOf(pid);
  if (root === undefined) return undefined;
  let seconds = root.own + root.ended;
  for (const name of readdirSync("/proc")) {
    const times = /^\d+$/.test(name) ? timesOf(name) : undefined;
    if (times?.parent === pid) seconds += times.own;
  }
  return seconds;
}

/** The parent of a process. Undefined where the system does not tell. */
export function parentOf(pid: number): number | undefined {
  return timesOf(pid)?.parent;
}

/** MiB of a process that are in memory. NaN where the system does not tell. */
export function memoryMib(pid: number): number {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return Number(kilobytes) / 1024;
  } catch {
    return Number.NaN;
  }
}
