import { defineEntity, type InferEntity, p } from "@mikro-orm/postgresql";

/** JSON as PostgreSQL keeps it. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A workspace and its settings. `trustSeq` is the log size that every `agent.trustTenths` reflects. */
export const WorkspaceEntity = defineEntity({
  name: "Workspace",
  tableName: "workspace",
  properties: {
    workspaceId: p.text().primary(),
    name: p.text(),
    defaultDecision: p.integer(),
    unknownTools: p.integer(),
    initialTrustTenths: p.integer(),
    approvalIgnores: p.array<string>(),
    escalationTtlSeconds: p.integer(),
    approvalTtlSeconds: p.integer(),
    fourEyes: p.boolean(),
    maxPendingEscalationsPerAgent: p.integer(),
    keyTtlDays: p.integer(),
    halted: p.boolean(),
    rateLimitKey: p.text(),
    rateLimitWorkspace: p.text(),
    outcomes: p.text(),
    outcomeTimeoutSeconds: p.integer(),
    mandateReviews: p.integer(),
    promptFrom: p.text(),
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

/**
 * A key, by the SHA-256 of its secret. `owner` names a person or is a label. `createdBy` is the key or person that made it; null
 * for the service itself, and for keys from before makers were kept.
 */
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
    endedWithAgent: p.boolean(),
    owner: p.text().nullable(),
    createdBy: p.text().nullable(),
    lastUsedAtMs: p.bigint("number").nullable(),
  },
});

/**
 * A person of a workspace, whom an admin added or who signed in. `actor` is `oidc:{issuer}|{subject}`, or `personId` of a person
 * without an issuer: it owns their keys. `name` and `role` are those that an admin gave; `groupRole` and `groups` are those of
 * `checkedAtMs`, when the issuer was asked last. `leftAtMs` is when it stopped vouching for them; a sign-in ends that.
 */
export const PersonEntity = defineEntity({
  name: "Person",
  tableName: "person",
  properties: {
    workspaceId: p.text().primary(),
    personId: p.text().primary(),
    issuer: p.text().nullable(),
    subject: p.text().nullable(),
    actor: p.text().generated("coalesce('oidc:' || issuer || '|' || subject, person_id) stored"),
    name: p.text().nullable(),
    role: p.integer().nullable(),
    email: p.text().nullable(),
    displayName: p.text().nullable(),
    groups: p.array<string>(),
    groupRole: p.integer().nullable(),
    checkedAtMs: p.bigint("number").nullable(),
    sealedRefresh: p.blob().nullable(),
    recheckAtMs: p.bigint("number").nullable(),
    signedInAtMs: p.bigint("number").nullable(),
    createdAtMs: p.bigint("number"),
    createdBy: p.text().nullable(),
    deactivatedAtMs: p.bigint("number").nullable(),
    leftAtMs: p.bigint("number").nullable(),
  },
});

/** The open invite of a person, by the SHA-256 of its link's secret. Its use deletes it. */
export const PersonInviteEntity = defineEntity({
  name: "PersonInvite",
  tableName: "person_invite",
  properties: {
    workspaceId: p.text().primary(),
    personId: p.text().primary(),
    secretHash: p.blob(),
    createdBy: p.text(),
    createdAtMs: p.bigint("number"),
    expiresAtMs: p.bigint("number"),
  },
});

/**
 * A person's sign-in to the dashboard, by the SHA-256 of the cookie's secret. `holder` is the key's id, or names the person.
 */
export const SignInEntity = defineEntity({
  name: "SignIn",
  tableName: "sign_in",
  properties: {
    secretHash: p.blob().primary(),
    workspaceId: p.text(),
    holder: p.text(),
    role: p.integer(),
    person: p.boolean(),
    createdAtMs: p.bigint("number"),
    expiresAtMs: p.bigint("number"),
  },
});

/** A person who chooses a workspace, by the SHA-256 of the choice's id: what their issuer said of them, encrypted. */
export const PendingChoiceEntity = defineEntity({
  name: "PendingChoice",
  tableName: "pending_choice",
  properties: {
    choiceHash: p.blob().primary(),
    facts: p.blob(),
    expiresAtMs: p.bigint("number"),
  },
});

/** A used choice of a workspace, by the SHA-256 of its id, kept for as long as its cookie might be accepted. */
export const UsedChoiceEntity = defineEntity({
  name: "UsedChoice",
  tableName: "used_choice",
  properties: {
    choiceHash: p.blob().primary(),
    expiresAtMs: p.bigint("number"),
  },
});

