import type { SharedPot } from "../async/shared-pot.ts";
import type { HistoryMirror } from "../state/counters/log-history.ts";
import type { SessionKeys } from "../state/session-keys.ts";
import type { Tracing } from "../tracing/tracing.ts";
import type { DatabaseClock } from "./clock.ts";
import type { AppendedEnd } from "./events.ts";
import type { LogMetrics } from "./metrics.ts";

/** Optional helpers of a log outside the database. Losing one costs time, never correctness. */
export interface LogSurroundings {
  /** Clock of every log. Default: one that follows the database's. */
  readonly clock?: DatabaseClock;
  /** Pot of the actions that wait to be decided, which logs share. Default: a pot for each log. */
  readonly waitingPot?: SharedPot;
  /** Counts what is appended. Default: nothing counts it. */
  readonly metrics?: LogMetrics;
  /** Keys of sessions, which actions of observed sessions need. Default: such an action fails. */
  readonly sessionKeys?: SessionKeys;
  /** Second source of window histories. */
  readonly mirror?: HistoryMirror;
  /** Records every append as a span. */
  readonly tracing?: Tracing | undefined;
  /** Receives the end of the log after every durable append of this replica. MUST NOT throw. */
  readonly onAppended?: (end: AppendedEnd) => void;
  /** Receives the earliest expiry of escalations that this replica created, epoch milliseconds. MUST NOT throw. */
  readonly onEscalated?: (workspaceId: string, nextExpiryMs: number) => void;
  /** Receives the earliest reminder of escalations that this replica created, epoch milliseconds. MUST NOT throw. */
  readonly onReminder?: (workspaceId: string, nextMs: number) => void;
  /** Receives the earliest time at which an outcome that this replica tracks becomes unknown, epoch milliseconds. MUST NOT throw. */
  readonly onTracked?: (workspaceId: string, nextDueMs: number) => void;
  /** Receives the escalations that this replica resolved. MUST NOT throw. */
  readonly onResolved?: (workspaceId: string, escalationIds: readonly string[]) => void;
}
