import type { JsonObject as ProtoJsonObject } from "@bufbuild/protobuf";
import type { ListKind } from "../policy/lists/kinds.ts";
import type { Decision } from "../policy/types.ts";
import type { ObservedSource } from "../provenance/sources.ts";
import type { JsonObject } from "../tree/canonical.ts";
import type { EscalationStatus } from "./escalations.ts";

/** Allowed actions whose outcomes a workspace tracks: those that reserved a budget or were claimed, or all. */
export type OutcomeTracking = "tracked" | "all";

/** Callers who may say what an agent was asked: its own key as well, or operators alone. */
export type PromptSource = "agent" | "operator";

/** Settings of a workspace as sealed. */
export type SealedWorkspace = {
  readonly workspace_id: string;
  readonly name: string;
  /** `allow`, `block` or `escalate`. */
  readonly default_decision: string;
  /** `allow`, `block` or `escalate`. */
  readonly unknown_tools: string;
  readonly initial_trust_tenths: number;
  /** Top-level members of the metadata that the action digest leaves out. */
  readonly approval_ignores: readonly string[];
  /** Seconds that an escalation stays pending, unless its rule says otherwise. */
  readonly escalation_ttl_seconds: number;
  /** Seconds that an approval is usable. */
  readonly approval_ttl_seconds: number;
  /** True if a key that asked for an approval cannot give it. */
  readonly four_eyes: boolean;
  readonly max_pending_escalations_per_agent: number;
  /** Days after which new API keys expire, at most; 0 if they expire only on request. */
  readonly key_ttl_days: number;
  /** True while every action is blocked. Absent in entries from before the setting. */
  readonly halted?: boolean;
  /** Calls per second of one key, and of the workspace, in each process; empty: no limit. Absent in entries from before the settings. */
  readonly rate_limit_key?: string;
  readonly rate_limit_workspace?: string;
  /** Allowed actions whose outcomes are tracked. Absent in entries from before the setting. */
  readonly outcomes?: OutcomeTracking;
  /** Seconds after which a pending outcome becomes unknown. Absent in entries from before the setting. */
  readonly outcome_timeout_seconds?: number;
  /** People who must accept a change of mandates or lists; 0 for none. Absent in entries from before the setting. */
  readonly mandate_reviews?: number;
  /** Callers who may say what an agent was asked. Absent in entries from before the setting, which mean `agent`. */
  readonly prompt_from?: PromptSource;
};

/** Something that every action of an agent must have. */
export type AgentRequirement = "session" | "prompt" | "contract";

/** Registration of an agent as sealed. */
export type SealedAgent = {
  readonly agent_id: string;
  readonly name: string;
  readonly framework: string;
  readonly description: string;
  readonly capabilities: readonly string[];
  readonly allowed_action_types: readonly string[];
  readonly denied_action_types: readonly string[];
  readonly trust_tenths: number;
  /** Absent for nothing. */
  readonly requires?: readonly AgentRequirement[];
};

/** A department as sealed. */
export type SealedDepartment = {
  readonly department_id: string;
  readonly name: string;
  readonly description: string;
};

/** Meaning of a tool's results and arguments for provenance, as sealed: paths. Members without paths are absent. */
export type SealedToolProvenance = {
  readonly trusted_fields?: readonly string[];
  readonly free_fields?: readonly string[];
  readonly session_arguments?: readonly string[];
  readonly session_fields?: readonly string[];
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
  /** Absent if nothing is declared. */
  readonly provenance?: SealedToolProvenance;
};

/** One version of a mandate as sealed. */
export type SealedMandate = {
  readonly mandate_id: string;
  readonly version: number;
  readonly digest: string;
  /** The mandate as its author wrote it, in proto JSON. */
  readonly definition: JsonObject;
  /** Note of the author; absent for none. */
  readonly note?: string;
  /** The version that this one restores; absent for a version that was written. */
  readonly restored_from?: number;
  /** Key or person that proposed it; absent where the author of the entry wrote it. */
  readonly author?: string;
};

/** A pack after a change, as sealed. */
export type SealedPack = {
  readonly name: string;
  /** Number of changes that were applied, from 1. */
  readonly version: number;
  /** Digest of its mandates, as `packDigest` gives it. */
  readonly digest: string;
  /** Its mandates, sorted. */
  readonly mandate_ids: readonly string[];
};