/** An MCP server behind the gateway. The encrypted texts are JSON objects of values by name. */
export const McpServerEntity = defineEntity({
  name: "McpServer",
  tableName: "mcp_server",
  properties: {
    workspaceId: p.text().primary(),
    name: p.text().primary(),
    url: p.text().nullable(),
    command: p.text().nullable(),
    args: p.array<string>(),
    envNames: p.array<string>(),
    sealedEnv: p.blob(),
    headerNames: p.array<string>(),
    sealedHeaders: p.blob(),
    quarantine: p.boolean(),
    passMethods: p.array<string>(),
    passMeta: p.array<string>(),
    driftSeconds: p.integer().nullable(),
    idleSeconds: p.integer(),
    scrub: p.array<string>(),
    revision: p.integer(),
    createdAtMs: p.bigint("number"),
    updatedAtMs: p.bigint("number"),
  },
});

/**
 * One version of a definition of an MCP server: of a tool, a prompt, a resource, a template, or its instructions. It is in force
 * once it is accepted. `name` identifies it within its kind: a name, a URI, a URI template, or an empty text.
 */
export const McpDefinitionEntity = defineEntity({
  name: "McpDefinition",
  tableName: "mcp_definition",
  properties: {
    workspaceId: p.text().primary(),
    server: p.text().primary(),
    kind: p.text().primary(),
    name: p.text().primary(),
    version: p.integer().primary(),
    definition: p.text(),
    digest: p.text(),
    statelessDigest: p.text().nullable(),
    isWhole: p.boolean(),
    firstSeenAtMs: p.bigint("number"),
    acceptedBy: p.text().nullable(),
    acceptedAtMs: p.bigint("number").nullable(),
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

/** Membership of an agent in a department. */
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
    /** `SealedToolProvenance`; null if nothing is declared. */
    provenance: p.json<Json>().nullable(),
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
    pack: p.text().nullable(),
    createdBy: p.text().nullable(),
    note: p.text(),
    restoredFrom: p.integer().nullable(),
  },
});

/**
 * A named set of mandates, to which `MandateVersion.pack` points. `appliedDigest` is its digest after the last change of the
 * set.
 */
export const PackEntity = defineEntity({
  name: "Pack",
  tableName: "pack",
  properties: {
    workspaceId: p.text().primary(),
    name: p.text().primary(),
    version: p.integer(),
    appliedDigest: p.text(),
  },
});

/**
 * A change that waits for others to accept it. `change` and `base` are JSON texts, `acceptances` those who accepted with their times.
 * `status` has the numbers of the proto enum `ProposalStatus` without those that follow from time and state.
 */
export const ProposalEntity = defineEntity({
  name: "Proposal",
  tableName: "proposal",
  properties: {
    workspaceId: p.text().primary(),
    proposalId: p.text().primary(),
    kind: p.text(),
    target: p.text(),
    subject: p.text(),
    change: p.text(),
    changeDigest: p.text(),
    base: p.text(),
    needed: p.integer(),
    status: p.integer(),
    createdBy: p.text(),
    createdSeq: p.bigint("number"),
    createdAtMs: p.bigint("number"),
    expiresAtMs: p.bigint("number"),
    acceptances: p.json<Json>(),
    endedBy: p.text().nullable(),
    endedAtMs: p.bigint("number").nullable(),
    endNote: p.text(),
  },
});

/** A kept backtest; `question` and `report` are JSON texts in the form of the interface. */
export const BacktestEntity = defineEntity({
  name: "Backtest",
  tableName: "backtest",
  properties: {
    workspaceId: p.text().primary(),
    backtestId: p.text().primary(),
    question: p.text(),
    questionDigest: p.text(),
    sinceMs: p.bigint("number").nullable(),
    untilMs: p.bigint("number").nullable(),
    agentId: p.text().nullable(),
    onlyDrafts: p.boolean(),
    report: p.text(),
    createdBy: p.text(),
    createdAtMs: p.bigint("number"),
    expiresAtMs: p.bigint("number"),
  },
});

/** The generated tests of one version of a mandate; `suite` is JSON text. */
export const MandateTestEntity = defineEntity({
  name: "MandateTest",
  tableName: "mandate_test",
  properties: {
    workspaceId: p.text().primary(),
    mandateId: p.text().primary(),
    version: p.integer().primary(),
    suite: p.text(),
    createdAtMs: p.bigint("number"),
  },
});

