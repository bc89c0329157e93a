import { ControlPlaneError, ErrorReason, type FieldViolation, invalidField, notFound } from "../errors.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { approverGroupsOf } from "../policy/approvers.ts";
import { type ApproverGroupState, sizeOfGroup } from "../state/approver-groups.ts";
import type { SealedApproverGroup } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { ApproverGroupEntity } from "../store/entities.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { checkedText } from "./checked-text.ts";
import { jsonBytes, type Page, type PageRequest, pageFrom } from "./page.ts";
import { ownerFault, partyOfOwner } from "./person-name.ts";

/** Maximum number of approver groups of a workspace. */
const MAX_GROUPS = 200;
/** Maximum number of mandates that a group shows. */
const MAX_SHOWN_USES = 100;

/** A group as an administrator gives it. */
export interface ApproverGroupDraft {
  readonly name: string;
  readonly description: string;
  readonly members: readonly string[];
  readonly oidcGroups: readonly { readonly issuer: string; readonly group: string }[];
  readonly deputies: readonly string[];
}

/** A mandate in force that names a group. */
export interface ApproverGroupUse {
  readonly mandateId: string;
  readonly mandateName: string;
}

/** A group as it is shown. */
export interface ApproverGroupView extends Pick<ApproverGroupState, "sealed" | "createdAtMs" | "updatedAtMs"> {
  /** By name, 100 at most. */
  readonly usedBy: readonly ApproverGroupUse[];
  /** Number of mandates in force that name it. */
  readonly uses: number;
}

const groupNotFound = (name: string): ControlPlaneError =>
  notFound(ErrorReason.APPROVER_GROUP_NOT_FOUND, "approver group", { approver_group: name });

/** Returns people sorted, each once. Throws INVALID_FIELD with those that name nobody. */
function peopleFrom(field: string, names: readonly string[]): readonly string[] {
  const faults: FieldViolation[] = [];
  const people = new Map<string, string>();
  for (const [index, given] of names.entries()) {
    const name = given.trim();
    const fault = ownerFault(name);
    if (fault === undefined) people.set(partyOfOwner(name), people.get(partyOfOwner(name)) ?? name);
    else faults.push({ field: `${field}[${index}]`, description: fault, reason: "INVALID_FIELD" });
  }
  const [first] = faults;
  if (first === undefined) return [...people.values()].sort();
  const metadata = { field: first.field, violations: String(faults.length) };
  const message = `\`${first.field}\` ${first.description}`;
  throw new ControlPlaneError(ErrorReason.INVALID_FIELD, message, metadata, { violations: faults });
}

function sealedFrom({ name, description, members, oidcGroups, deputies }: ApproverGroupDraft): SealedApproverGroup {
  const groups = new Map(
    oidcGroups.map(({ issuer, group }) => [`${issuer}|${group}`, { issuer, group: checkedText("oidc_groups", group) }]),
  );
  return {
    name,
    description: checkedText("description", description),
    members: peopleFrom("members", members),
    oidc_groups: [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each),
    deputies: peopleFrom("deputies", deputies),
  };
}

