import type { Pool } from "pg";
import { Turns } from "../async/turns.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { distinctKeys } from "../policy/approvers.ts";
import type { Json } from "../store/entities.ts";
import { readLists } from "../store/sql/lists.ts";
import {
  readAgents,
  readApproverGroups,
  readAuthority,
  readDepartments,
  readEndedGrant,
  readEscalation,
  readHead,
  readMandates,
  readPacks,
  readPendingStates,
  readTools,
  readTrustSince,
} from "../store/sql/read-workspace.ts";
import { readSigningKeys } from "../store/sql/signing-keys.ts";
import { type Reader, readSnapshot } from "../store/transaction.ts";
import { frontierFromBytes, leafHash } from "../tree/merkle.ts";
import { createAgentState } from "./agents.ts";
import type { EndedGrant } from "./authority.ts";
import type {
  ControlChange,
  OutcomeTracking,
  PromptSource,
  SealedAgent,
  SealedApproverGroup,
  SealedAuthority,
  SealedDemand,
  SealedMandate,
  SealedTool,
  SealedToolProvenance,
} from "./control-changes.ts";
import type { EscalationState } from "./escalations.ts";
import { type FoldedDecision, foldChange, foldDecision, refsFromText } from "./fold.ts";
import { type ListRow, listFromRow } from "./lists.ts";
import type { PackState } from "./policies.ts";
import { type Action, agentStatusFromNumber, decisionFromNumber, escalationStatusFromNumber } from "./types.ts";
import { createWorkspaceState, forgetExpired, requireCounters, type WorkspaceState } from "./workspace.ts";

interface HeadRow {
  readonly seq: number;
  readonly frontier: Buffer;
  readonly lastAtMs: number;
  readonly name: string;
  readonly defaultDecision: number;
  readonly unknownTools: number;
  readonly initialTrustTenths: number;
  readonly approvalIgnores: readonly string[];
  readonly escalationTtlSeconds: number;
  readonly approvalTtlSeconds: number;
  readonly fourEyes: boolean;
  readonly maxPendingEscalationsPerAgent: number;
  readonly keyTtlDays: number;
  readonly halted: boolean;
  readonly rateLimitKey: string;
  readonly rateLimitWorkspace: string;
  readonly outcomes: OutcomeTracking;
  readonly outcomeTimeoutSeconds: number;
  readonly mandateReviews: number;
  readonly promptFrom: PromptSource;
  readonly trustSeq: number;
}

type Statement = { readonly name: string; readonly text: string };

/** Reads rows, and gives the event loop its turns while they are used. */
async function* rowsOf<T extends object>(client: Reader, statement: Statement, values: unknown[]): AsyncGenerator<T> {
  const { rows } = await client.query<T>({ ...statement, values });
  const turns = new Turns();
  for (const row of rows) {
    yield row;
    if (turns.isOver) await turns.next();
  }
}

async function loadAgents(client: Reader, state: WorkspaceState): Promise<void> {
  type Row = {
    agentId: string;
    createdSeq: number;
    resource: Json;
    status: number;
    trustTenths: number;
    registeredAtMs: number;
    deactivatedAtMs: number | null;
  };
  for await (const row of rowsOf<Row>(client, readAgents, [state.workspaceId])) {
    const agent = createAgentState(row.resource as unknown as SealedAgent, row, state.patterns);
    agent.status = agentStatusFromNumber(row.status);
    agent.trustTenths = row.trustTenths;
    agent.deactivatedAtMs = row.deactivatedAtMs;
    state.agents.set(agent.agentId, agent);
  }
}

/** Folds the decisions since the snapshot of trust and uses. No counter is in force yet; counters load their own history. */
async function loadFigures(client: Reader, state: WorkspaceState, trustSeq: number): Promise<void> {
  type Row = Omit<FoldedDecision, "decision" | "principalId" | "refs"> & { decision: number; refId: string | null };
  for await (const { refId, ...row } of rowsOf<Row>(client, readTrustSince, [state.workspaceId, trustSeq])) {
    // Escalations are read from their table, which is as new as the log.
    const refs = { ...refsFromText(refId, row.decisionId), ask: undefined };
    foldDecision(state, { ...row, principalId: undefined, decision: decisionFromNumber(row.decision), refs });
  }
}

/** Milliseconds after its expiry for which authority is still loaded, because a snapshot may lack its last uses. */
const UNSAVED_MS = 60_000;

async function loadAuthority(client: Reader, state: WorkspaceState): Promise<void> {
  type Row = { sealed: SealedAuthority; createdAtMs: number; uses: number; stepCalls: readonly number[] | null };
  const values = [state.workspaceId, state.lastAtMs - UNSAVED_MS];
  for await (const { sealed, createdAtMs, uses, stepCalls } of rowsOf<Row>(client, readAuthority, values)) {
    state.authority.put(sealed, createdAtMs, uses, stepCalls ?? []);
  }
}

