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

/** What a replica hears of a workspace's log, in the order of the log, each entry once. */
export type LedgerEvent = DecisionEvent | ChangeEvent;

/** Hears of entries after they are durable. MUST NOT throw. */
export type LedgerListener = (events: readonly LedgerEvent[]) => void;

/** What replicas tell each other after they appended what somebody may wait for. */
export interface WakeUp {
  readonly workspaceId: string;
  /** The size of the log. */
  readonly seq: number;
  /** False for decisions that escalate or use an approval up, which change nothing but the log. */
  readonly isChange: boolean;
}
