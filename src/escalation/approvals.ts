import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { approversText } from "../policy/approvers.ts";
import type { PartyLines } from "../registry/parties.ts";
import { partyOfOwner, personFromName } from "../registry/person-name.ts";
import type { ApproverGroupState } from "../state/approver-groups.ts";
import type { SealedApproval, SealedDemand } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type ApproverRow, readApprover } from "../store/sql/read-approver.ts";
import type { Reader } from "../store/transaction.ts";

/** Demand of a rule with approvers on an escalation, as its row keeps it. */
export interface Need extends SealedDemand {
  /** True once people were reminded: deputies of the groups count. */
  readonly reminded?: true;
}

/** An approval of an escalation that needs several, as its row keeps it. */
export interface GivenApproval extends SealedApproval {
  /** Groups, of those whose deputies count, that the approver is a deputy of. */
  readonly deputy_of: readonly string[];
  /** Epoch milliseconds. */
  readonly at_ms: number;
  readonly note: string | null;
}

/** A key or person that may approve, with everything that says for what they count. */
export interface Approver {
  readonly by: string;
  /** The person or owner; undefined for a key that counts as itself. */
  readonly party: string | undefined;
  /** Issuer and groups of the person as the issuer named them, if that was lately. */
  readonly issuer: string | undefined;
  readonly groups: readonly string[];
}

/** Milliseconds for which the groups that an issuer named count: they are asked for again every 15 minutes, which takes a moment. */
const GROUPS_COUNT_MS = 960_000;

/** Reads who a key or person counts as. */
export async function readApproverOf(
  reader: Reader,
  workspaceId: string,
  by: string,
  nowMs: number,
): Promise<Approver> {
  const { rows } = await reader.query<ApproverRow & {}>({ ...readApprover, values: [workspaceId, by] });
  const [row] = rows;
  const name = row?.owner ?? (personFromName(by) === undefined ? undefined : by);
  const isFresh = row !== undefined && (row.checkedAtMs ?? Number.NEGATIVE_INFINITY) > nowMs - GROUPS_COUNT_MS;
  return {
    by,
    party: name === undefined ? undefined : partyOfOwner(name),
    issuer: row?.issuer ?? undefined,
    groups: isFresh ? (row.groups ?? []) : [],
  };
}

const isNamed = (names: readonly string[], party: string | undefined): boolean =>
  party !== undefined && names.some((name) => partyOfOwner(name) === party);

function isMember({ sealed }: ApproverGroupState, { party, issuer, groups }: Approver): boolean {
  if (isNamed(sealed.members, party)) return true;
  return sealed.oidc_groups.some((each) => each.issuer === issuer && groups.includes(each.group));
}

/** The approver groups that an approver is in, among those that an escalation names. */
export interface Membership {
  readonly groups: readonly string[];
  readonly deputy_of: readonly string[];
}

/** Finds the groups that an approver is in at this moment, among those that an escalation needs. */
export function membershipOf(
  { approverGroups }: Pick<WorkspaceState, "approverGroups">,
  approver: Approver,
  needs: readonly Need[],
): Membership {
  const named = (wanted: readonly Need[]): string[] => [...new Set(wanted.flatMap(({ groups }) => groups))].sort();
  const found = (names: readonly string[], test: (group: ApproverGroupState) => boolean): readonly string[] =>
    names.filter((name) => {
      const group = approverGroups.all.get(name);
      return group !== undefined && test(group);
    });
  return {
    groups: found(named(needs), (group) => isMember(group, approver)),
    deputy_of: found(named(needs.filter(({ reminded }) => reminded === true)), ({ sealed }) =>
      isNamed(sealed.deputies, approver.party),
    ),
  };
}

/** Tests whether an approval counts for a need. */
export function countsFor(
  { groups: needed, at_least, reminded }: Need,
  { party, groups, deputy_of }: Pick<GivenApproval, "party" | "groups" | "deputy_of">,
): boolean {
  // A key without an owner could be any number of keys of one person.
  if (party === undefined && at_least > 1) return false;
  if (needed.length === 0 || needed.some((name) => groups.includes(name))) return true;
  return reminded === true && needed.some((name) => deputy_of.includes(name));
}

/** Returns the number of approvals that count for a need. Every party has one approval. */
export const givenFor = (need: Need, approvals: readonly GivenApproval[]): number =>
  approvals.filter((approval) => countsFor(need, approval)).length;

/** Returns the needs for which approvals are missing. */
export const missingNeeds = (needs: readonly Need[], approvals: readonly GivenApproval[]): readonly Need[] =>
  needs.filter((need) => givenFor(need, approvals) < need.at_least);

/** Tests whether two approvals are of one party: the same person or owner, or the same key where it counts as itself. */
export const isSameParty = (
  a: Pick<SealedApproval, "by" | "party">,
  b: Pick<SealedApproval, "by" | "party">,
): boolean => (a.party ?? a.by) === (b.party ?? b.by);

/** Approvals of an escalation, and the keys that asked for it. */
export interface Answered {
  readonly approvals: readonly GivenApproval[];
  readonly askedBy: readonly string[];
}

/** Lists the keys and people whose lines say which approvals stand. */
export const partiesOf = ({ approvals, askedBy }: Answered): readonly string[] =>
  approvals.length === 0 ? [] : [...approvals.map(({ by }) => by), ...askedBy];

/** Returns the approvals that still stand: whoever has asked for the action since has taken theirs back. */
export const standingApprovals = (lines: PartyLines, { approvals, askedBy }: Answered): readonly GivenApproval[] =>
  approvals.filter(({ by }) => !askedBy.includes(by) && lines.shared(by, askedBy) === undefined);

/** Returns the time of the next reminder of an escalation, epoch milliseconds; null for none. A need that is met waits for none. */
export function nextReminder(needs: readonly Need[], approvals: readonly GivenApproval[]): number | null {
  const times = missingNeeds(needs, approvals).flatMap(({ remind_at, reminded }) =>
    remind_at === undefined || reminded === true ? [] : [Date.parse(remind_at)],
  );
  return times.length === 0 ? null : Math.min(...times);
}

/** Describes the demand of a rule: `rules[0]` wants 2 of `finance`. */
export const needText = ({ rule, groups, at_least }: SealedDemand): string =>
  `\`${rule}\` wants ${approversText(groups, at_least)}`;

/** Maximum number of needs that an error names. */
const MAX_TOLD = 5;

/** Makes the error for an approval that counts for nothing that the escalation needs. */
export function notAnApprover(escalationId: string, needs: readonly Need[]): ControlPlaneError {
  const told = needs.slice(0, MAX_TOLD).map(needText).join("; ");
  const more = needs.length > MAX_TOLD ? ` (and ${needs.length - MAX_TOLD} more)` : "";
  const message = `the key counts for none of what escalation \`${escalationId}\` needs: ${told}${more}`;
  const groups = [...new Set(needs.flatMap(({ groups }) => groups))].sort().join(" ");
  return new ControlPlaneError(ErrorReason.NOT_AN_APPROVER, message, { escalation_id: escalationId, groups });
}
