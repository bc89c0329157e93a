import type { Decision } from "../policy/types.ts";
import type { ControlChange } from "../state/control-changes.ts";
import type { Ask } from "../state/fold.ts";
import type { SealedClaim, SealedOutcome } from "../state/outcomes.ts";

/** A decision that any replica appended. */
export interface DecisionEvent {
  readonly kind: "decision";
  readonly seq: number;
  readonly atMs: number;
  readonly decisionId: string;
  readonly agentId: string;
  readonly decision: Decision;
  /** Set when the decision asks for an approval. */
  readonly ask: Ask | undefined;
  /** True if an approval let the action exceed a budget. */
  readonly isOverdrawn: boolean;
}

/** A change that any replica appended. */
export interface ChangeEvent {
  readonly kind: "change";
  readonly seq: number;
  readonly atMs: number;
  /** Id of the key that made it. */
  readonly by: string;
  readonly change: ControlChange;
}

/** A claim or an outcome that any replica appended. */
export interface FollowUpEvent {
  readonly kind: "follow_up";
  readonly seq: number;
  readonly atMs: number;
  readonly sealed: SealedClaim | SealedOutcome;
}

/** Announcement of an entry. Listeners receive every entry once, in the order of the log. */
export type LedgerEvent = DecisionEvent | ChangeEvent | FollowUpEvent;

/** Receives entries after they are durable. MUST NOT throw. */
export type LedgerListener = (events: readonly LedgerEvent[]) => void;

/** The end of a log after this replica appended to it. */
export interface AppendedEnd {
  readonly workspaceId: string;
  /** Size of the log. */
  readonly seq: number;
  /** Length of the longest window in force, milliseconds; 0 without one. */
  readonly longestWindowMs: number;
  /** Kind of entries that other replicas have to be woken for; undefined when no caller waits for them. */
  readonly wakes: "change" | "decisions" | undefined;
}

/** Message between replicas: a workspace's log grew by an entry that callers of other replicas may be waiting for. */
export interface WakeUp {
  readonly workspaceId: string;
  /** Size of the log. */
  readonly seq: number;
  /** False for decisions that escalate or use up an approval: those change no settings, agents or policies. */
  readonly isChange: boolean;
}

/** PostgreSQL notification channel for wake-ups. */
export const WAKE_UP_CHANNEL = "acp_log";

/** Serialises a wake-up as the payload of a notification. */
export const wakeUpPayload = ({ workspaceId, seq, isChange }: WakeUp): string =>
  `${workspaceId} ${seq} ${isChange ? "change" : "decisions"}`;

/** Parses the payload of a notification; undefined if it is not a wake-up. */
export function wakeUpFrom(payload: string | undefined): WakeUp | undefined {
  const [workspaceId, seq, kind] = (payload ?? "").split(" ");
  if (workspaceId === undefined || seq === undefined) return undefined;
  return { workspaceId, seq: Number(seq), isChange: kind !== "decisions" };
}