/**
 * State of an escalation; its action is in the log entry `createdSeq`. `expiresAtMs` is the end of the approval once approved.
 * `askedBy` holds the keys that asked, `updatedSeq` the log index of the last further ask or withdrawal. `needs` are the demands of
 * rules with approvers, null without any, `approvals` those given so far, and `remindAtMs` the next reminder.
 */
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
    usedAtMs: p.bigint("number").nullable(),
    expiresAtMs: p.bigint("number"),
    asked: p.integer(),
    askedBy: p.array<string>(),
    updatedSeq: p.bigint("number").nullable(),
    replacedBy: p.text().nullable(),
    extendedUntilMs: p.bigint("number").nullable(),
    editedArguments: p.text().nullable(),
    editedFrom: p.text().nullable(),
    needs: p.json<Json>().nullable(),
    approvals: p.json<Json>().nullable(),
    remindAtMs: p.bigint("number").nullable(),
  },
});

/** A piece of authority. `uses` and `stepCalls` are snapshots; see `Workspace.trustSeq`. */
export const AuthorityEntity = defineEntity({
  name: "Authority",
  tableName: "authority",
  properties: {
    workspaceId: p.text().primary(),
    id: p.text().primary(),
    kind: p.text(),
    agentId: p.text().nullable(),
    grantorAgentId: p.text().nullable(),
    sealed: p.json<object>(),
    createdSeq: p.bigint("number"),
    createdAtMs: p.bigint("number"),
    endedAtMs: p.bigint("number").nullable(),
    uses: p.bigint("number"),
    stepCalls: p.array<number>().columnType("integer[]").nullable(),
    secretHash: p.blob().nullable(),
  },
});

/** A revocation with its certificate: the exact body that was signed. */
export const RevocationEntity = defineEntity({
  name: "Revocation",
  tableName: "revocation",
  properties: {
    workspaceId: p.text().primary(),
    revocationId: p.text().primary(),
    agentId: p.text(),
    seq: p.bigint("number"),
    keyId: p.text(),
    body: p.text(),
    signature: p.blob(),
  },
});

/** Record of an incident and of the measure taken. */
export const IncidentEntity = defineEntity({
  name: "Incident",
  tableName: "incident",
  properties: {
    workspaceId: p.text().primary(),
    incidentId: p.text().primary(),
    kind: p.integer(),
    agentId: p.text(),
    revocationId: p.text(),
    summary: p.text(),
    reason: p.text(),
    createdBy: p.text(),
    createdAtMs: p.bigint("number"),
    createdSeq: p.bigint("number"),
  },
});

/** A webhook: its URL, its cursor in the log, and the process that delivers it. Only the SQL statements use its lease. */
export const WebhookEntity = defineEntity({
  name: "Webhook",
  tableName: "webhook",
  properties: {
    workspaceId: p.text().primary(),
    webhookId: p.text().primary(),
    kind: p.text(),
    url: p.text(),
    events: p.array<string>(),
    isActive: p.boolean(),
    createdAtMs: p.bigint("number"),
    nextSeq: p.bigint("number"),
    failures: p.integer(),
    nextAttemptAtMs: p.bigint("number").nullable(),
  },
});

/** One attempt to deliver. `deliveryNo` grows in the order in which attempts were recorded. */
export const WebhookDeliveryEntity = defineEntity({
  name: "WebhookDelivery",
  tableName: "webhook_delivery",
  properties: {
    workspaceId: p.text().primary(),
    webhookId: p.text().primary(),
    deliveryNo: p.bigint("number").primary(),
    messageId: p.text(),
    event: p.text(),
    seq: p.bigint("number").nullable(),
    attempt: p.integer(),
    atMs: p.bigint("number"),
    delivered: p.boolean(),
    statusCode: p.integer().nullable(),
    error: p.text().nullable(),
    durationMs: p.integer(),
  },
});

/**
 * Redaction settings of a workspace. `sealedPrivate` holds the encrypted part: allow-list, address and key of the model's
 * service. Decrypting it also shows whether a process has the right key. `revision` increases with every change of the settings
 * and of the registered values.
 */
export const RedactionSettingsEntity = defineEntity({
  name: "RedactionSettings",
  tableName: "redaction_settings",
  properties: {
    workspaceId: p.text().primary(),
    restoreValues: p.boolean(),
    allowMedia: p.boolean(),
    disabledKinds: p.array<string>(),
    sealedPrivate: p.blob(),
    revision: p.bigint("number"),
  },
});

