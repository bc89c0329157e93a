import { type ControlChange, controlEntryFrom } from "../state/control-changes.ts";
import { createId } from "../store/ids.ts";
import { signingKeyEntryId } from "../store/sql/signing-keys.ts";
import type { AppendedChanges, ChangeEntry } from "../store/transaction.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { appendLeaves, bytesFromFrontier, type Frontier, leafHash, rootText } from "../tree/merkle.ts";
import { type ChangeEvent, WAKE_UP_CHANNEL, wakeUpPayload } from "./events.ts";

/** The end of a log to which changes are appended. */
export interface ChangePlace {
  readonly workspaceId: string;
  readonly seq: number;
  readonly frontier: Frontier;
  readonly atMs: number;
  /** Key of the caller who makes the changes. */
  readonly by: string;
}

/** Entries of changes in the form that the log stores, with the events that announce them. */
export interface SealedChanges extends AppendedChanges {
  readonly events: readonly ChangeEvent[];
  /** The tree after the changes. */
  readonly frontier: Frontier;
}

const agentOf = (change: ControlChange): string | null => ("agent_id" in change ? change.agent_id : null);

/** Returns the id of an entry: one of its own for a signing key, so that a log can seal neither step of it twice. */
function entryIdOf(change: ControlChange): string {
  if (change.type === "signing_key_added") return signingKeyEntryId.added(change.signing_key.key_id);
  if (change.type === "signing_key_retired") return signingKeyEntryId.retired(change.key_id);
  return createId("ent");
}

/** Builds the entries of changes for the end of a log. */
export function sealChanges(place: ChangePlace, changes: readonly ControlChange[]): SealedChanges {
  const { workspaceId, atMs, by } = place;
  const previousRoot = rootText(place.frontier);
  let { frontier } = place;
  const entries = changes.map((change, index): ChangeEntry => {
    const seq = place.seq + index;
    const body = canonicalJson(
      controlEntryFrom(change, { workspaceId, seq, atMs, by, previousRoot, previousSize: place.seq }),
    );
    const leaf = leafHash(body);
    const subtrees: Uint8Array[] = [];
    frontier = appendLeaves(frontier, [leaf], subtrees);
    return { seq, entryId: entryIdOf(change), agentId: agentOf(change), leafHash: leaf, subtrees, body };
  });
  const seq = place.seq + entries.length;
  const events = changes.map((change, index) => ({
    kind: "change" as const,
    seq: place.seq + index,
    atMs,
    by,
    change,
  }));
  return {
    workspaceId,
    entries,
    end: { seq, frontier: bytesFromFrontier(frontier), lastAtMs: atMs },
    notification: { channel: WAKE_UP_CHANNEL, payload: wakeUpPayload({ workspaceId, seq, isChange: true }) },
    events,
    frontier,
  };
}
