import { IS_COUNTED } from "./read-decisions.ts";

// The statements of a cold start. All run in one read-only snapshot: tables are changed in the same transaction as the head,
// so a snapshot shows them as of the head's size. Plain SQL, because loading many agents through the ORM would take
// longer than the rest of the start. First parameter of each: workspace.

/** Reads the end of the log and the settings. No row: no such workspace. */
export const readHead = {
  name: "read-head",
  text: `select h.seq::float8 as seq, h.frontier, h.last_at_ms::float8 as "lastAtMs", w.name,
      w.default_decision as "defaultDecision", w.unknown_tools as "unknownTools",
      w.initial_trust_tenths as "initialTrustTenths", w.approval_ignores as "approvalIgnores",
      w.escalation_ttl_seconds as "escalationTtlSeconds", w.approval_ttl_seconds as "approvalTtlSeconds",
      w.four_eyes as "fourEyes", w.max_pending_escalations_per_agent as "maxPendingEscalationsPerAgent",
      w.key_ttl_days as "keyTtlDays", w.halted,
      w.rate_limit_key as "rateLimitKey", w.rate_limit_workspace as "rateLimitWorkspace",
      w.outcomes, w.outcome_timeout_seconds as "outcomeTimeoutSeconds",
      w.mandate_reviews as "mandateReviews", w.prompt_from as "promptFrom",
      w.trust_seq::float8 as "trustSeq"
    from ledger_head h join workspace w using (workspace_id) where workspace_id = $1`,
};

/** Reads the limits of the rate of calls; without the log, since each process that answers a call needs them. */
export const readRateLimits = {
  name: "read-rate-limits",
  text: `select rate_limit_key as "perKey", rate_limit_workspace as "perWorkspace" from workspace where workspace_id = $1`,
};

/** Reads the agents in the order of their registration. */
export const readAgents = {
  name: "read-agents",
  text: `select agent_id as "agentId", created_seq::float8 as "createdSeq", resource, status, trust_tenths as "trustTenths",
      registered_at_ms::float8 as "registeredAtMs", deactivated_at_ms::float8 as "deactivatedAtMs"
    from agent where workspace_id = $1 order by created_seq`,
};

/** Reads the departments with their members, in the order of their creation. */
export const readDepartments = {
  name: "read-departments",
  text: `select d.department_id as "departmentId", d.name, d.description, d.created_at_ms::float8 as "createdAtMs",
      d.created_seq::float8 as "createdSeq",
      coalesce(array_agg(m.agent_id) filter (where m.agent_id is not null), '{}') as "agentIds"
    from department d left join department_member m using (workspace_id, department_id)
    where workspace_id = $1 group by workspace_id, department_id order by d.created_seq`,
};

/** Reads the approver groups, by name. */
export const readApproverGroups = {
  name: "read-approver-groups",
  text: `select name, description, members, oidc_groups as "oidcGroups", deputies,
      created_at_ms::float8 as "createdAtMs", updated_at_ms::float8 as "updatedAtMs"
    from approver_group where workspace_id = $1 order by name`,
};

/** Reads the current version of every tool, ordered by name. */
export const readTools = {
  name: "read-tools",
  text: `select distinct on (name) name, version, description, input_schema as "inputSchema", digest, source, provenance,
      registered_at_ms::float8 as "registeredAtMs"
    from tool_version where workspace_id = $1 order by name, version desc`,
};

/** Reads the version in force of every mandate that is not archived, in the order of their creation, then of their ids. */
export const readMandates = {
  name: "read-mandates",
  text: `select * from (
      select distinct on (mandate_id) mandate_id as "mandateId", version, definition, digest, archived, pack,
        created_by as "createdBy", note, restored_from as "restoredFrom",
        created_at_ms::float8 as "createdAtMs", updated_at_ms::float8 as "updatedAtMs", created_seq::float8 as "createdSeq"
      from mandate_version where workspace_id = $1 order by mandate_id, version desc
    ) latest where not archived order by "createdSeq", "mandateId"`,
};

/** Reads the packs of mandates. */
export const readPacks = {
  name: "read-packs",
  text: `select name, version, applied_digest as "appliedDigest" from pack where workspace_id = $1 order by name`,
};

/** Reads the decisions since the trust snapshot. Further parameter: log size that the snapshot reflects. */
export const readTrustSince = {
  name: "read-trust-since",
  text: `select seq::float8 as seq, at_ms::float8 as "atMs", entry_id as "decisionId", agent_id as "agentId",
      action_type as "actionType", decision, ref_id as "refId"
    from ledger_entry where workspace_id = $1 and seq >= $2 and ${IS_COUNTED} order by ledger_entry.seq`,
};

/**
 * Reads the authority that has neither ended nor expired before a time, in the order of its creation: a parent grant before
 * its children. Further parameter: the time in epoch milliseconds.
 */
export const readAuthority = {
  name: "read-authority",
  text: `select sealed, created_at_ms::float8 as "createdAtMs", uses::float8 as uses, step_calls as "stepCalls" from authority
    where workspace_id = $1 and ended_at_ms is null
      and coalesce((sealed ->> 'expires_at_ms')::float8, 'infinity') > $2
    order by created_seq, id`,
};

/** Reads the grantor and the grantee of a grant, ended or not. Further parameter: its id. */
export const readEndedGrant = {
  name: "read-ended-grant",
  text: `select agent_id as "agentId", sealed ->> 'grantor_agent_id' as "grantorAgentId" from authority
    where workspace_id = $1 and id = $2 and kind = 'grant'`,
};

/** Reads the facts of grants and tokens that decisions depend on, ended or not. Further parameter: their ids. */
export const readAuthorityFacts = {
  name: "read-authority-facts",
  text: `select id, sealed ->> 'grantor_agent_id' as "grantorAgentId",
      (sealed ->> 'max_trust_tenths')::float8 as "maxTrustTenths"
    from authority where workspace_id = $1 and id = any($2::text[])`,
};

/** Reads the statuses of escalations. Further parameter: their ids. */
export const readEscalationStatuses = {
  name: "read-escalation-statuses",
  text: `select escalation_id as "escalationId", status from escalation
    where workspace_id = $1 and escalation_id = any($2::text[])`,
};

/** Reads the state of an escalation. Further parameter: its id. */
export const readEscalation = {
  name: "read-escalation",
  text: `select agent_id as "agentId", status, action_digest as "actionDigest", used_by as "usedBy",
      expires_at_ms::float8 as "expiresAtMs", needs
    from escalation where workspace_id = $1 and escalation_id = $2`,
};

/** Reads the states of the pending escalations, in the order of their creation. */
export const readPendingStates = {
  name: "read-pending-states",
  text: `select escalation_id as "escalationId", agent_id as "agentId", action_digest as "actionDigest",
      expires_at_ms::float8 as "expiresAtMs", needs
    from escalation where workspace_id = $1 and status = 1 order by created_seq`,
};
