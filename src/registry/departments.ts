import { ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { comparableName } from "../policy/names.ts";
import type { DepartmentState } from "../state/agents.ts";
import type { MandateState } from "../state/policies.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { DepartmentEntity, DepartmentMemberEntity } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { getAgent } from "./agents.ts";
import { checkedName, checkedText } from "./checked-text.ts";
import { jsonBytes, newestPage, type Page, type PageRequest } from "./page.ts";

/** Fields of a new department. */
interface DepartmentDraft {
  readonly name: string;
  readonly description: string;
}

/** Returns a department. Throws DEPARTMENT_NOT_FOUND. */
export function getDepartment(state: WorkspaceState, departmentId: string): DepartmentState {
  const department = state.departments.all.get(departmentId);
  if (department !== undefined) return department;
  throw notFound(ErrorReason.DEPARTMENT_NOT_FOUND, "department", { department_id: departmentId });
}

function assertNameFree(state: WorkspaceState, name: string): void {
  const wanted = comparableName(name);
  for (const { department } of state.departments.all.values()) {
    if (comparableName(department.name) !== wanted) continue;
    const metadata = { name: department.name, department_id: department.department_id };
    throw new ControlPlaneError(ErrorReason.DEPARTMENT_EXISTS, `a department \`${department.name}\` exists`, metadata);
  }
}

/** Creates a department without members. Throws INVALID_FIELD for a text that is no name, and DEPARTMENT_EXISTS for
 * the name of another, however it is spelled. */
export async function createDepartment(
  log: WorkspaceLog,
  by: string,
  draft: DepartmentDraft,
): Promise<DepartmentState> {
  const name = checkedName("name", draft.name);
  const description = checkedText("description", draft.description);
  const department_id = createId("dep");
  const state = await log.change(by, async ({ transaction, state, nowMs, nextSeq, seal }) => {
    assertNameFree(state, name);
    await transaction.insert(DepartmentEntity, {
      workspaceId: state.workspaceId,
      departmentId: department_id,
      name,
      description,
      createdAtMs: nowMs,
      createdSeq: nextSeq(),
    });
    seal({ type: "department_created", department: { department_id, name, description } });
    return state;
  });
  return getDepartment(state, department_id);
}

/** Tests whether a mandate's scope or one of its velocity rules names a department. */
function namesDepartment({ compiled }: MandateState, departmentId: string): boolean {
  const inRule = compiled.rules.some(({ source }) => source.conditions?.departmentId === departmentId);
  return inRule || compiled.departmentId === departmentId;
}

function assertUnused(state: WorkspaceState, departmentId: string): void {
  const users = [...state.policies.mandates.values()].filter((mandate) => namesDepartment(mandate, departmentId));
  const [first] = users;
  if (first === undefined) return;
  const { id, name } = first.compiled;
  const more = users.length > 1 ? ` and ${users.length - 1} more` : "";
  const message = `department \`${departmentId}\` is named by mandate \`${name}\`${more}; archive or change it first`;
  const metadata = {
    department_id: departmentId,
    mandate_id: id,
    mandate_name: name,
    mandates: String(users.length),
  };
  throw new ControlPlaneError(ErrorReason.DEPARTMENT_IN_USE, message, metadata);
}

/** Deletes a department and returns it. Throws DEPARTMENT_NOT_FOUND, or DEPARTMENT_IN_USE while a mandate names it. */
export function deleteDepartment(log: WorkspaceLog, by: string, departmentId: string): Promise<DepartmentState> {
  return log.change(by, async ({ transaction, state, seal }) => {
    const department = getDepartment(state, departmentId);
    assertUnused(state, departmentId);
    const key = { workspaceId: state.workspaceId, departmentId };
    await transaction.nativeDelete(DepartmentMemberEntity, key);
    await transaction.nativeDelete(DepartmentEntity, key);
    seal({ type: "department_deleted", department_id: departmentId });
    // A copy, since the fold of this change empties `members`.
    return { ...department, members: new Set(department.members) };
  });
}

function membership({ state }: ChangeScope, departmentId: string, agentId: string) {
  const department = getDepartment(state, departmentId);
  getAgent(state, agentId);
  const row = { workspaceId: state.workspaceId, departmentId, agentId };
  return { department, row, isMember: department.members.has(agentId) };
}

/** Adds an agent to a department; nothing is sealed for a member. Throws DEPARTMENT_NOT_FOUND or AGENT_NOT_FOUND. */
export function addDepartmentMember(
  log: WorkspaceLog,
  by: string,
  departmentId: string,
  agentId: string,
): Promise<DepartmentState> {
  return log.change(by, async (scope) => {
    const { department, row, isMember } = membership(scope, departmentId, agentId);
    if (isMember) return department;
    await scope.transaction.insert(DepartmentMemberEntity, row);
    scope.seal({ type: "department_member_added", department_id: departmentId, agent_id: agentId });
    return department;
  });
}

/** Removes an agent from a department; nothing is sealed unless it is a member. Throws as `addDepartmentMember`. */
export function removeDepartmentMember(
  log: WorkspaceLog,
  by: string,
  departmentId: string,
  agentId: string,
): Promise<DepartmentState> {
  return log.change(by, async (scope) => {
    const { department, row, isMember } = membership(scope, departmentId, agentId);
    if (!isMember) return department;
    await scope.transaction.nativeDelete(DepartmentMemberEntity, row);
    scope.seal({ type: "department_member_removed", department_id: departmentId, agent_id: agentId });
    return department;
  });
}

const bytesOf = ({ department }: DepartmentState): number => jsonBytes(department);

/** Lists departments, newest first; a position is the index of the entry that created the department. */
export function listDepartments(state: WorkspaceState, page: PageRequest): Page<DepartmentState> {
  return newestPage(state.departments.all.values(), ({ createdSeq }) => createdSeq, page, undefined, bytesOf);
}

/** Returns up to `limit` ids of a department's agents, sorted. */
export function listMembers({ members }: DepartmentState, limit: number): string[] {
  return [...members].sort().slice(0, limit);
}
