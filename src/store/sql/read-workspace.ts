import { IS_DECISION } from "./is-decision.ts";

/**
 * The statements of a cold start, for one read-only snapshot: the tables are changed together with the head, so what one
 * snapshot shows is true of the log at the head's size. Plain SQL because hydrating 100,000 agents through the ORM
 * would take longer than everything else of a start. Parameter of each: workspace.
 */
export const readHead = {
  name: "read-head",
  text: `select h.seq::float8 as seq, h.frontier, h.last_at_ms::float8 as "lastAtMs", w.name,
      w.default_decision as "defaultDecision", w.initial_trust_tenths as "initialTrustTenths", w.trust_seq::float8 as "trustSeq"
    from ledger_head h join workspace w using (workspace_id) where workspace_id = $1`,
};

/** The agents, in the order of their registration. */
export const readAgents = {
  name: "read-agents",
  text: `select agent_id as "agentId", created_seq::float8 as "createdSeq", resource, status, trust_tenths as "trustTenths",
      registered_at_ms::float8 as "registeredAtMs", deactivated_at_ms::float8 as "deactivatedAtMs"
    from agent where workspace_id = $1 order by created_seq`,
};

/** The departments, in the order of their creation, with their members. */
export const readDepartments = {
  name: "read-departments",
  text: `select d.department_id as "departmentId", d.name, d.description, d.created_at_ms::float8 as "createdAtMs",
      d.created_seq::float8 as "createdSeq",
      coalesce(array_agg(m.agent_id) filter (where m.agent_id is not null), '{}') as "agentIds"
    from department d left join department_member m using (workspace_id, department_id)
    where workspace_id = $1 group by workspace_id, department_id order by d.created_seq`,
};

/** The current version of every tool, by name. */
export const readTools = {
  name: "read-tools",
  text: `select distinct on (name) name, version, description, input_schema as "inputSchema", digest, source,
      registered_at_ms::float8 as "registeredAtMs"
    from tool_version where workspace_id = $1 order by name, version desc`,
};

/** The version in force of every mandate that is not archived, in the order of their creation. */
export const readMandates = {
  name: "read-mandates",
  text: `select * from (
      select distinct on (mandate_id) mandate_id as "mandateId", version, definition, digest, archived,
        created_at_ms::float8 as "createdAtMs", updated_at_ms::float8 as "updatedAtMs", created_seq::float8 as "createdSeq"
      from mandate_version where workspace_id = $1 order by mandate_id, version desc
    ) latest where not archived order by "createdSeq"`,
};

/** The decisions that the trust snapshot does not hold yet. Further parameter: size of the log at the snapshot. */
export const readTrustSince = {
  name: "read-trust-since",
  text: `select seq::float8 as seq, at_ms::float8 as "atMs", entry_id as "decisionId", agent_id as "agentId",
      action_type as "actionType", decision, ref_id as "refId"
    from ledger_entry where workspace_id = $1 and seq >= $2 and ${IS_DECISION} order by ledger_entry.seq`,
};

/**
 * The authority that has neither ended nor expired before a time, in the order in which it was made: a parent grant before
 * its children. Further parameter: the time in epoch milliseconds.
 */
export const readAuthority = {
  name: "read-authority",
  text: `select sealed, created_at_ms::float8 as "createdAtMs", uses::float8 as uses from authority
    where workspace_id = $1 and ended_at_ms is null
      and coalesce((sealed ->> 'expires_at_ms')::float8, 'infinity') > $2
    order by created_seq, id`,
};

/** One escalation's state. Further parameter: its id. */
export const readEscalation = {
  name: "read-escalation",
  text: `select agent_id as "agentId", status, action_digest as "actionDigest", used_by as "usedBy"
    from escalation where workspace_id = $1 and escalation_id = $2`,
};
