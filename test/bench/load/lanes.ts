import type { Recorder } from "./recorder.ts";

/** A running load. */
export interface Lanes {
  /** Resolves when the calls under way are answered. Rejects with the first call that failed. */
  stop(): Promise<void>;
}

/** What the lanes of a load share. */
export interface LaneContext {
  readonly recorder: Recorder;
  /** True once no call is to be begun any more. */
  readonly isOver: () => boolean;
}

/** Runs `count` lanes side by side, and `leave` once all have ended. */
export function runLanes(
  count: number,
  recorder: Recorder,
  runLane: (index: number, context: LaneContext) => Promise<void>,
  leave: () => unknown,
): Lanes {
  let isOver = false;
  const context = { recorder, isOver: () => isOver };
  const lanes = Promise.all(Array.from({ length: count }, (_, index) => runLane(index, context)));
  // Told by `stop`; until then a failure must not end the process.
  lanes.catch(() => undefined);
  return {
    async stop() {
      isOver = true;
      try {
        await lanes;
      } finally {
        await leave();
      }
    },
  };
}