/** A change of a list as sealed. */
export type SealedListChange = {
  readonly name: string;
  readonly kind: ListKind;
  readonly operation: "put" | "add" | "remove" | "delete";
  /** Number of values that the change added and removed, and of those that the list has afterwards. */
  readonly added: number;
  readonly removed: number;
  readonly size: number;
  /** Digest of the list before; null if there was none. */
  readonly digest_before: string | null;
  /** Digest of the list afterwards; null if it was deleted. */
  readonly digest_after: string | null;
  /** The values, sorted; of more than 1,000 the first, those added before those removed. None of a deletion. */
  readonly added_values: readonly string[];
  readonly removed_values: readonly string[];
  /** True if values are left out: then those of the whole list are stored under `digest_after`. */
  readonly is_cut: boolean;
};

/** A change that waits for others to accept it. Mandates are as their authors wrote them, in proto JSON. */
export type ProposedChange =
  | { readonly kind: "create_mandate"; readonly definition: JsonObject; readonly note: string }
  | {
      readonly kind: "update_mandate";
      readonly mandate_id: string;
      readonly definition: JsonObject;
      readonly note: string;
    }
  | {
      readonly kind: "restore_mandate";
      readonly mandate_id: string;
      readonly version: number;
      readonly note: string;
    }
  | { readonly kind: "archive_mandate"; readonly mandate_id: string }
  | {
      readonly kind: "apply_pack";
      readonly name: string;
      readonly definitions: readonly JsonObject[];
      readonly adopt: boolean;
      readonly note: string;
    }
  | {
      readonly kind: "put_list";
      readonly name: string;
      readonly list_kind: ListKind;
      readonly values: readonly string[];
    }
  | {
      readonly kind: "add_list_values" | "remove_list_values";
      readonly name: string;
      readonly values: readonly string[];
    }
  | { readonly kind: "delete_list"; readonly name: string }
  | { readonly kind: "update_workspace"; readonly settings: JsonObject };

/** A proposal as sealed. */
export type SealedProposal = {
  readonly proposal_id: string;
  /** The change; without its values if they are more than 1,000. */
  readonly change: ProposedChange;
  /** SHA-256 over the RFC 8785 form of the whole change, lower-case hexadecimal. */
  readonly change_digest: string;
  /** State of what it changes when it was made; another state makes it stale. */
  readonly base: JsonObject;
  /** Others who must accept it. */
  readonly needed: number;
  /** RFC 3339 UTC. */
  readonly expires_at: string;
};

/** An approver group as sealed. */
export type SealedApproverGroup = {
  readonly name: string;
  readonly description: string;
  /** People and owners of keys, sorted. */
  readonly members: readonly string[];
  /** Groups of identity providers, sorted. */
  readonly oidc_groups: readonly { readonly issuer: string; readonly group: string }[];
  /** People and owners of keys who count once an escalation was reminded of, sorted. */
  readonly deputies: readonly string[];
};

/** Demand of a rule that escalates an action, as sealed. */
export type SealedDemand = {
  readonly mandate_id: string;
  /** Path of the rule in the mandate. */
  readonly rule: string;
  /** Approver groups, of which a member of one counts; empty for every operator. */
  readonly groups: readonly string[];
  readonly at_least: number;
  /** RFC 3339 UTC, from which people are reminded. Absent for no reminder. */
  readonly remind_at?: string;
};

/** An approval that one of several people gave, as sealed with the last one. */
export type SealedApproval = {
  /** Key or person. */
  readonly by: string;
  /** Log index of its entry; absent for the last one, which has none of its own. */
  readonly seq?: number;
  /** Groups, of those that the escalation asks for, that the approver counts in. */
  readonly groups: readonly string[];
  /** Person or owner that the key counts as; absent for a key that counts as itself, where one person is enough. */
  readonly party?: string;
};

/** A public key that the service signs with, as sealed. */
export type SealedSigningKey = {
  /** RFC 7638 thumbprint. */
  readonly key_id: string;
  /** PEM (SubjectPublicKeyInfo), ECDSA P-256. */
  readonly public_key: string;
};

/** An API key as sealed, without its secret. */
export type SealedKey = {
  readonly key_id: string;
  readonly name: string;
  readonly role: number;
  readonly agent_id: string | null;
  readonly prefix: string;
  /** Person or label; absent for a key that counts as its maker. */
  readonly owner?: string;
};

