import { isJsonRecord } from "../../verify/json.ts";

/** A checkpoint that this browser kept after it was verified. */
export interface KeptCheckpoint {
  readonly note: string;
  /** When it was kept, epoch milliseconds. */
  readonly keptAtMs: number;
}

const keyOf = (workspaceId: string): string => `acp-checkpoint ${workspaceId}`;

/** Reads the checkpoint of a workspace's log that this browser kept; undefined if it kept none. */
export function readKept(workspaceId: string): KeptCheckpoint | undefined {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(keyOf(workspaceId)) ?? "null");
    if (!isJsonRecord(value) || typeof value.note !== "string") return undefined;
    return { note: value.note, keptAtMs: Number(value.keptAtMs) || 0 };
  } catch {
    return undefined;
  }
}

/** Keeps a checkpoint, in place of the one before. It MUST have been verified, and to continue that one. */
export function keep(workspaceId: string, note: string): void {
  try {
    localStorage.setItem(keyOf(workspaceId), JSON.stringify({ note, keptAtMs: Date.now() }));
  } catch {
    // A browser that keeps nothing compares with nothing: the screen says so on every visit.
  }
}

/** Forgets what was kept. */
export const forget = (workspaceId: string): void => localStorage.removeItem(keyOf(workspaceId));
