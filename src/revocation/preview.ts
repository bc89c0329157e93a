import { getAgent } from "../registry/agents.ts";
import type { AuthorityItem } from "../state/authority.ts";
import type { RevokedIds } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, stored } from "../store/database.ts";
import { type ApiKeyRow, type EscalationRow, RevocationEntity } from "../store/entities.ts";
import { readActionTypes } from "../store/sql/read-entries.ts";
import { planRevocation, type RevocationPlan } from "./plan.ts";

/** Maximum number of items of a kind in a preview. */
const MAX_ITEMS = 500;
/** Maximum characters of a name in a preview: purposes and goals may be long. */
const MAX_NAME = 100;

/** An item that a revocation would end. */
export interface PreviewedItem {
  readonly id: string;
  /** First `MAX_NAME` characters of its name or description; of a grant, the name of the agent that it was lent to. */
  readonly name: string;
  /** Epoch milliseconds; null if it never expires. */
  readonly expiresAtMs: number | null;
  /** Of a grant: the agent that lent it. */
  readonly grantorAgentId?: string | undefined;
  /** Of a grant: the agent that it was lent to. */
  readonly granteeAgentId?: string | undefined;
}

/** Items of one kind: the first `MAX_ITEMS` by id, and the number of all. */
export interface PreviewedKind {
  readonly items: readonly PreviewedItem[];
  readonly count: number;
}

/** Preview of the revocation of an agent. */
export interface RevocationPreview {
  readonly agentName: string;
  /** The revocation of an agent that was revoked before: revoking again ends nothing. Else undefined. */
  readonly revocationId: string | undefined;
  /** As the certificate would list it: bound API keys are credentials. */
  readonly revoked: { readonly [K in keyof RevokedIds]: PreviewedKind };
  readonly keys: PreviewedKind;
  readonly escalations: PreviewedKind;
}

const shortened = (text: string): string => [...text.slice(0, 2 * MAX_NAME)].slice(0, MAX_NAME).join("");

function kindFrom(all: readonly PreviewedItem[]): PreviewedKind {
  const items = all.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, MAX_ITEMS);
  return { items: items.map((item) => ({ ...item, name: shortened(item.name) })), count: all.length };
}

function nameOf({ agents }: WorkspaceState, { sealed }: AuthorityItem): string {
  const { kind, agent_id, audience, server, tool, text } = sealed;
  if (kind === "grant") return agents.get(agent_id ?? "")?.registration.name ?? "";
  return kind === "mcp_tool_policy" ? `${server} ${tool}` : (text ?? audience ?? "");
}

function itemFrom(state: WorkspaceState, item: AuthorityItem): PreviewedItem {
  const { id, kind, agent_id, grantor_agent_id, expires_at_ms: expiresAtMs } = item.sealed;
  const named = { id, name: nameOf(state, item), expiresAtMs };
  return kind === "grant" ? { ...named, grantorAgentId: grantor_agent_id, granteeAgentId: agent_id ?? "" } : named;
}

const itemFromKey = ({ keyId, name, expiresAtMs }: ApiKeyRow): PreviewedItem => ({
  id: keyId,
  name,
  expiresAtMs: expiresAtMs ?? null,
});

/** Reads the action types of some escalations, by the index of the entry that created each. */
async function actionTypesOf(
  { pool }: Database,
  { workspaceId }: WorkspaceState,
  escalations: readonly EscalationRow[],
): Promise<ReadonlyMap<number, string>> {
  const values = [workspaceId, escalations.map(({ createdSeq }) => createdSeq)];
  const { rows } = await pool.query<{ seq: number; actionType: string }>({ ...readActionTypes, values });
  return new Map(rows.map(({ seq, actionType }) => [seq, actionType]));
}

function revokedFrom(state: WorkspaceState, { items, keys }: RevocationPlan): RevocationPreview["revoked"] {
  const kinds = Object.entries(items).map(([kind, all]) => {
    const ended = all.map((item) => itemFrom(state, item));
    return [kind, kindFrom(kind === "credentials" ? [...ended, ...keys.map(itemFromKey)] : ended)];
  });
  return Object.fromEntries(kinds) as RevocationPreview["revoked"];
}

const NO_AUTHORITY: RevocationPlan["items"] = {
  sessions: [],
  credentials: [],
  grants_given: [],
  grants_received: [],
  temporal_windows: [],
  intent_contracts: [],
  federation_tokens: [],
  mcp_tool_policies: [],
};

/** Lists what revoking an agent at a time would end; empty if it is already revoked. Throws AGENT_NOT_FOUND. */
export async function previewRevocation(
  database: Database,
  state: WorkspaceState,
  agentId: string,
  nowMs: number,
): Promise<RevocationPreview> {
  const { registration } = getAgent(state, agentId);
  const transaction = database.orm.em.fork();
  const revokedBefore = await stored(
    transaction.findOne(RevocationEntity, { workspaceId: state.workspaceId, agentId }),
  );
  const plan =
    revokedBefore === null
      ? await stored(planRevocation(transaction, state, agentId, nowMs))
      : { items: NO_AUTHORITY, keys: [], pending: [] };
  const pending = plan.pending.filter(({ expiresAtMs }) => expiresAtMs > nowMs);
  const types = await stored(actionTypesOf(database, state, pending));
  return {
    agentName: registration.name,
    revocationId: revokedBefore?.revocationId,
    revoked: revokedFrom(state, plan),
    keys: kindFrom(plan.keys.map(itemFromKey)),
    escalations: kindFrom(
      pending.map(({ escalationId, createdSeq, expiresAtMs }) => ({
        id: escalationId,
        name: types.get(createdSeq) ?? "",
        expiresAtMs,
      })),
    ),
  };
}
