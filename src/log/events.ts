import type { Decision } from "../policy/types.ts";
import type { ControlChange } from "../state/control-changes.ts";

/** A decision that was appended, on whichever replica. */
export interface DecisionEvent {
  readonly kind: "decision";
  readonly seq: number;
  readonly atMs: number;
  readonly decisionId: string;
  readonly agentId: string;
  readonly decision: Decision;
}

/** A change that was appended, on whichever replica. */
export interface ChangeEvent {
  readonly kind: "change";
  readonly seq: number;
  readonly atMs: number;
  /** The key that made it. */
  readonly by: string;
  readonly change: ControlChange;
}

/** An entry as a replica hears of it: in the order of the log, each entry once. */
export type LedgerEvent = DecisionEvent | ChangeEvent;

/** Receives entries after they are durable. MUST NOT throw. */
export type LedgerListener = (events: readonly LedgerEvent[]) => void;

/** A message between replicas: a workspace's log grew by something that callers of other replicas may wait for. */
export interface WakeUp {
  readonly workspaceId: string;
  /** The size of the log. */
  readonly seq: number;
  /** False for decisions that escalate or use up an approval: they change nothing but the log. */
  readonly isChange: boolean;
}

/** The channel of PostgreSQL's notifications that carries wake-ups. */
export const WAKE_UP_CHANNEL = "acp_log";

/** Writes a wake-up as a notification carries it. */
export const wakeUpPayload = ({ workspaceId, seq, isChange }: WakeUp): string =>
  `${workspaceId} ${seq} ${isChange ? "change" : "decisions"}`;

/** Reads the payload of a notification; undefined when it carries no wake-up. */
export function wakeUpFrom(payload: string | undefined): WakeUp | undefined {
  const [workspaceId, seq, kind] = (payload ?? "").split(" ");
  if (workspaceId === undefined || seq === undefined) return undefined;
  return { workspaceId, seq: Number(seq), isChange: kind !== "decisions" };
}