/** A person as sealed, by ids alone: what a person is called can change and be erased. */
export type SealedPerson = {
  /** `per_…`. */
  readonly person_id: string;
  /** Owner of the person's keys: `oidc:{issuer}|{subject}`, or the id of a person without an issuer. */
  readonly actor: string;
  /** Role that an admin gave; null if groups alone give one. */
  readonly role: number | null;
};

/** The kinds of authority. */
export type AuthorityKind =
  | "session"
  | "credential"
  | "grant"
  | "temporal_window"
  | "intent_contract"
  | "federation_token"
  | "mcp_tool_policy";

/** Step of a plan: a tool that may be called, with conditions on its arguments in proto JSON. */
export type SealedPlanStep = {
  readonly tool: string;
  readonly conditions?: ProtoJsonObject;
  /** Maximum number of allowed calls. Default: no limit. */
  readonly max_calls?: number;
};

/** Decision on an action that an intent contract covers and does not admit; `rules` leaves it to the mandates. */
export type OutsideContract = "block" | "escalate" | "rules";

/** A piece of authority as sealed. Members that do not apply to its kind are omitted. */
export type SealedAuthority = {
  readonly id: string;
  readonly kind: AuthorityKind;
  /** Agent that may use it; for a grant the grantee. Null for an MCP tool policy for every agent. */
  readonly agent_id: string | null;
  /** True if the agent made it for itself; absent otherwise. */
  readonly by_agent?: true;
  /** Epoch milliseconds; null for never. */
  readonly expires_at_ms: number | null;
  /** Number of actions that may be allowed under it; null for no limit. */
  readonly max_uses: number | null;
  /** Grant: the agent that delegates. */
  readonly grantor_agent_id?: string;
  /** Grant: the grant that it passes on. */
  readonly parent_grant_id?: string;
  /** Grant: the seconds that it was asked for, else those of its parent. It may end earlier, with its parent. */
  readonly ttl_seconds?: number;
  /** Grant, window, contract, token: action types that it admits. */
  readonly action_types?: readonly string[];
  /** Window: time at which it opens. */
  readonly starts_at_ms?: number;
  /** Contract: the tools inside it; empty for any. */
  readonly tools?: readonly string[];
  /** Contract: its plan, in the order in which steps are tried. */
  readonly steps?: readonly SealedPlanStep[];
  /** Contract: the session whose actions it covers. */
  readonly session_id?: string;
  /** Contract: decision on an action that it covers and does not admit. Default `block`. */
  readonly outside?: OutsideContract;
  /** Token: the cap on the agent's trust. */
  readonly max_trust_tenths?: number;
  /** Token: the party that is to accept it. */
  readonly audience?: string;
  /** Policy: the MCP server; `*` for any. */
  readonly server?: string;
  /** Policy: the tool pattern. */
  readonly tool?: string;
  /** Policy: its decision. */
  readonly decision?: Decision;
  /** Session's purpose, credential's name, window's reason, contract's goal. */
  readonly text?: string;
  /** Credential: the first characters of its secret. */
  readonly prefix?: string;
};

/** Ids of the authority that a revocation ended, sorted, by the keys of the certificate's counts. */
export type RevokedIds = {
  readonly sessions: readonly string[];
  readonly credentials: readonly string[];
  readonly grants_given: readonly string[];
  readonly grants_received: readonly string[];
  readonly temporal_windows: readonly string[];
  readonly intent_contracts: readonly string[];
  readonly federation_tokens: readonly string[];
  readonly mcp_tool_policies: readonly string[];
};

/** An MCP server as sealed, without its secrets. */
export type SealedMcpServer = {
  readonly name: string;
  /** Null for a command. Parts that may be secrets are masked, in entries from before they are not. */
  readonly url: string | null;
  /** Null for a URL. */
  readonly command: string | null;
  /** Masked as the URL is. */
  readonly args: readonly string[];
  /** Names of the environment variables, sorted. */
  readonly env_names: readonly string[];
  /** Names of the headers, sorted. */
  readonly header_names: readonly string[];
  /** `open` or `quarantine`. */
  readonly mode: string;
  /** Methods that pass undecided, sorted. Absent, as the members below, in entries from before they could be set. */
  readonly pass_methods?: readonly string[];
  /** Keys of `_meta` that are passed on, sorted. */
  readonly pass_meta?: readonly string[];
  /** Maximum age of a listing: `each_call`, or seconds. */
  readonly drift?: string;
  /** Seconds after which the idle command is ended; null for a URL. */
  readonly idle_seconds?: number | null;
  /** Kinds of personal values that are replaced in its messages, sorted. */
  readonly scrub?: readonly string[];
};

