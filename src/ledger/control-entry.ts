import type { JsonObject } from "./canonical.ts";

/** A workspace's settings as sealed. */
export type SealedWorkspace = {
  readonly workspace_id: string;
  readonly name: string;
  /** `allow`, `block` or `escalate`. */
  readonly default_decision: string;
  readonly initial_trust_tenths: number;
};

/** An agent's registration as sealed. */
export type SealedAgent = {
  readonly agent_id: string;
  readonly name: string;
  readonly framework: string;
  readonly description: string;
  readonly capabilities: readonly string[];
  readonly allowed_action_types: readonly string[];
  readonly denied_action_types: readonly string[];
  readonly trust_tenths: number;
};

/** A department as sealed. */
export type SealedDepartment = {
  readonly department_id: string;
  readonly name: string;
  readonly description: string;
};

/** One version of a tool as sealed. */
export type SealedTool = {
  readonly name: string;
  readonly version: number;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly digest: string;
  /** Number of the proto enum `ToolSource`. */
  readonly source: number;
};

/** One version of a mandate as sealed. */
export type SealedMandate = {
  readonly mandate_id: string;
  readonly version: number;
  readonly digest: string;
  /** The proto JSON of what people wrote. */
  readonly definition: JsonObject;
};

/** A key as sealed: everything but its secret. */
export type SealedKey = {
  readonly key_id: string;
  readonly name: string;
  readonly role: number;
  readonly agent_id: string | null;
  readonly prefix: string;
};

/** A change that is no decision, by the word of its type. Every one is sealed, so that the log explains each decision. */
export type ControlChange =
  | { readonly type: "workspace_created"; readonly workspace: SealedWorkspace }
  | { readonly type: "workspace_updated"; readonly workspace: SealedWorkspace }
  | { readonly type: "agent_registered"; readonly agent: SealedAgent }
  | { readonly type: "agent_deactivated"; readonly agent_id: string }
  | { readonly type: "department_created"; readonly department: SealedDepartment }
  | { readonly type: "department_deleted"; readonly department_id: string }
  | { readonly type: "department_member_added"; readonly department_id: string; readonly agent_id: string }
  | { readonly type: "department_member_removed"; readonly department_id: string; readonly agent_id: string }
  | { readonly type: "tool_registered"; readonly tool: SealedTool }
  | { readonly type: "mandate_published"; readonly mandate: SealedMandate }
  | { readonly type: "mandate_archived"; readonly mandate_id: string }
  | {
      readonly type: "escalation_resolved";
      readonly escalation_id: string;
      readonly agent_id: string;
      /** `approved` or `rejected`. */
      readonly resolution: string;
      readonly note: string | null;
    }
  | { readonly type: "key_created"; readonly key: SealedKey }
  | { readonly type: "key_revoked"; readonly key_id: string };

/** Where and by whom a change was sealed. */
export interface ControlEnvelope {
  readonly workspaceId: string;
  readonly seq: number;
  readonly atMs: number;
  /** The key that made the change, `key_…`; `system` for the service itself. */
  readonly by: string;
  /** Root and size of the tree before the change was appended; base64. */
  readonly previousRoot: string;
  readonly previousSize: number;
}

/** The entry of a change, ready for its RFC 8785 form. */
export function controlEntryFrom(change: ControlChange, envelope: ControlEnvelope): JsonObject {
  return {
    ...change,
    workspace_id: envelope.workspaceId,
    seq: envelope.seq,
    at: new Date(envelope.atMs).toISOString(),
    by: envelope.by,
    previous_root: envelope.previousRoot,
    previous_size: envelope.previousSize,
  };
}
