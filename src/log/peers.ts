import type { Action, SealedDecision } from "../state/types.ts";
import type { AppendedBatch } from "./follow.ts";

/** Processes beside this one that decide on the same logs and can be asked at little cost. */
export interface DecisionPeers {
  /**
   * Has an action decided by the process that decides for the workspace. Undefined: that is this one. Rejects as
   * `WorkspaceLog.decide`; resolves with undefined when the process was lost, so that the action may be decided or not.
   */
  decide(workspaceId: string, action: Action): Promise<SealedDecision | undefined> | undefined;
  /**
   * Tells the processes that this one decides for what it appended, so that they need not read it. `batch` is called at
   * most once, and not when there is nobody. What is told may be lost.
   */
  tell(workspaceId: string, batch: () => AppendedBatch): void;
}

/** Takes the decision of an action, as `WorkspaceLog.decide`. */
export type TakeDecision = (action: Action, isAbandoned: () => boolean) => Promise<SealedDecision>;

/** Milliseconds without contention after which a process decides for itself again. */
export const CONTENDED_MS = 10_000;

/** Which process decides the actions of one workspace that arrive at this one. */
export interface HandOver {
  readonly decide: TakeDecision;
  /** Takes the decision of an action that came to a peer. */
  readonly decideForPeer: TakeDecision;
  /** Another process appended what a batch of this one had to give way to. */
  overtaken(): void;
  /** Whether actions are handed to a peer, as long as there is one. */
  readonly isActive: boolean;
  /** Whether peers have this process decide for them. */
  readonly isAsked: boolean;
}

/**
 * Hands actions to a peer while several processes append to the log: each would read what the others append and decide
 * again what they overtook. What a peer does not decide is decided here. Nothing rests on who decides: the log takes
 * only what holds at its end, and each decision once.
 */
export function createHandOver(workspaceId: string, peers: DecisionPeers | undefined, here: TakeDecision): HandOver {
  let contendedUntil = 0;
  let askedUntil = 0;
  const overtaken = (): void => {
    contendedUntil = performance.now() + CONTENDED_MS;
  };
  const isActive = (): boolean => peers !== undefined && performance.now() < contendedUntil;
  return {
    overtaken,
    get isActive() {
      return isActive();
    },
    get isAsked() {
      return performance.now() < askedUntil;
    },
    decideForPeer(action, isAbandoned) {
      askedUntil = performance.now() + CONTENDED_MS;
      return here(action, isAbandoned);
    },
    decide(action, isAbandoned) {
      // What a guard answered stays with the process that asked.
      if (peers === undefined || !isActive() || action.answers !== undefined) return here(action, isAbandoned);
      const there = peers.decide(workspaceId, action);
      if (there === undefined) return here(action, isAbandoned);
      overtaken();
      // As a retry, since the lost peer may have decided it: the first decision stands.
      return there.then((sealed) => sealed ?? here({ ...action, isRetryable: true }, isAbandoned));
    },
  };
}
