export type { ApiKeyRow as KeyRow } from "../store/entities.ts";
export {
  type AgentFilter,
  type AgentRegistration,
  deactivateAgent,
  listAgents,
  registerAgent,
} from "./agents.ts";
export {
  type Authenticator,
  type AuthenticatorOptions,
  createAuthenticator,
  type KeyHolder,
  type VerifyToken,
} from "./authenticator.ts";
export { type DecisionFilter, listDecisionReceipts } from "./decisions.ts";
export { type DefaultWorkspaceOptions, ensureDefaultWorkspace } from "./default-workspace.ts";
export {
  addDepartmentMember,
  createDepartment,
  type DepartmentDraft,
  deleteDepartment,
  listDepartments,
  listMembers,
  removeDepartmentMember,
} from "./departments.ts";
export { type FirstStart, type FirstStartOptions, prepareFirstStart } from "./first-start.ts";
export { type CreatedKey, createKey, type KeyDraft, listKeys, revokeKey } from "./keys.ts";
export { agentOf, departmentOf, toolOf } from "./lookups.ts";
export { getMandate, listMandates, listMandateVersions } from "./mandate-lists.ts";
export type { MandateDraft, MandateStatusWord, MandateView } from "./mandate-view.ts";
export { archiveMandate, type CompiledDraft, compileDraft, createMandate, updateMandate } from "./mandates.ts";
export type { Page, PageRequest } from "./page.ts";
export { type PastedDefinition, toolsFromPaste } from "./paste.ts";
export {
  createFlattenMemo,
  type FlattenMemo,
  listTools,
  listToolVersions,
  type ToolView,
  toolViewFrom,
} from "./tool-lists.ts";
export { type RegisteredTool, registerTool, registerTools, type ToolDraft } from "./tools.ts";
export { type AgentChange, type WatchAgentOptions, watchAgent } from "./watch-agent.ts";
export {
  type CreatedWorkspace,
  createWorkspace,
  DEFAULT_WORKSPACE_ID,
  getWorkspace,
  listWorkspaces,
  updateWorkspace,
  type WorkspaceDraft,
  type WorkspaceSettings,
} from "./workspaces.ts";
