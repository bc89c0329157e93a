import { createVelocityJournal } from "../state/counters/windows.ts";
import type { Action, Outcome } from "../state/types.ts";
import { prepare, type SealContext } from "./seal-batch.ts";

const isAbandoned = (): boolean => false;
const nothing = (): void => undefined;

/**
 * What an action would come to if it were decided now, as far as this replica is caught up. Neither appends nor folds
 * anything. MUST run while nothing tentative is in the state. Rejects with AGENT_NOT_FOUND.
 */
export async function rehearse(context: SealContext, action: Action): Promise<Outcome> {
  const { pool, state, decide } = context;
  let refusal: unknown;
  const reject = (error: unknown): void => {
    refusal = error;
  };
  const { items, nowMs } = await prepare(context, pool, [{ action, isAbandoned, resolve: nothing, reject }]);
  if (items.length === 0) throw refusal;
  return decide(state, action, nowMs, { velocity: createVelocityJournal(), undo: [] });
}
