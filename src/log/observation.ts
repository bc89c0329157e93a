import { createSecretKey } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { DIGEST_BYTES, digestOf } from "../provenance/digests.ts";
import type { ToolProvenance } from "../provenance/result-values.ts";
import { type Addition, type ObservedRow, SessionValues } from "../provenance/session-values.ts";
import { OBSERVED_SOURCES, type ObservedSource } from "../provenance/sources.ts";
import { isInForce } from "../state/authority-status.ts";
import { type ControlChange, controlEntryFrom } from "../state/control-changes.ts";
import { EntryKind } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { createId, idWithPrefix } from "../store/ids.ts";
import type { EntryColumn, ObservationColumn } from "../store/sql/append-entries.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { DecisionPlace } from "./entry.ts";

/** Digests of the values in a prompt or a result, of which a session is told. */
export interface Observation {
  readonly sessionId: string;
  readonly agentId: string;
  /** Id of the caller's key. */
  readonly by: string;
  /** True if an agent tells it, or the gateway in an agent's place. */
  readonly isByAgent: boolean;
  readonly source: "prompt" | "result";
  /** The decision whose result it is; undefined for a prompt. */
  readonly decisionId: string | undefined;
  readonly tool: string | undefined;
  /** The tool's declaration by which digests count as `lookup` and `session`; undefined where none do. */
  readonly declared: ToolProvenance | undefined;
  /** Key of the session. */
  readonly key: Buffer;
  /** Digest of the content, as `contentDigestOf` gives it. */
  readonly contentDigest: string;
  /** Sorted digests by source. */
  readonly digests: Readonly<Partial<Record<ObservedSource, Buffer>>>;
  /** True if the content is not whole, or could not be read as a whole: the session is full from then on. */
  readonly isCut: boolean;
}

/** Result of an observation: what the log holds of it. */
export interface SealedObservation {
  readonly observationId: string;
  /** Numbers of new values that are kept, by where they were seen. */
  readonly values: Readonly<Partial<Record<ObservedSource, number>>>;
  readonly isFull: boolean;
  /** True if the same had been observed before. */
  readonly isReplayed: boolean;
}

/** An observation that waits to be sealed, and its caller. */
export interface PendingObservation {
  readonly observation: Observation;
  /** Characters of text that it brings. */
  readonly textLength: number;
  readonly isAbandoned: () => boolean;
  resolve(sealed: SealedObservation): void;
  reject(error: unknown): void;
}

/** An observation as the log stores it. */
export interface ObservationEntry {
  readonly change: Extract<ControlChange, { type: "session_observed" }>;
  /** Id of the caller's key. */
  readonly by: string;
  readonly addition: Addition;
  /** False past the limit of observations: the session then has no row of it. */
  readonly isKept: boolean;
  /** RFC 8785 text of the entry. */
  readonly body: string;
}

/** Maximum observations of a session. Further ones leave it as full, and are entries of the log alone. */
const MAX_OBSERVATIONS = 2_000;
/** Observations beside them that are prompts, so that no flood of results keeps a prompt out. */
const MAX_PROMPTS_BESIDE = 200;

/**
 * Returns the keyed digest of a content, lower-case hexadecimal, by which a session knows it again, however its values were read. No
 * value has the same text, so that the log does not show a content that is a value.
 */
export const contentDigestOf = (key: Uint8Array, content: string, isCut: boolean): string =>
  digestOf(createSecretKey(key), `content\u0000${isCut ? "cut" : "whole"}\u0000${content}`).toString("hex");

/** An observation at its turn: already in the log, or what it adds to its session. */
export type Observed =
  | { readonly kind: "known"; readonly sealed: SealedObservation }
  | {
      readonly kind: "new";
      readonly entry: ObservationEntry;
      readonly sealed: SealedObservation;
      readonly before: SessionValues | undefined;
      readonly after: SessionValues;
    };

/**
 * Takes an observation at its place in the log. Changes nothing. Throws SESSION_ENDED for a session that is not in force,
 * PROMPT_FROM_OPERATOR for an agent's prompt where operators alone say what was asked, and OBSERVATION_EXISTS for other content of a
 * result that was observed.
 */
