import type { MirrorEntry, Recording } from "./mirror-store.ts";

/** The logs, as mirrors read them. */
export interface MirrorSource {
  /** The entries from an index on, oldest first; fewer than asked for only at the log's end. */
  entries(workspaceId: string, from: number, limit: number): Promise<MirrorEntry[]>;
}

/** Whether entries that were read from `recording.seq - 1` on show that the recording is of this log. */
export function reaches([first]: readonly MirrorEntry[], { seq, leafHash }: Recording): boolean {
  return first?.seq === seq - 1 && first.leafHash === leafHash;
}