/** A registered personal value, encrypted. `mark` is a keyed digest of it, which identifies a repetition. */
export const PersonalValueEntity = defineEntity({
  name: "PersonalValue",
  tableName: "personal_value",
  properties: {
    workspaceId: p.text().primary(),
    valueId: p.text().primary(),
    kind: p.text(),
    sealedValue: p.blob(),
    mark: p.blob(),
    createdAtMs: p.bigint("number"),
  },
});

/** A webhook for leaks. `sealedSecret` is its encrypted secret; null without one. */
export const RedactionWebhookEntity = defineEntity({
  name: "RedactionWebhook",
  tableName: "redaction_webhook",
  properties: {
    workspaceId: p.text().primary(),
    webhookId: p.text().primary(),
    url: p.text(),
    isActive: p.boolean(),
    createdAtMs: p.bigint("number"),
    sealedSecret: p.blob().nullable(),
  },
});

/**
 * How people of a workspace are told of escalations. `settings` is a JSON object without secrets; `sealedPrivate` is the encrypted JSON
 * object of the secrets.
 */
export const NotificationSettingsEntity = defineEntity({
  name: "NotificationSettings",
  tableName: "notification_settings",
  properties: {
    workspaceId: p.text().primary(),
    settings: p.text(),
    sealedPrivate: p.blob(),
    updatedAtMs: p.bigint("number"),
  },
});

/** One person's choice of messages. Quiet hours are minutes of the day in a time zone; null without them. */
export const NotificationPreferenceEntity = defineEntity({
  name: "NotificationPreference",
  tableName: "notification_preference",
  properties: {
    workspaceId: p.text().primary(),
    holder: p.text().primary(),
    groups: p.array<string>(),
    about: p.text(),
    quietFrom: p.integer().nullable(),
    quietTo: p.integer().nullable(),
    quietZone: p.text().nullable(),
  },
});

/** A group of people whose approvals rules ask for. `members` and `deputies` name people and owners of keys. */
export const ApproverGroupEntity = defineEntity({
  name: "ApproverGroup",
  tableName: "approver_group",
  properties: {
    workspaceId: p.text().primary(),
    name: p.text().primary(),
    description: p.text(),
    members: p.json<Json>(),
    oidcGroups: p.json<Json>(),
    deputies: p.json<Json>(),
    createdAtMs: p.bigint("number"),
    updatedAtMs: p.bigint("number"),
  },
});

/** Every entity, for the ORM's configuration. */
export const ENTITIES = [
  WorkspaceEntity,
  LedgerHeadEntity,
  ApiKeyEntity,
  PersonInviteEntity,
  SignInEntity,
  PendingChoiceEntity,
  UsedChoiceEntity,
  PersonEntity,
  McpServerEntity,
  McpDefinitionEntity,
  AgentEntity,
  DepartmentEntity,
  DepartmentMemberEntity,
  ToolVersionEntity,
  MandateVersionEntity,
  PackEntity,
  ProposalEntity,
  BacktestEntity,
  MandateTestEntity,
  EscalationEntity,
  ApproverGroupEntity,
  AuthorityEntity,
  RevocationEntity,
  IncidentEntity,
  WebhookEntity,
  WebhookDeliveryEntity,
  NotificationSettingsEntity,
  NotificationPreferenceEntity,
  RedactionSettingsEntity,
  PersonalValueEntity,
  RedactionWebhookEntity,
] as const;

/** One row of each table. */
export type WorkspaceRow = InferEntity<typeof WorkspaceEntity>;
export type ApiKeyRow = InferEntity<typeof ApiKeyEntity>;
export type PersonRow = InferEntity<typeof PersonEntity>;
export type SignInRow = InferEntity<typeof SignInEntity>;
export type McpServerRow = InferEntity<typeof McpServerEntity>;
export type McpDefinitionRow = InferEntity<typeof McpDefinitionEntity>;
export type MandateVersionRow = InferEntity<typeof MandateVersionEntity>;
export type BacktestRow = InferEntity<typeof BacktestEntity>;
export type ProposalRow = InferEntity<typeof ProposalEntity>;
export type EscalationRow = InferEntity<typeof EscalationEntity>;
export type AuthorityRow = InferEntity<typeof AuthorityEntity>;
export type RevocationRow = InferEntity<typeof RevocationEntity>;
export type IncidentRow = InferEntity<typeof IncidentEntity>;
export type WebhookRow = InferEntity<typeof WebhookEntity>;
export type WebhookDeliveryRow = InferEntity<typeof WebhookDeliveryEntity>;
export type PersonalValueRow = InferEntity<typeof PersonalValueEntity>;
export type RedactionWebhookRow = InferEntity<typeof RedactionWebhookEntity>;
