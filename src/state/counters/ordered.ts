import type { Decision, OrderedSpec } from "../../policy/types.ts";
import { createAgentNumbers } from "./group-counts.ts";
import type { HistoryEntry } from "./history.ts";
import type { Membership } from "./membership.ts";
import type { Undo } from "./ordered-chain.ts";
import { createOrderedTrack, type OrderedTrack } from "./ordered-track.ts";

/** Takes in a stretch of the log that sequences wait for. */
export interface OrderedReplay {
  /** Length in milliseconds of the longest window that waits: only entries in it before the end of the log matter. */
  readonly windowMs: number;
  /** Takes in entries, oldest first. */
  add(entries: readonly HistoryEntry[]): void;
  /** Says that everything recorded so far was added. */
  finish(): void;
}

/**
 * The ordered sequences of a workspace, exact to the entry of the log and the millisecond of the window. A decision costs
 * O(steps), whatever the group's size and the number of actions in the window.
 */
export interface OrderedSequences {
  /** Sets which sequences are followed. */
  require(specs: readonly OrderedSpec[]): void;
  /** Whether nothing waits for history. */
  readonly isComplete: boolean;
  /**
   * Begins to take in history from its beginning, also when an earlier replay did not finish. MUST be called only while
   * everything recorded is durable, and nothing may be recorded until it finishes.
   */
  replay(): OrderedReplay;
  /** Takes in an action that was decided. One that may be taken back passes `undo`. */
  record(agentId: string, actionType: string, at: number, decision: Decision, undo?: Undo): void;
  /**
   * When the latest run of the agent's group through all steps but the last began, in epoch milliseconds; undefined when
   * none began later than `now` minus the window.
   */
  read(spec: OrderedSpec, agentId: string, now: number, undo?: Undo): number | undefined;
  /** Forgets the runs of a department whose members changed; they are found anew when asked for. */
  forgetDepartment(departmentId: string): void;
}

/** Creates the sequences of a workspace. */
export function createOrderedSequences(membership: Membership): OrderedSequences {
  const agents = createAgentNumbers();
  let tracks = new Map<string, OrderedTrack>();

  const waiting = (): OrderedTrack[] => [...tracks.values()].filter(({ isComplete }) => !isComplete);

  /** The track of a sequence; a window longer than was kept so far needs the history that was dropped. */
  const trackOf = (spec: OrderedSpec, before: ReadonlyMap<string, OrderedTrack>): OrderedTrack => {
    const known = tracks.get(spec.key) ?? before.get(spec.key);
    if (known === undefined) return createOrderedTrack(spec, agents, membership);
    if (spec.windowMs > known.windowMs) {
      known.windowMs = spec.windowMs;
      known.isComplete = false;
    }
    return known;
  };

  return {
    require(specs) {
      const before = tracks;
      tracks = new Map();
      for (const spec of specs) tracks.set(spec.key, trackOf(spec, before));
    },
    get isComplete() {
      return tracks.size === 0 || waiting().length === 0;
    },
    replay() {
      const incomplete = waiting();
      for (const track of incomplete) track.clear();
      return {
        windowMs: Math.max(...incomplete.map(({ windowMs }) => windowMs)),
        add(entries) {
          for (const entry of entries) for (const track of incomplete) track.record(entry, undefined);
        },
        finish() {
          for (const track of incomplete) track.isComplete = true;
        },
      };
    },
    record(agentId, actionType, at, decision, undo) {
      if (tracks.size === 0) return;
      const entry = { agentId, actionType, at, decision };
      for (const track of tracks.values()) if (track.isComplete) track.record(entry, undo);
    },
    read(spec, agentId, now, undo) {
      const track = tracks.get(spec.key);
      if (!track?.isComplete) throw new Error(`the sequence \`${spec.key}\` has no history yet`);
      const began = track.read(spec, agentId, undo);
      return began > now - spec.windowMs ? began : undefined;
    },
    forgetDepartment(departmentId) {
      for (const track of tracks.values()) track.forgetDepartment(departmentId);
    },
  };
}