/** Demands on an escalation, as its row has them; null where rules name no approvers. */
interface NeedsRow {
  readonly needs: readonly SealedDemand[] | null;
}

const demandKeysOf = (needs: NeedsRow["needs"]): readonly string[] =>
  distinctKeys((needs ?? []).map(({ groups, at_least: atLeast }) => ({ groups, atLeast })));

async function loadApproverGroups(client: Reader, { workspaceId, approverGroups }: WorkspaceState): Promise<void> {
  type Row = Omit<SealedApproverGroup, "oidc_groups"> & {
    oidcGroups: SealedApproverGroup["oidc_groups"];
    createdAtMs: number;
    updatedAtMs: number;
  };
  for await (const row of rowsOf<Row>(client, readApproverGroups, [workspaceId])) {
    const { oidcGroups: oidc_groups, createdAtMs, updatedAtMs, ...sealed } = row;
    approverGroups.put({ ...sealed, oidc_groups }, { createdAtMs, updatedAtMs });
  }
}

async function loadPendingEscalations(client: Reader, { workspaceId, escalations }: WorkspaceState): Promise<void> {
  type Row = Pick<EscalationState, "escalationId" | "agentId" | "actionDigest" | "expiresAtMs"> & NeedsRow;
  for await (const { needs, ...row } of rowsOf<Row>(client, readPendingStates, [workspaceId])) {
    escalations.put({ ...row, demands: demandKeysOf(needs), status: "pending", usedBy: null });
  }
}

async function loadDepartments(client: Reader, state: WorkspaceState): Promise<void> {
  type Row = {
    departmentId: string;
    name: string;
    description: string;
    createdAtMs: number;
    createdSeq: number;
    agentIds: string[];
  };
  for await (const row of rowsOf<Row>(client, readDepartments, [state.workspaceId])) {
    const department = { department_id: row.departmentId, name: row.name, description: row.description };
    state.departments.add(department, row.createdAtMs, row.createdSeq);
    for (const agentId of row.agentIds) state.departments.addMember(row.departmentId, agentId);
  }
}

async function loadLists(client: Reader, { workspaceId, lists }: WorkspaceState): Promise<void> {
  for await (const row of rowsOf<ListRow>(client, readLists, [workspaceId])) {
    lists.put(await listFromRow(client, workspaceId, row), row);
  }
}

async function loadPolicies(client: Reader, state: WorkspaceState): Promise<void> {
  type ToolRow = Omit<SealedTool, "input_schema" | "provenance"> & {
    inputSchema: SealedTool["input_schema"];
    provenance: SealedToolProvenance | null;
    registeredAtMs: number;
  };
  for await (const row of rowsOf<ToolRow>(client, readTools, [state.workspaceId])) {
    const { inputSchema, provenance, registeredAtMs, ...others } = row;
    const sealed = { ...others, input_schema: inputSchema, ...(provenance !== null && { provenance }) };
    state.policies.putTool(sealed, registeredAtMs);
  }
  type MandateRow = Pick<SealedMandate, "version" | "digest" | "definition"> & {
    mandateId: string;
    createdBy: string | null;
    note: string;
    restoredFrom: number | null;
    createdAtMs: number;
    updatedAtMs: number;
    createdSeq: number;
    pack: string | null;
  };
  for await (const row of rowsOf<MandateRow>(client, readMandates, [state.workspaceId])) {
    const { mandateId, version, digest, definition, pack, createdBy, note, restoredFrom, ...times } = row;
    const sealed = {
      mandate_id: mandateId,
      version,
      digest,
      definition,
      ...(note !== "" && { note }),
      ...(restoredFrom !== null && { restored_from: restoredFrom }),
    };
    state.policies.putMandate(sealed, { ...times, createdBy: createdBy ?? undefined, pack: pack ?? undefined });
  }
  for await (const pack of rowsOf<PackState>(client, readPacks, [state.workspaceId])) state.policies.putPack(pack);
}

const SEALING_KEYS: readonly ControlChange["type"][] = [
  "workspace_created",
  "signing_key_added",
  "signing_key_retired",
];

/** Folds the entries that seal signing keys. An entry whose body does not hash to its leaf seals nothing. */
async function loadSigningKeys(client: Reader, state: WorkspaceState): Promise<void> {
  type Row = { seq: number; atMs: number; leafHash: Buffer; body: string };
  const values = [state.workspaceId, state.seq];
  for await (const { seq, atMs, leafHash: leaf, body } of rowsOf<Row>(client, readSigningKeys, values)) {
    if (!leafHash(body).equals(leaf)) continue;
    const change = JSON.parse(body) as ControlChange & { readonly by: string };
    if (SEALING_KEYS.includes(change.type)) foldChange(state, { change, seq, atMs, by: change.by });
  }
}

