import { isDeepStrictEqual } from "node:util";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { RATE_FORM, rateFrom } from "../async/rate.ts";
import { ControlPlaneError, ErrorReason, invalidField, notFound } from "../errors.ts";
import { sealChanges } from "../log/changes.ts";
import type { Decision } from "../policy/types.ts";
import type {
  ControlChange,
  OutcomeTracking,
  PromptSource,
  SealedSigningKey,
  SealedWorkspace,
} from "../state/control-changes.ts";
import { EMPTY_POLICY_DIGEST } from "../state/policies.ts";
import { DECISION_NUMBERS, decisionFromNumber } from "../state/types.ts";
import { type Database, isUniqueViolation, stored } from "../store/database.ts";
import {
  ApiKeyEntity,
  type ApiKeyRow,
  LedgerHeadEntity,
  WorkspaceEntity,
  type WorkspaceRow,
} from "../store/entities.ts";
import { appendChanges, type Transaction } from "../store/transaction.ts";
import type { JsonObject } from "../tree/canonical.ts";
import { EMPTY_FRONTIER } from "../tree/merkle.ts";
import { checkedName, checkedText } from "./checked-text.ts";
import { type CreatedKey, newKey } from "./keys.ts";
import { type Page, type PageRequest, pageFrom } from "./page.ts";
import type { PreparedChange } from "./prepared-change.ts";

/** The workspace created on first start; its admins create the others. */
export const DEFAULT_WORKSPACE_ID = "default";
/** Default trust of a new agent, in tenths. */
const DEFAULT_TRUST_TENTHS = 500;

/** Members of the metadata that differ between two tries of one action and that no rule should read. */
const DEFAULT_APPROVAL_IGNORES: readonly string[] = [
  "traceparent",
  "tracestate",
  "trace_id",
  "span_id",
  "timestamp",
  "mcp_session_id",
];
/** A day: an approver who is asked in the evening answers in the morning. */
const DEFAULT_ESCALATION_TTL_SECONDS = 86_400;
/** An hour: the asker presents an approval within seconds unless it was away. */
const DEFAULT_APPROVAL_TTL_SECONDS = 3_600;
/** More than a person reads, and little enough to keep in memory for every agent. */
const DEFAULT_MAX_PENDING = 100;
/** An hour: longer than most actions run, and soon enough for a person to look into one without an outcome. */
const DEFAULT_OUTCOME_TIMEOUT_SECONDS = 3_600;
/** Members that identify the call: an approval always covers them. */
const ALWAYS_COVERED: ReadonlySet<string> = new Set(["arguments", "tool", "mcp_server"]);

/** A workspace as it is shown. */
export interface WorkspaceSettings {
  readonly workspaceId: string;
  readonly name: string;
  /** Decision when no mandate matches. */
  readonly defaultDecision: Decision;
  readonly initialTrustTenths: number;
  /** Decision on a call that names a tool which is not registered, unless mandates are stricter. */
  readonly unknownTools: Decision;
  /** Top-level members of an action's metadata that approvals do not cover. */
  readonly approvalIgnores: readonly string[];
  /** Seconds that an escalation stays pending, unless its rule says otherwise. */
  readonly escalationTtlSeconds: number;
  /** Seconds that an approval is usable. */
  readonly approvalTtlSeconds: number;
  /** True if a key that asked for an approval cannot give it. */
  readonly fourEyes: boolean;
  readonly maxPendingEscalationsPerAgent: number;
  /** Days after which new API keys expire, at most; 0 if they expire only on request. */
  readonly keyTtlDays: number;
  /** True while every action is blocked. */
  readonly halted: boolean;
  /** Calls per second of one key in each process, as `rateFrom` reads them; empty: no limit. */
  readonly rateLimitKey: string;
  /** The same of the whole workspace. */
  readonly rateLimitWorkspace: string;
  /** Allowed actions whose outcomes are tracked. */
  readonly outcomes: OutcomeTracking;
  /** Seconds after which a pending outcome becomes unknown. */
  readonly outcomeTimeoutSeconds: number;
  /** Others who must accept a change of mandates or lists; 0 for none. */
  readonly mandateReviews: number;
  /** Callers who may say what an agent was asked. */
  readonly promptFrom: PromptSource;
  readonly createdAtMs: number;
}

/** Fields of a new workspace; absent ones take their defaults, `name` the id. */
export type WorkspaceDraft = Pick<WorkspaceSettings, "workspaceId"> & {
  readonly [Setting in Exclude<keyof WorkspaceSettings, "workspaceId" | "createdAtMs">]?:
    | WorkspaceSettings[Setting]
    | undefined;
};