export function observe(state: WorkspaceState, observation: Observation, place: DecisionPlace): Observed {
  const { sessionId, agentId, key, digests, source, decisionId, tool, contentDigest } = observation;
  const session = state.authority.get(sessionId);
  if (session?.sealed.kind !== "session" || session.sealed.agent_id !== agentId || !isInForce(session, place.atMs))
    throw sessionEnded(sessionId);
  if (source === "prompt" && observation.isByAgent && state.settings.prompt_from === "operator")
    throw promptFromOperator();
  const before = state.sessions.get(sessionId);
  const values = before ?? SessionValues.from(key, [], false);
  const earlier = decisionId === undefined ? undefined : values.row(observationIdOf(decisionId));
  if (earlier !== undefined && earlier.valuesDigest !== contentDigest) throw observationExists(decisionId as string);
  const same =
    decisionId === undefined
      ? values.rows.find((row) => row.kind === source && row.valuesDigest === contentDigest)
      : earlier;
  if (same !== undefined) return { kind: "known", sealed: sealedFrom(same, values.isFull, true) };
  const hasRoom = values.rows.length < MAX_OBSERVATIONS + (source === "prompt" ? MAX_PROMPTS_BESIDE : 0);
  const isKept = hasRoom || !values.isFull;
  // Without a row nothing finds it again, and no two entries of a log have the same id.
  const observationId = decisionId === undefined || !isKept ? createId("obs") : observationIdOf(decisionId);
  const draft: ObservedRow = {
    seq: place.seq,
    observationId,
    kind: source,
    tool,
    valuesDigest: contentDigest,
    digests: isDeclared(state, observation) ? digests : untrustedOnly(digests),
  };
  const fitted = hasRoom ? values.fit(draft) : leftOut(draft);
  const addition = { ...fitted, isFull: fitted.isFull || observation.isCut };
  const change = changeFrom(observation, addition, !values.isFull);
  const { by } = observation;
  const body = canonicalJson(controlEntryFrom(change, { ...place, by }));
  return {
    kind: "new",
    entry: { change, by, addition, isKept, body },
    sealed: sealedFrom(addition.row, addition.isFull, false),
    before,
    after: isKept ? values.with(addition) : values,
  };
}

/** Tests whether the declaration by which an observation was read is still that of its tool. */
const isDeclared = ({ policies }: WorkspaceState, { declared, tool }: Observation): boolean =>
  declared === undefined || (tool !== undefined && isDeepStrictEqual(policies.tool(tool)?.schema.provenance, declared));

/** Returns digests of all sources as those of untrusted values. */
function untrustedOnly(digests: Observation["digests"]): Observation["digests"] {
  const all = Buffer.concat(OBSERVED_SOURCES.map((source) => digests[source] ?? Buffer.alloc(0)));
  const numbers = new Set<bigint>();
  for (let at = 0; at < all.length; at += DIGEST_BYTES) numbers.add(all.readBigUInt64BE(at));
  const untrusted = Buffer.alloc(numbers.size * DIGEST_BYTES);
  for (const [index, digest] of BigUint64Array.from(numbers).sort().entries())
    untrusted.writeBigUInt64BE(digest, index * DIGEST_BYTES);
  return { untrusted };
}

const leftOut = (row: ObservedRow): Addition => ({ row: { ...row, digests: {} }, dropped: [], isFull: true });

const observationIdOf = (decisionId: string): string => idWithPrefix("obs", decisionId);

function countsOf(digests: ObservedRow["digests"]): SealedObservation["values"] {
  return Object.fromEntries(
    OBSERVED_SOURCES.flatMap((source) => {
      const count = (digests[source]?.length ?? 0) / DIGEST_BYTES;
      return count === 0 ? [] : [[source, count]];
    }),
  );
}

function sealedFrom(row: ObservedRow, isFull: boolean, isReplayed: boolean): SealedObservation {
  return { observationId: row.observationId, values: countsOf(row.digests), isFull, isReplayed };
}