/**
 * Loads the current state of a workspace from its tables, its trust snapshot and the entries after that snapshot, so that the
 * time does not grow with the log. The transaction MUST see one moment. Rejects with WORKSPACE_NOT_FOUND.
 */
export async function loadSnapshot(client: Reader, workspaceId: string): Promise<WorkspaceState> {
  const {
    rows: [head],
  } = await client.query<HeadRow>({ ...readHead, values: [workspaceId] });
  if (head === undefined) {
    throw new ControlPlaneError(ErrorReason.WORKSPACE_NOT_FOUND, `no workspace \`${workspaceId}\``, {
      workspace_id: workspaceId,
    });
  }
  const settings = {
    workspace_id: workspaceId,
    name: head.name,
    default_decision: decisionFromNumber(head.defaultDecision),
    unknown_tools: decisionFromNumber(head.unknownTools),
    initial_trust_tenths: head.initialTrustTenths,
    approval_ignores: head.approvalIgnores,
    escalation_ttl_seconds: head.escalationTtlSeconds,
    approval_ttl_seconds: head.approvalTtlSeconds,
    four_eyes: head.fourEyes,
    max_pending_escalations_per_agent: head.maxPendingEscalationsPerAgent,
    key_ttl_days: head.keyTtlDays,
    halted: head.halted,
    rate_limit_key: head.rateLimitKey,
    rate_limit_workspace: head.rateLimitWorkspace,
    outcomes: head.outcomes,
    outcome_timeout_seconds: head.outcomeTimeoutSeconds,
    mandate_reviews: head.mandateReviews,
    prompt_from: head.promptFrom,
  };
  const frontier = frontierFromBytes(head.seq, head.frontier);
  const state = createWorkspaceState(settings, { seq: head.seq, lastAtMs: head.lastAtMs, frontier });
  await loadAgents(client, state);
  await loadAuthority(client, state);
  await loadFigures(client, state, head.trustSeq);
  forgetExpired(state, state.lastAtMs);
  await loadPendingEscalations(client, state);
  await loadDepartments(client, state);
  // Before the mandates, which are compiled against them.
  await loadLists(client, state);
  await loadApproverGroups(client, state);
  await loadPolicies(client, state);
  await loadSigningKeys(client, state);
  requireCounters(state, state.seq);
  return state;
}

/** Loads the current state of a workspace in a transaction of its own. Rejects with WORKSPACE_NOT_FOUND. */
export function loadState(pool: Pool, workspaceId: string): Promise<WorkspaceState> {
  return readSnapshot(pool, (client) => loadSnapshot(client, workspaceId));
}

/** Loads the escalations and ended grants that actions name and the state lacks. */
export async function loadNamed(reader: Reader, state: WorkspaceState, actions: readonly Action[]): Promise<void> {
  const { authority, escalations, workspaceId } = state;
  for (const { escalationId, grantId } of actions) {
    if (grantId !== undefined && !authority.knowsGrant(grantId)) {
      const grant = await loadEndedGrant(reader, workspaceId, grantId);
      authority.endedGrants.set(grantId, { grant });
    }
    if (escalationId === undefined || escalations.knows(escalationId)) continue;
    const escalation = await loadEscalation(reader, workspaceId, escalationId);
    if (escalation === undefined) escalations.putUnknown(escalationId);
    else escalations.put(escalation);
  }
}

/** Reads an ended grant; null when the workspace has no grant with this id. */
async function loadEndedGrant(reader: Reader, workspaceId: string, grantId: string): Promise<EndedGrant | null> {
  const { rows } = await reader.query<EndedGrant>({ ...readEndedGrant, values: [workspaceId, grantId] });
  return rows[0] ?? null;
}

/** Reads the state of an escalation; undefined for an unknown id. */
export async function loadEscalation(
  reader: Reader,
  workspaceId: string,
  escalationId: string,
): Promise<EscalationState | undefined> {
  type Row = Omit<EscalationState, "escalationId" | "status" | "demands"> & { status: number } & NeedsRow;
  const { rows } = await reader.query<Row>({ ...readEscalation, values: [workspaceId, escalationId] });
  const [row] = rows;
  if (row === undefined) return undefined;
  const { needs, ...facts } = row;
  return { escalationId, ...facts, demands: demandKeysOf(needs), status: escalationStatusFromNumber(row.status) };
}