const DEFAULTS: Omit<WorkspaceSettings, "workspaceId" | "name" | "createdAtMs"> = {
  defaultDecision: "allow",
  unknownTools: "allow",
  initialTrustTenths: DEFAULT_TRUST_TENTHS,
  approvalIgnores: DEFAULT_APPROVAL_IGNORES,
  escalationTtlSeconds: DEFAULT_ESCALATION_TTL_SECONDS,
  approvalTtlSeconds: DEFAULT_APPROVAL_TTL_SECONDS,
  fourEyes: false,
  maxPendingEscalationsPerAgent: DEFAULT_MAX_PENDING,
  keyTtlDays: 0,
  halted: false,
  rateLimitKey: "",
  rateLimitWorkspace: "",
  outcomes: "tracked",
  outcomeTimeoutSeconds: DEFAULT_OUTCOME_TIMEOUT_SECONDS,
  mandateReviews: 0,
  promptFrom: "agent",
};

/** A new workspace with its first admin key. */
interface CreatedWorkspace extends CreatedKey {
  readonly workspace: WorkspaceSettings;
}

/** Circumstances of a workspace's creation. */
interface CreationContext {
  readonly database: Pick<Database, "orm">;
  /** Epoch milliseconds by the database's clock. */
  readonly nowMs: number;
  /** The caller's key; `system` for the service itself. */
  readonly by: string;
  /** Key that is to sign the workspace's log, sealed in its first entry. Absent: it is sealed before it first signs. */
  readonly signingKey?: SealedSigningKey | undefined;
}

function settingsFrom({
  defaultDecision,
  unknownTools,
  outcomes,
  promptFrom,
  trustSeq: _,
  ...row
}: WorkspaceRow): WorkspaceSettings {
  const decisions = {
    defaultDecision: decisionFromNumber(defaultDecision),
    unknownTools: decisionFromNumber(unknownTools),
  };
  return { ...row, ...decisions, outcomes: outcomes as OutcomeTracking, promptFrom: promptFrom as PromptSource };
}

/** Returns the columns that settings are stored in. */
function columnsFrom({ workspaceId: _, createdAtMs: __, ...settings }: WorkspaceSettings) {
  const { defaultDecision, unknownTools, approvalIgnores } = settings;
  return {
    ...settings,
    defaultDecision: DECISION_NUMBERS[defaultDecision],
    unknownTools: DECISION_NUMBERS[unknownTools],
    approvalIgnores: [...approvalIgnores],
  };
}

const sealedFrom = (settings: WorkspaceSettings): SealedWorkspace => ({
  workspace_id: settings.workspaceId,
  name: settings.name,
  default_decision: settings.defaultDecision,
  unknown_tools: settings.unknownTools,
  initial_trust_tenths: settings.initialTrustTenths,
  approval_ignores: settings.approvalIgnores,
  escalation_ttl_seconds: settings.escalationTtlSeconds,
  approval_ttl_seconds: settings.approvalTtlSeconds,
  four_eyes: settings.fourEyes,
  max_pending_escalations_per_agent: settings.maxPendingEscalationsPerAgent,
  key_ttl_days: settings.keyTtlDays,
  halted: settings.halted,
  rate_limit_key: settings.rateLimitKey,
  rate_limit_workspace: settings.rateLimitWorkspace,
  outcomes: settings.outcomes,
  outcome_timeout_seconds: settings.outcomeTimeoutSeconds,
  mandate_reviews: settings.mandateReviews,
  prompt_from: settings.promptFrom,
});

/** Returns settings with the given ones in their place. Throws INVALID_FIELD for a name or a list that is refused. */
function withChanges(before: WorkspaceSettings, changes: Omit<WorkspaceDraft, "workspaceId">): WorkspaceSettings {
  const given = Object.entries(changes).filter(([name, value]) => name in before && value !== undefined);
  const after: WorkspaceSettings = { ...before, ...Object.fromEntries(given) };
  const name = after.name === before.name ? before.name : checkedName("name", after.name);
  assertRate("rate_limit_key", after.rateLimitKey);
  assertRate("rate_limit_workspace", after.rateLimitWorkspace);
  return { ...after, name, approvalIgnores: checkedIgnores(after.approvalIgnores) };
}

/** Throws INVALID_FIELD unless a text is a rate of calls, or empty for none. */
function assertRate(field: string, text: string): void {
  if (text !== "" && rateFrom(text) === undefined) throw invalidField(field, `${RATE_FORM}; empty sets no limit`);
}

/** Returns the members to leave out, each once. Throws INVALID_FIELD for one that approvals always cover. */
function checkedIgnores(names: readonly string[]): readonly string[] {
  for (const name of names) {
    checkedText("approval_ignores", name);
    if (!ALWAYS_COVERED.has(name)) continue;
    throw invalidField("approval_ignores", `must not hold \`${name}\`, which identifies the call`);
  }
  return [...new Set(names)];
}

const workspaceNotFound = (workspaceId: string): ControlPlaneError =>
  notFound(ErrorReason.WORKSPACE_NOT_FOUND, "workspace", { workspace_id: workspaceId });