function changeFrom(
  { sessionId, agentId, source, decisionId, tool }: Observation,
  { row, dropped, isFull }: Addition,
  wasRoomy: boolean,
): ObservationEntry["change"] {
  return {
    type: "session_observed",
    session_id: sessionId,
    agent_id: agentId,
    observation_id: row.observationId,
    source,
    ...(decisionId === undefined ? {} : { decision_id: decisionId }),
    ...(tool === undefined ? {} : { tool }),
    values_digest: row.valuesDigest,
    values: countsOf(row.digests),
    ...(dropped.length === 0 ? {} : { forgets: dropped }),
    ...(isFull && wasRoomy ? { full: true } : {}),
  };
}

/** Builds SESSION_ENDED. */
export function sessionEnded(sessionId: string): ControlPlaneError {
  const message = `session \`${sessionId}\` is not in force for this agent: begin a new one`;
  return new ControlPlaneError(ErrorReason.SESSION_ENDED, message, { session_id: sessionId });
}

/** Builds PROMPT_FROM_OPERATOR. */
export function promptFromOperator(): ControlPlaneError {
  const message =
    "this workspace takes prompts from operators alone; an operator's key tells the session what was asked";
  return new ControlPlaneError(ErrorReason.PROMPT_FROM_OPERATOR, message);
}

function observationExists(decisionId: string): ControlPlaneError {
  const message = `the result of decision \`${decisionId}\` was observed before with other content; the first stands`;
  return new ControlPlaneError(ErrorReason.OBSERVATION_EXISTS, message, { decision_id: decisionId });
}

/** The columns of the entry of an observation, each with its value. */
export const OBSERVATION_ENTRY_COLUMNS: Readonly<Record<EntryColumn, (entry: ObservationEntry) => string | number>> = {
  entry_id: () => createId("ent"),
  kind: () => EntryKind.CHANGE,
  agent_id: ({ change }) => change.agent_id,
  principal_id: () => "",
  action_type: () => "",
  decision: () => "",
  ref_id: () => "",
  session_id: () => "",
  body: ({ body }) => body,
};

/** Numbers of the kinds of observations, as stored. */
export const OBSERVED_KIND_NUMBERS: Readonly<Record<ObservedRow["kind"], number>> = {
  prompt: 1,
  result: 2,
  approval: 3,
};

/**
 * Returns the entries of a batch that have rows, as these are stored. A row that a later entry forgets is written without its values: the statement
 * updates only rows that stand in the database before it.
 */
export function observationRowsFrom(entries: readonly ObservationEntry[]): readonly ObservationEntry[] {
  const forgotten = new Set(entries.flatMap(({ addition }) => addition.dropped));
  return entries
    .filter(({ isKept }) => isKept)
    .map((entry) => {
      const { row } = entry.addition;
      return forgotten.has(row.seq)
        ? { ...entry, addition: { ...entry.addition, row: { ...row, digests: {} } } }
        : entry;
    });
}

/** The columns of the row of an observation, each with its value. */
export const OBSERVATION_COLUMNS: Readonly<Record<ObservationColumn, (entry: ObservationEntry) => string | number>> = {
  session_id: ({ change }) => change.session_id,
  seq: ({ addition }) => addition.row.seq,
  observation_id: ({ addition }) => addition.row.observationId,
  kind: ({ addition }) => OBSERVED_KIND_NUMBERS[addition.row.kind],
  tool: ({ addition }) => JSON.stringify(addition.row.tool ?? ""),
  values_digest: ({ addition }) => addition.row.valuesDigest,
  digests: ({ addition: { row } }) => storedDigests(row).digests.toString("hex"),
  source_counts: ({ addition: { row } }) => `{${storedDigests(row).counts.join(",")}}`,
  is_full: ({ addition }) => (addition.isFull ? 1 : 0),
  forgets: ({ addition }) => `{${addition.dropped.join(",")}}`,
};

/** Returns the digests of a row in the order of their sources, with the number of each. Approved ones come last. */
export function storedDigests({ digests }: ObservedRow): {
  readonly digests: Buffer;
  readonly counts: readonly number[];
} {
  const all = [...OBSERVED_SOURCES, "approved" as const].map((source) => digests[source] ?? Buffer.alloc(0));
  return { digests: Buffer.concat(all), counts: all.map(({ length }) => length / DIGEST_BYTES) };
}