/** One version of a tool's definition as sealed. */
export type SealedMcpTool = {
  readonly server: string;
  /** Name as its server knows it. */
  readonly name: string;
  readonly version: number;
  /** SHA-256 over the RFC 8785 form of the definition, lower-case hexadecimal. */
  readonly digest: string;
};

/** One version of another definition of an MCP server as sealed. */
export type SealedMcpDefinition = {
  readonly server: string;
  /** `prompt`, `resource`, `resource_template` or `instructions`. */
  readonly kind: string;
  /** Name of a prompt, URI of a resource, URI template; empty for instructions. */
  readonly name: string;
  readonly version: number;
  /** SHA-256 over the RFC 8785 form of the definition, lower-case hexadecimal. */
  readonly digest: string;
};

/** Causes of a rejection without a person: the escalation expired, or its last ask was withdrawn. */
export type EscalationCause = "expiry" | "withdrawal";

/** An edit of an escalation as sealed: the same action with other arguments, and the decision on it. */
export type SealedEdit = {
  readonly arguments: JsonObject;
  /** Digest of the action as it was asked for. */
  readonly action_digest: string;
  /** Digest of the edited action. */
  readonly edited_digest: string;
  readonly decision: Exclude<Decision, "block">;
  /** The sealed decision on the edited action, if it escalates. */
  readonly decision_id?: string;
  /** Its escalation. */
  readonly replaced_by?: string;
};