async function insertWorkspace(transaction: Transaction, settings: WorkspaceSettings, key: ApiKeyRow): Promise<void> {
  const { workspaceId, createdAtMs } = settings;
  await transaction.insert(WorkspaceEntity, { workspaceId, createdAtMs, ...columnsFrom(settings), trustSeq: 0 });
  await transaction.insert(LedgerHeadEntity, {
    workspaceId,
    seq: 0,
    frontier: Buffer.alloc(0),
    lastAtMs: createdAtMs,
  });
  await transaction.insert(ApiKeyEntity, { ...key });
}

/**
 * Creates a workspace with its first admin key, usable when this resolves. The key's secret is random unless one is given.
 * Throws WORKSPACE_EXISTS.
 */
export async function createWorkspace(
  { database, nowMs, by, signingKey }: CreationContext,
  draft: WorkspaceDraft,
  givenSecret?: string,
): Promise<CreatedWorkspace> {
  const { workspaceId, ...settings } = draft;
  const workspace = withChanges({ ...DEFAULTS, workspaceId, name: workspaceId, createdAtMs: nowMs }, settings);
  const firstAdmin = { name: "first admin", role: Role.ADMIN, agentId: null };
  const { key, sealed, secret } = newKey(workspaceId, by, firstAdmin, nowMs, givenSecret);
  const changes: ControlChange[] = [
    {
      type: "workspace_created",
      workspace: sealedFrom(workspace),
      policy_digest: EMPTY_POLICY_DIGEST,
      ...(signingKey === undefined ? {} : { signing_key: signingKey }),
    },
    { type: "key_created", key: sealed },
  ];
  const create = async (transaction: Transaction): Promise<void> => {
    await insertWorkspace(transaction, workspace, key);
    const logEnd = { workspaceId, seq: 0, frontier: EMPTY_FRONTIER, atMs: nowMs, by };
    await appendChanges(transaction, sealChanges(logEnd, changes));
  };
  try {
    await stored(database.orm.em.fork().transactional(create));
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    const message = `a workspace \`${workspaceId}\` exists`;
    throw new ControlPlaneError(ErrorReason.WORKSPACE_EXISTS, message, { workspace_id: workspaceId }, { cause: error });
  }
  return { workspace, key, secret };
}

/** Returns a workspace. Throws WORKSPACE_NOT_FOUND. */
export async function getWorkspace({ orm }: Pick<Database, "orm">, workspaceId: string): Promise<WorkspaceSettings> {
  const row = await stored(orm.em.fork().findOne(WorkspaceEntity, { workspaceId }));
  if (row === null) throw workspaceNotFound(workspaceId);
  return settingsFrom(row);
}

/** Lists all workspaces, ordered by id; a position is an id. */
export async function listWorkspaces(
  { orm }: Pick<Database, "orm">,
  { size, after }: PageRequest<string>,
): Promise<Page<WorkspaceSettings, string>> {
  const where = after === undefined ? {} : { workspaceId: { $gt: after } };
  const options = { orderBy: { workspaceId: "asc" }, limit: size + 1 } as const;
  const rows = await stored(orm.em.fork().find(WorkspaceEntity, where, options));
  return pageFrom(rows.map(settingsFrom), size, ({ workspaceId }) => workspaceId);
}

const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const camelCase = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Reads settings as a proposal of them holds them. */
export const updateFromProposal = (settings: JsonObject): WorkspaceUpdate =>
  Object.fromEntries(Object.entries(settings).map(([name, value]) => [camelCase(name), value]));

/** Settings to change; undefined ones keep their values. */
export type WorkspaceUpdate = Omit<WorkspaceDraft, "workspaceId">;

/**
 * Prepares a change of settings of the log's workspace, in force for the next decision. Nothing is sealed if all values stay the
 * same. A change of the reviews themselves is reviewed, with the settings that come along.
 */
export function prepareSettings(update: WorkspaceUpdate): PreparedChange<WorkspaceSettings> {
  return {
    proposal({ settings }) {
      const { mandateReviews } = update;
      if (mandateReviews === undefined || mandateReviews === (settings.mandate_reviews ?? 0)) return undefined;
      const given = Object.entries(update).filter(([, value]) => value !== undefined);
      const written = given.map(([name, value]) => [snakeCase(name), value] as const);
      return { kind: "update_workspace", settings: Object.fromEntries(written) as JsonObject };
    },
    async apply({ transaction, state, seal }) {
      const { workspaceId } = state;
      const row = await transaction.findOne(WorkspaceEntity, { workspaceId });
      if (row === null) throw workspaceNotFound(workspaceId);
      const before = settingsFrom(row);
      const after = withChanges(before, update);
      if (isDeepStrictEqual(after, before)) return () => before;
      await transaction.nativeUpdate(WorkspaceEntity, { workspaceId }, columnsFrom(after));
      seal({ type: "workspace_updated", workspace: sealedFrom(after) });
      return () => after;
    },
  };
}