/** Lists the mandates in force that name a group, by name. */
function usersOf({ policies }: WorkspaceState, name: string) {
  return [...policies.mandates.values()]
    .map(({ compiled }) => compiled)
    .filter(({ rules }) => rules.some(({ source }) => approverGroupsOf(source).includes(name)))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function viewOf(state: WorkspaceState, { sealed, createdAtMs, updatedAtMs }: ApproverGroupState): ApproverGroupView {
  const users = usersOf(state, sealed.name).map(({ id, name }) => ({ mandateId: id, mandateName: name }));
  return { sealed, createdAtMs, updatedAtMs, usedBy: users.slice(0, MAX_SHOWN_USES), uses: users.length };
}

function inUse(name: string, mandate: { readonly id: string; readonly name: string }, why: string): ControlPlaneError {
  const message = `approver group \`${name}\` is named by mandate \`${mandate.name}\`${why}; archive or change it first`;
  const metadata = { approver_group: name, mandate_id: mandate.id, mandate_name: mandate.name };
  return new ControlPlaneError(ErrorReason.APPROVER_GROUP_IN_USE, message, metadata);
}

/** Throws APPROVER_GROUP_IN_USE if a rule in force would ask for more people than its groups have after the change. */
function assertEnough(state: WorkspaceState, after: SealedApproverGroup): void {
  for (const mandate of usersOf(state, after.name)) {
    for (const { source, path } of mandate.rules) {
      const names = approverGroupsOf(source);
      if (!names.includes(after.name)) continue;
      const sizes = names.map((name) => (name === after.name ? sizeOfGroup(after) : state.approverGroups.sizeOf(name)));
      if (sizes.some((size) => size?.hasOidcGroups)) continue;
      const people = new Set(sizes.flatMap((size) => [...(size?.members ?? [])]));
      const { atLeast = 1 } = source.approvers ?? {};
      if (people.size < atLeast) {
        throw inUse(
          after.name,
          mandate,
          `, whose \`${path}\` asks for ${atLeast} people where ${people.size} are left`,
        );
      }
    }
  }
}

/**
 * Makes a group have exactly some people; nothing is sealed if it has them already. Throws INVALID_FIELD and APPROVER_GROUP_IN_USE.
 */
export function putApproverGroup(log: WorkspaceLog, by: string, draft: ApproverGroupDraft): Promise<ApproverGroupView> {
  const sealed = sealedFrom(draft);
  return log.change(by, async (scope) => {
    const { transaction, state, nowMs, seal } = scope;
    const before = state.approverGroups.all.get(sealed.name);
    if (before !== undefined && canonicalJson(before.sealed) === canonicalJson(sealed)) return viewOf(state, before);
    if (before === undefined && state.approverGroups.all.size >= MAX_GROUPS)
      throw invalidField("name", `would be approver group ${MAX_GROUPS + 1}; a workspace has ${MAX_GROUPS}`);
    assertEnough(state, sealed);
    const times = { createdAtMs: before?.createdAtMs ?? nowMs, updatedAtMs: nowMs };
    const { oidc_groups: oidcGroups, ...rest } = structuredClone(sealed);
    await transaction.upsert(ApproverGroupEntity, {
      workspaceId: state.workspaceId,
      ...rest,
      oidcGroups: oidcGroups as never,
      ...times,
    } as never);
    seal({ type: "approver_group_changed", approver_group: sealed });
    return viewOf(state, { sealed, ...sizeOfGroup(sealed), ...times });
  });
}

/** Deletes a group and returns it as it was. Throws APPROVER_GROUP_NOT_FOUND, or APPROVER_GROUP_IN_USE while a mandate in force names it. */
export function deleteApproverGroup(log: WorkspaceLog, by: string, name: string): Promise<ApproverGroupView> {
  return log.change(by, async ({ transaction, state, seal }) => {
    const view = getApproverGroup(state, name);
    const [first] = usersOf(state, name);
    if (first !== undefined) throw inUse(name, first, view.uses > 1 ? ` and ${view.uses - 1} more` : "");
    await transaction.nativeDelete(ApproverGroupEntity, { workspaceId: state.workspaceId, name });
    seal({ type: "approver_group_deleted", name });
    return view;
  });
}

/** Returns a group with the mandates that name it. Throws APPROVER_GROUP_NOT_FOUND. */
export function getApproverGroup(state: WorkspaceState, name: string): ApproverGroupView {
  const found = state.approverGroups.all.get(name);
  if (found === undefined) throw groupNotFound(name);
  return viewOf(state, found);
}

/** Lists the groups by name; a position is a name. */
export function listApproverGroups(
  state: WorkspaceState,
  { size, after }: PageRequest<string>,
): Page<ApproverGroupView, string> {
  const found = [...state.approverGroups.all.values()]
    .filter(({ sealed }) => after === undefined || sealed.name > after)
    .sort((a, b) => (a.sealed.name < b.sealed.name ? -1 : 1))
    .slice(0, size + 1)
    .map((each) => viewOf(state, each));
  return pageFrom(
    found,
    size,
    ({ sealed }) => sealed.name,
    ({ sealed, usedBy }) => jsonBytes(sealed) + usedBy.length * 300,
  );
}
