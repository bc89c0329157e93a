import { readPartyLines } from "../registry/parties.ts";
import { stored } from "../store/database.ts";
import { countsFor, isSameParty, membershipOf, missingNeeds, readApproverOf } from "./approvals.ts";
import {
  type Escalation,
  type EscalationContext,
  type EscalationFilter,
  findEscalationPage,
  withStandingApprovals,
} from "./escalation.ts";

/**
 * Returns the ids of the escalations of some that wait for an approver: an approval of theirs would count for something that is missing,
 * and they have given none. `escalations` MUST have standing approvals alone.
 */
export async function awaitedBy(
  { log, pool }: EscalationContext,
  by: string,
  escalations: readonly Escalation[],
): Promise<ReadonlySet<string>> {
  const pending = escalations.filter(({ status }) => status === "pending");
  if (pending.length === 0) return new Set();
  const { workspaceId } = log;
  const state = await log.caughtUp();
  const isAnyNamed = pending.some(({ needs }) => needs.length > 0);
  const approver = isAnyNamed ? await stored(readApproverOf(pool, workspaceId, by, log.nowMs)) : undefined;
  const candidates = pending.filter(({ needs, approvals }) => {
    if (approver === undefined || needs.length === 0) return true;
    const { party } = approver;
    const own = { by, ...(party === undefined ? {} : { party }), ...membershipOf(state, approver, needs) };
    const isGiven = approvals.some((each) => isSameParty(each, own));
    return !isGiven && missingNeeds(needs, approvals).some((need) => countsFor(need, own));
  });
  const wantsOthers = ({ needs }: Escalation): boolean => needs.length > 0 || state.settings.four_eyes;
  const askers = [...new Set(candidates.filter(wantsOthers).flatMap(({ askedBy }) => askedBy))];
  const lines = await stored(readPartyLines(pool, workspaceId, [by, ...askers]));
  const same = new Set(askers.filter((asker) => lines.shared(by, [asker]) !== undefined));
  const open = candidates.filter((each) => !wantsOthers(each) || !each.askedBy.some((asker) => same.has(asker)));
  return new Set(open.map(({ escalationId }) => escalationId));
}

/** Pages of pending escalations that are searched for those which wait for one approver, and escalations of a page. */
const MAX_SEARCHED = 20;
const SEARCHED_SIZE = 500;

/** Returns the function that lists the pending escalations which wait for an approver, as `findEscalationPage` lists all. */
export const findAwaitedPage =
  (by: string) =>
  async (context: EscalationContext, filter: EscalationFilter): ReturnType<typeof findEscalationPage> => {
    const found: Awaited<ReturnType<typeof findEscalationPage>> = [];
    let { before } = filter;
    for (let searched = 0; searched < MAX_SEARCHED && found.length <= filter.size; searched++) {
      const rows = await findEscalationPage(context, { ...filter, before, size: SEARCHED_SIZE });
      const standing = await withStandingApprovals(
        context.pool,
        context.log.workspaceId,
        rows.map(({ escalation }) => escalation),
      );
      const awaited = await awaitedBy(context, by, standing);
      found.push(...rows.filter(({ escalation }) => awaited.has(escalation.escalationId)));
      const last = rows.at(-1);
      if (last === undefined || rows.length <= 1) break;
      before = last.escalation.createdSeq;
    }
    return found.slice(0, filter.size + 1);
  };
