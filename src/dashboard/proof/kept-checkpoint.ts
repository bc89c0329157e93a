import { isJsonRecord } from "../../verify/json.ts";

/** A checkpoint that this browser verified and kept. */
export interface KeptCheckpoint {
  readonly note: string;
  /** Time of keeping, epoch milliseconds. */
  readonly keptAtMs: number;
}

const keyOf = (workspaceId: string): string => `acp-checkpoint ${workspaceId}`;

/** Reads the kept checkpoint of a workspace's log. */
export function readKept(workspaceId: string): KeptCheckpoint | undefined {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(keyOf(workspaceId)) ?? "null");
    if (!isJsonRecord(value) || typeof value.note !== "string") return undefined;
    return { note: value.note, keptAtMs: Number(value.keptAtMs) || 0 };
  } catch {
    return undefined;
  }
}

/** Keeps a checkpoint in place of the previous one. It MUST be verified and extend that one. */
export function keep(workspaceId: string, note: string): void {
  try {
    localStorage.setItem(keyOf(workspaceId), JSON.stringify({ note, keptAtMs: Date.now() }));
  } catch {
    // Without storage there is nothing to compare with; the screen says so on every visit.
  }
}

/** Forgets the kept checkpoint. */
export const forget = (workspaceId: string): void => localStorage.removeItem(keyOf(workspaceId));
