import { DIGEST_BYTES, ownedBytes } from "../provenance/digests.ts";
import { type ObservedKind, type ObservedRow, SessionValues } from "../provenance/session-values.ts";
import { OBSERVED_SOURCES } from "../provenance/sources.ts";
import { type ObservationRow, readObservations } from "../store/sql/observations.ts";
import type { Reader } from "../store/transaction.ts";
import type { SessionKeys } from "./session-keys.ts";
import type { WorkspaceState } from "./workspace.ts";

/** Tests whether a name is that of a session in the state. Actions may name anything as their session. */
const isSession = ({ authority }: WorkspaceState, sessionId: string): boolean =>
  authority.get(sessionId)?.sealed.kind === "session";

/** Tests whether it is known what a session observed. A name that is no session's needs nothing. */
export const holdsSession = (state: WorkspaceState, sessionId: string | undefined): boolean =>
  sessionId === undefined || state.sessions.knows(sessionId) || !isSession(state, sessionId);

/** Most bytes of a session: 20,000 values of 2,000 observations. */
const MOST_BYTES = 2_097_152;

/** Returns the bytes that the values of a session take, the most for one that is not loaded; 0 for a name that is no session's. */
export function bytesOfSession(state: WorkspaceState, sessionId: string): number {
  if (!isSession(state, sessionId)) return 0;
  return state.sessions.bytesOf(sessionId) ?? MOST_BYTES;
}

/** Loads what sessions observed that the state lacks. `keys` decrypts their keys. */
export async function loadSessions(
  reader: Reader,
  state: WorkspaceState,
  sessionIds: readonly string[],
  keys: SessionKeys | undefined,
): Promise<void> {
  for (const sessionId of new Set(sessionIds)) {
    if (holdsSession(state, sessionId)) continue;
    state.sessions.put(sessionId, await readSession(reader, state.workspaceId, sessionId, keys));
  }
}

/** Reads what a session observed; undefined for one that observed nothing. */
async function readSession(
  reader: Reader,
  workspaceId: string,
  sessionId: string,
  keys: SessionKeys | undefined,
): Promise<SessionValues | undefined> {
  const { rows } = await reader.query<ObservationRow>({ ...readObservations, values: [workspaceId, sessionId] });
  const [first] = rows;
  if (first === undefined) return undefined;
  if (keys === undefined) throw new Error(`the key of session \`${sessionId}\` cannot be decrypted here`);
  const key = keys.decrypt(workspaceId, sessionId, first.sealedKey);
  return SessionValues.from(
    key,
    rows.map(rowFrom),
    rows.some(({ isFull }) => isFull),
  );
}

const KINDS: readonly ObservedKind[] = ["prompt", "result", "approval"];

function rowFrom({ seq, observationId, kind, tool, valuesDigest, digests, counts }: ObservationRow): ObservedRow {
  let at = 0;
  const bySource = [...OBSERVED_SOURCES, "approved" as const].map((source, index) => {
    const start = at;
    at += (counts[index] ?? 0) * DIGEST_BYTES;
    return [source, ownedBytes(digests.subarray(start, at))] as const;
  });
  return {
    seq,
    observationId,
    kind: KINDS[kind - 1] as ObservedKind,
    tool: tool ?? undefined,
    valuesDigest: valuesDigest.toString("hex"),
    digests: Object.fromEntries(bySource.filter(([, each]) => each.length > 0)),
  };
}