/** A change other than a decision. All are sealed, so that the log explains every decision. */
export type ControlChange =
  | {
      readonly type: "workspace_created";
      readonly workspace: SealedWorkspace;
      readonly policy_digest: string;
      /** The key that signs from the first checkpoint on. */
      readonly signing_key?: SealedSigningKey;
    }
  | { readonly type: "workspace_updated"; readonly workspace: SealedWorkspace }
  | { readonly type: "agent_registered"; readonly agent: SealedAgent }
  | { readonly type: "agent_deactivated"; readonly agent_id: string }
  | {
      readonly type: "agent_requirements_set";
      readonly agent_id: string;
      /** Everything that each action must have from here on; empty for nothing. */
      readonly requires: readonly AgentRequirement[];
    }
  | { readonly type: "department_created"; readonly department: SealedDepartment }
  | { readonly type: "department_deleted"; readonly department_id: string }
  | { readonly type: "department_member_added"; readonly department_id: string; readonly agent_id: string }
  | { readonly type: "department_member_removed"; readonly department_id: string; readonly agent_id: string }
  | { readonly type: "tool_registered"; readonly tool: SealedTool }
  | {
      /** A new description of a version whose schema did not change. */
      readonly type: "tool_described";
      readonly tool: Pick<SealedTool, "name" | "version" | "digest" | "description">;
    }
  | {
      /** Another declaration of what results and arguments mean for provenance. Later versions keep it. */
      readonly type: "tool_provenance_declared";
      /** Null for a declaration that was removed. */
      readonly tool: Pick<SealedTool, "name" | "version" | "digest"> & {
        readonly provenance: SealedToolProvenance | null;
      };
    }
  | {
      readonly type: "mandate_published";
      readonly mandate: SealedMandate;
      /** Digest of the policy set that the change puts in force. Decisions carry the digest of the set in force. */
      readonly policy_digest: string;
    }
  | { readonly type: "mandate_archived"; readonly mandate_id: string; readonly policy_digest: string }
  | {
      /** Every change of one ApplyPack, in force together. */
      readonly type: "pack_applied";
      readonly pack: SealedPack;
      /** Versions put in force, in the order in which they were written. */
      readonly published: readonly SealedMandate[];
      /** Ids of the mandates taken out of force, sorted. */
      readonly archived: readonly string[];
      readonly policy_digest: string;
    }
  | { readonly type: "list_changed"; readonly list: SealedListChange }
  | { readonly type: "proposal_made"; readonly proposal: SealedProposal }
  | {
      /** One acceptance. The last one comes directly before the entries of the change. */
      readonly type: "proposal_accepted";
      readonly proposal_id: string;
      /** Acceptances, this one included, and those that it needs. */
      readonly given: number;
      readonly needed: number;
    }
  | { readonly type: "proposal_rejected"; readonly proposal_id: string; readonly note: string }
  | { readonly type: "approver_group_changed"; readonly approver_group: SealedApproverGroup }
  | { readonly type: "approver_group_deleted"; readonly name: string }
  | {
      /** A session was told what its agent was asked or read. Its values are kept as digests under the key of the session. */
      readonly type: "session_observed";
      readonly session_id: string;
      readonly agent_id: string;
      readonly observation_id: string;
      readonly source: "prompt" | "result";
      /** The decision whose result it is. */
      readonly decision_id?: string;
      /** Tool of that decision. */
      readonly tool?: string;
      /** Keyed digest of the content, lower-case hexadecimal. Of older entries the SHA-256 of the digests of all values. */
      readonly values_digest: string;
      /** Numbers of new values that are kept, by where they were seen. */
      readonly values: Readonly<Partial<Record<ObservedSource, number>>>;
      /** Indexes of the entries of earlier observations whose values the session forgets to make room. */
      readonly forgets?: readonly number[];
      /** True from the entry on that leaves values out or forgets some. */
      readonly full?: true;
    }
  | {
      readonly type: "escalation_resolved";
      readonly escalation_id: string;
      readonly agent_id: string;
      readonly resolution: Exclude<EscalationStatus, "pending">;
      readonly note: string | null;
      /** Asks that were not withdrawn. */
      readonly asked: number;
      /** Cause of a rejection without a person. */
      readonly cause?: EscalationCause;
      /** RFC 3339 UTC, until when an approval is usable. Absent for a rejection. */
      readonly expires_at?: string;
      /** Edit that a person made in place of the rejected action; approved at once, unless the workspace requires four eyes. */
      readonly edit?: SealedEdit;
      /** Approval: the escalation whose edit asked for this one. */
      readonly edited_from?: string;
      /** Approval that rules' approvers gave together: all that count, in their order. */
      readonly approvals?: readonly SealedApproval[];
      /** Approval: the session that takes values of the action as approved from now on, and how many. */
      readonly session_id?: string;
      readonly values_approved?: number;
      /** Indexes of the entries of observations whose values the session forgets to make room. */
      readonly forgets?: readonly number[];
    }
  | {
      /** One of several approvals that an escalation needs; the last is an `escalation_resolved`. */
      readonly type: "escalation_approval_given";
      readonly escalation_id: string;
      readonly agent_id: string;
      readonly note: string | null;
      /** Groups, of those that the escalation asks for, that the approver counts in. */
      readonly groups: readonly string[];
      readonly party?: string;
    }
  | {
      /** The author takes back their approval. */
      readonly type: "escalation_approval_withdrawn";
      readonly escalation_id: string;
      readonly agent_id: string;
    }
  | {
      /** People are reminded of a pending escalation; deputies of the groups count from here on. */
      readonly type: "escalation_reminded";
      readonly escalation_id: string;
      readonly agent_id: string;
      /** Groups of the demands that are due and not met, sorted. */
      readonly groups: readonly string[];
    }
  | {
      /** More time for a pending escalation. */
      readonly type: "escalation_extended";
      readonly escalation_id: string;
      readonly agent_id: string;
      /** Seconds by which the expiry moved. */
      readonly seconds: number;
      /** RFC 3339 UTC, the expiry from now on. */
      readonly expires_at: string;
    }
  | {
      /** Withdrawal of one of several asks. The last withdrawal is an `escalation_resolved`. */
      readonly type: "escalation_withdrawn";
      readonly escalation_id: string;
      readonly agent_id: string;
      /** Asks that are left. */
      readonly asked: number;
    }
  | { readonly type: "key_created"; readonly key: SealedKey }
  | { readonly type: "key_revoked"; readonly key_id: string }
  | { readonly type: "person_created"; readonly person: SealedPerson }
  | { readonly type: "person_updated"; readonly person: SealedPerson }
  | { readonly type: "person_invited"; readonly person_id: string; readonly expires_at: string }
  | { readonly type: "person_deactivated"; readonly person: SealedPerson }
  | { readonly type: "person_reactivated"; readonly person: SealedPerson }
  | { readonly type: "signing_key_added"; readonly signing_key: SealedSigningKey }
  | {
      /** Signatures from before this entry still verify, later ones do not. */
      readonly type: "signing_key_retired";
      readonly key_id: string;
    }
  | { readonly type: "authority_created"; readonly authority: SealedAuthority }
  | {
      readonly type: "authority_ended";
      readonly kind: AuthorityKind;
      /** Agent whose authority ended; null for an MCP tool policy for every agent. */
      readonly agent_id: string | null;
      /** Ids of the authority that ended: one, or a grant with its descendants. */
      readonly ids: readonly string[];
    }
  | {
      readonly type: "agent_revoked";
      readonly agent_id: string;
      readonly revocation_id: string;
      readonly reason: string;
      readonly ended: RevokedIds;
      /** SHA-256 of the certificate's canonical body, lower-case hexadecimal. */
      readonly certificate_digest: string;
    }
  | {
      readonly type: "leakage_detected";
      /** Agent that the caller's key is bound to; null for an unbound key. */
      readonly agent_id: string | null;
      /** Number of personal values in the model's answer. */
      readonly leaked_count: number;
      /** The same number by kind. */
      readonly kinds: Readonly<Record<string, number>>;
      /** The path below `/v1` that was called. */
      readonly path: string;
      readonly model: string | null;
    }
  | { readonly type: "personal_values_added"; readonly kinds: Readonly<Record<string, number>> }
  | { readonly type: "mcp_server_created"; readonly mcp_server: SealedMcpServer }
  | {
      readonly type: "mcp_server_updated";
      readonly mcp_server: SealedMcpServer;
      /** Present if the URL got another origin. */
      readonly new_origin?: {
        /** Names of the stored headers that were dropped, sorted. */
        readonly dropped_headers: readonly string[];
        /** Number of definitions that are no longer in force. */
        readonly quarantined: number;
      };
    }
  | { readonly type: "mcp_server_deleted"; readonly name: string }
  | {
      /** New or changed definition of a tool of an MCP server. */
      readonly type: "mcp_tool_changed";
      readonly mcp_tool: SealedMcpTool;
      /** False if the definition waits for a person to accept it. */
      readonly in_force: boolean;
    }
  | { readonly type: "mcp_tool_accepted"; readonly mcp_tool: SealedMcpTool }
  | {
      /** An agent that repeated an approved call got its result, or heard that the result is lost. */
      readonly type: "mcp_result_given";
      readonly agent_id: string;
      /** The decision that allowed the call. */
      readonly decision_id: string;
      readonly result: "kept" | "too_large" | "unknown";
    }
  | {
      /** New or changed prompt, resource or template of an MCP server, or its instructions. */
      readonly type: "mcp_definition_changed";
      readonly mcp_definition: SealedMcpDefinition;
      /** False if the definition waits for a person to accept it. */
      readonly in_force: boolean;
    }
  | { readonly type: "mcp_definition_accepted"; readonly mcp_definition: SealedMcpDefinition }
  | {
      /** How people are told of escalations; secrets are left out. */
      readonly type: "notification_settings_changed";
      /** True if messages show what is to be approved. */
      readonly notify_arguments: boolean;
      /** Mail server as `host:port`; null without one. */
      readonly smtp: string | null;
      /** True if the workspace has a Slack app. */
      readonly slack: boolean;
      /** Slack channel that is told of every escalation; null without one. */
      readonly slack_channel: string | null;
    }
  | {
      /** From now on answers from a Slack account count as those of a key or person. */
      readonly type: "slack_account_linked";
      readonly holder: string;
      readonly team_id: string;
      readonly user_id: string;
    }
  | {
      readonly type: "slack_account_unlinked";
      readonly holder: string;
      readonly team_id: string;
      readonly user_id: string;
    }
  | { readonly type: "personal_value_deleted"; readonly value_id: string; readonly kind: string }
  | {
      readonly type: "redaction_settings_changed";
      readonly restore_values: boolean;
      readonly allow_media: boolean;
      readonly disabled_kinds: readonly string[];
      /** Number of entries in the allow-list. */
      readonly allowed: number;
      /** True if the workspace has a model service of its own. */
      readonly own_llm: boolean;
    };

/** Position, time and author of a sealed change. */
export interface ControlEnvelope {
  readonly workspaceId: string;
  readonly seq: number;
  readonly atMs: number;
  /** Key of the author, `key_…`; `system` for the service itself. */
  readonly by: string;
  /** Root of the tree before the change was appended, base64. */
  readonly previousRoot: string;
  readonly previousSize: number;
}

/** Builds the entry of a change, whose RFC 8785 form is sealed. */
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
