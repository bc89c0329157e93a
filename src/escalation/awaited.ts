import { type PartyLines, readPartyLines } from "../registry/parties.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { stored } from "../store/database.ts";
import { type Approver, countsFor, isSameParty, membershipOf, missingNeeds, readApproverOf } from "./approvals.ts";
import {
  type Escalation,
  type EscalationContext,
  type EscalationFilter,
  findEscalationPage,
  withStandingApprovals,
} from "./escalation.ts";

/** Why an approval by an approver would count for nothing that an escalation still misses: the words of `ApprovalObstacle`. */
export type ApprovalObstacle = "four_eyes" | "asked" | "given" | "maker" | "no_owner" | "not_a_member" | "met";

/**
 * Finds the pending escalations of some for which an approval by an approver would count for nothing that is missing, by their ids; it
 * would for all others that are pending. `escalations` MUST have standing approvals alone.
 */
export async function obstaclesTo(
  { log, pool }: EscalationContext,
  by: string,
  escalations: readonly Escalation[],
): Promise<ReadonlyMap<string, ApprovalObstacle>> {
  const pending = escalations.filter(({ status }) => status === "pending");
  const found = new Map<string, ApprovalObstacle>();
  if (pending.length === 0) return found;
  const { workspaceId } = log;
  const state = await log.caughtUp();
  const fourEyes = state.settings.four_eyes;
  const limited = pending.filter(({ needs }) => needs.length > 0 || fourEyes);
  if (limited.length === 0) return found;
  const isAnyNamed = limited.some(({ needs }) => needs.length > 0);
  const approver = isAnyNamed ? await stored(readApproverOf(pool, workspaceId, by, log.nowMs)) : undefined;
  const others = limited.flatMap(({ askedBy, approvals }) => [...askedBy, ...approvals.map((each) => each.by)]);
  const lines = await stored(readPartyLines(pool, workspaceId, [by, ...new Set(others)]));
  const hasAsked = memoized((asker: string) => asker === by || lines.shared(by, [asker]) !== undefined);
  for (const { escalationId, needs, approvals, askedBy } of limited) {
    const note = (obstacle: ApprovalObstacle | undefined): void => {
      if (obstacle !== undefined) found.set(escalationId, obstacle);
    };
    if (askedBy.some(hasAsked)) note(fourEyes ? "four_eyes" : "asked");
    else if (approver !== undefined) note(obstacleOf(state, approver, { needs, approvals, lines }));
  }
  return found;
}

function memoized(test: (key: string) => boolean): (key: string) => boolean {
  const known = new Map<string, boolean>();
  return (key) => {
    const found = known.get(key) ?? test(key);
    known.set(key, found);
    return found;
  };
}

/** Finds why an approval by somebody who did not ask would count for nothing that is missing; undefined if it counts. */
function obstacleOf(
  state: Pick<WorkspaceState, "approverGroups">,
  approver: Approver,
  { needs, approvals, lines }: Pick<Escalation, "needs" | "approvals"> & { readonly lines: PartyLines },
): ApprovalObstacle | undefined {
  if (needs.length === 0) return undefined;
  const { by, party } = approver;
  const own = { by, ...(party === undefined ? {} : { party }), ...membershipOf(state, approver, needs) };
  if (approvals.some((each) => isSameParty(each, own))) return "given";
  if (!needs.some((need) => countsFor(need, own))) return party === undefined ? "no_owner" : "not_a_member";
  const approvers = approvals.map((each) => each.by);
  if (lines.makerAmong(by, approvers) !== undefined) return "maker";
  return missingNeeds(needs, approvals).some((need) => countsFor(need, own)) ? undefined : "met";
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
      const obstacles = await obstaclesTo(context, by, standing);
      found.push(...rows.filter(({ escalation }) => !obstacles.has(escalation.escalationId)));
      const last = rows.at(-1);
      if (last === undefined || rows.length <= 1) break;
      before = last.escalation.createdSeq;
    }
    return found.slice(0, filter.size + 1);
  };
