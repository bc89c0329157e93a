import { defineEntity, type InferEntity, p } from "@mikro-orm/postgresql";
import { AuthorityEntity, IncidentEntity, RevocationEntity, SigningKeyEntity } from "./authority-entities.ts";
import { PersonalValueEntity, RedactionSettingsEntity, RedactionWebhookEntity } from "./redaction-entities.ts";
import { WebhookDeliveryEntity, WebhookEntity } from "./webhook-entities.ts";

/** JSON as PostgreSQL keeps it. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A workspace and its settings. `trustSeq` is the log size that every `agent.trustTenths` is true of. */
export const WorkspaceEntity = defineEntity({
  name: "Workspace",
  tableName: "workspace",
  properties: {
    workspaceId: p.text().primary(),
    name: p.text(),
    defaultDecision: p.integer(),
    initialTrustTenths: p.integer(),
    createdAtMs: p.bigint("number"),
    trustSeq: p.bigint("number"),
  },
});

/** The end of a workspace's log: `seq` entries exist, with indexes 0 to seq - 1. */
export const LedgerHeadEntity = defineEntity({
  name: "LedgerHead",
  tableName: "ledger_head",
  properties: {
    workspaceId: p.text().primary(),
    seq: p.bigint("number"),
    frontier: p.blob(),
    lastAtMs: p.bigint("number"),
  },
});

/** One sealed entry. Insert-only: the database refuses UPDATE and DELETE. */
export const LedgerEntryEntity = defineEntity({
  name: "LedgerEntry",
  tableName: "ledger_entry",
  properties: {
    workspaceId: p.text().primary(),
    seq: p.bigint("number").primary(),
    atMs: p.bigint("number"),
    kind: p.smallint(),
    entryId: p.text(),
    agentId: p.text().nullable(),
    actionType: p.text().nullable(),
    decision: p.smallint().nullable(),
    refId: p.text().nullable(),
    leafHash: p.blob(),
    /** The roots of the perfect subtrees that this leaf completes, of 2, 4, 8… leaves, one after the other; null for none. */
    subtreeHashes: p.blob().nullable(),
    /** RFC 8785 JSON, what is hashed. Null where it lies in a pack. */
    body: p.text().nullable(),
  },
});

/** Bodies of neighbouring entries, from `seq` on, as a Zstandard frame. Insert-only. */
export const LedgerPackEntity = defineEntity({
  name: "LedgerPack",
  tableName: "ledger_pack",
  properties: {
    workspaceId: p.text().primary(),
    seq: p.bigint("number").primary(),
    bodies: p.blob(),
  },
});

/** A key, by the SHA-256 of its secret. */
export const ApiKeyEntity = defineEntity({
  name: "ApiKey",
  tableName: "api_key",
  properties: {
    keyId: p.text().primary(),
    workspaceId: p.text(),
    name: p.text(),
    role: p.integer(),
    agentId: p.text().nullable(),
    prefix: p.text(),
    secretHash: p.blob(),
    createdAtMs: p.bigint("number"),
    expiresAtMs: p.bigint("number").nullable(),
    revokedAtMs: p.bigint("number").nullable(),
  },
});

/** A registered agent. `trustTenths` is a snapshot; see `Workspace.trustSeq`. */
export const AgentEntity = defineEntity({
  name: "Agent",
  tableName: "agent",
  properties: {
    workspaceId: p.text().primary(),
    agentId: p.text().primary(),
    createdSeq: p.bigint("number"),
    resource: p.json<Json>(),
    status: p.integer(),
    trustTenths: p.integer(),
    registeredAtMs: p.bigint("number"),
    deactivatedAtMs: p.bigint("number").nullable(),
  },
});

/** A group of agents. */
export const DepartmentEntity = defineEntity({
  name: "Department",
  tableName: "department",
  properties: {
    workspaceId: p.text().primary(),
    departmentId: p.text().primary(),
    name: p.text(),
    description: p.text(),
    createdAtMs: p.bigint("number"),
    createdSeq: p.bigint("number"),
  },
});

/** That an agent belongs to a department. */
export const DepartmentMemberEntity = defineEntity({
  name: "DepartmentMember",
  tableName: "department_member",
  properties: {
    workspaceId: p.text().primary(),
    departmentId: p.text().primary(),
    agentId: p.text().primary(),
  },
});

/** One version of a tool's schema; the highest version is current. */
export const ToolVersionEntity = defineEntity({
  name: "ToolVersion",
  tableName: "tool_version",
  properties: {
    workspaceId: p.text().primary(),
    name: p.text().primary(),
    version: p.integer().primary(),
    description: p.text(),
    inputSchema: p.json<Json>(),
    digest: p.text(),
    source: p.integer(),
    registeredAtMs: p.bigint("number"),
  },
});

/** One version of a mandate; the highest version is the one in force unless it is archived. */
export const MandateVersionEntity = defineEntity({
  name: "MandateVersion",
  tableName: "mandate_version",
  properties: {
    workspaceId: p.text().primary(),
    mandateId: p.text().primary(),
    version: p.integer().primary(),
    definition: p.json<Json>(),
    digest: p.text(),
    createdAtMs: p.bigint("number"),
    updatedAtMs: p.bigint("number"),
    createdSeq: p.bigint("number"),
    archived: p.boolean(),
  },
});

/** An escalation's state; what it is about stands in the log entry `createdSeq`. */
export const EscalationEntity = defineEntity({
  name: "Escalation",
  tableName: "escalation",
  properties: {
    workspaceId: p.text().primary(),
    escalationId: p.text().primary(),
    agentId: p.text(),
    status: p.integer(),
    actionDigest: p.text(),
    createdSeq: p.bigint("number"),
    resolvedSeq: p.bigint("number").nullable(),
    resolvedAtMs: p.bigint("number").nullable(),
    resolvedBy: p.text().nullable(),
    note: p.text().nullable(),
    usedBy: p.text().nullable(),
  },
});

/** Every entity, for the ORM's configuration. */
export const ENTITIES = [
  WorkspaceEntity,
  LedgerHeadEntity,
  LedgerEntryEntity,
  LedgerPackEntity,
  ApiKeyEntity,
  AgentEntity,
  DepartmentEntity,
  DepartmentMemberEntity,
  ToolVersionEntity,
  MandateVersionEntity,
  EscalationEntity,
  AuthorityEntity,
  RevocationEntity,
  IncidentEntity,
  SigningKeyEntity,
  WebhookEntity,
  WebhookDeliveryEntity,
  RedactionSettingsEntity,
  PersonalValueEntity,
  RedactionWebhookEntity,
] as const;

/** One row of each table. */
export type WorkspaceRow = InferEntity<typeof WorkspaceEntity>;
export type LedgerEntryRow = InferEntity<typeof LedgerEntryEntity>;
export type ApiKeyRow = InferEntity<typeof ApiKeyEntity>;
export type AgentRow = InferEntity<typeof AgentEntity>;
export type DepartmentRow = InferEntity<typeof DepartmentEntity>;
export type ToolVersionRow = InferEntity<typeof ToolVersionEntity>;
export type MandateVersionRow = InferEntity<typeof MandateVersionEntity>;
export type EscalationRow = InferEntity<typeof EscalationEntity>;
