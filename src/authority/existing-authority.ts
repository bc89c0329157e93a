import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { latestFirst, type Page, type PageRequest, readPage } from "../registry/page.ts";
import { type AuthorityStatus, authorityStatus } from "../state/authority-status.ts";
import type { AuthorityKind, SealedAuthority } from "../state/control-changes.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, stored } from "../store/database.ts";
import { AuthorityEntity, type AuthorityRow } from "../store/entities.ts";
import { assertAgentMayEnd, type EndingAgent } from "./by-agent.ts";
import { authorityNotFound } from "./kind-traits.ts";

/** A piece of authority as it is shown. */
export interface AuthorityView {
  readonly sealed: SealedAuthority;
  readonly createdAtMs: number;
  /** Epoch milliseconds; null unless it was ended or revoked. */
  readonly endedAtMs: number | null;
  /** Actions allowed under it so far. */
  readonly uses: number;
  /** Allowed calls of each step of a contract's plan so far; empty without a plan. */
  readonly stepCalls: readonly number[];
  readonly status: AuthorityStatus;
}

/** Builds the view of a row at a time. Uses come from the state until the end, when the row gets the final count. */
export function viewFrom(row: AuthorityRow, { authority }: WorkspaceState, nowMs: number): AuthorityView {
  const sealed = row.sealed as SealedAuthority;
  const endedAtMs = row.endedAtMs ?? null;
  const { uses, stepCalls } = (endedAtMs === null ? authority.get(row.id) : undefined) ?? row;
  const facts = { endedAtMs, expiresAtMs: sealed.expires_at_ms, maxUses: sealed.max_uses, uses };
  return {
    sealed,
    createdAtMs: row.createdAtMs,
    endedAtMs,
    uses,
    stepCalls: stepCalls ?? [],
    status: authorityStatus(facts, nowMs),
  };
}

/** Sources that authority is read from. */
export interface AuthoritySource {
  readonly logs: WorkspaceLogs;
  readonly database: Pick<Database, "orm">;
}

/** Filter of a list of authority. */
interface AuthorityFilter {
  readonly kind: AuthorityKind;
  /** Only this agent's, for grants as grantor or grantee; undefined does not narrow the list. */
  readonly agentId?: string | undefined;
  /** Only grants that pass this one on; undefined does not narrow the list. */
  readonly parentGrantId?: string | undefined;
}

/**
 * Builds the views of rows as of now. The state is caught up after the rows were read and used without another await: at any
 * other time it may hold what is not durable yet.
 */
async function viewsOf(
  { logs }: Pick<AuthoritySource, "logs">,
  workspaceId: string,
  rows: readonly AuthorityRow[],
): Promise<AuthorityView[]> {
  const state = await (await logs.of(workspaceId)).caughtUp();
  const nowMs = Math.max(logs.clock.now(), state.lastAtMs);
  return rows.map((row) => viewFrom(row, state, nowMs));
}

/** Returns one piece of authority. Throws AUTHORITY_NOT_FOUND, also for an id of another kind. */
export async function getAuthority(
  source: AuthoritySource,
  workspaceId: string,
  kind: AuthorityKind,
  id: string,
): Promise<AuthorityView> {
  const row = await stored(source.database.orm.em.fork().findOne(AuthorityEntity, { workspaceId, id, kind }));
  const [view] = await viewsOf(source, workspaceId, row === null ? [] : [row]);
  if (view === undefined) throw authorityNotFound(kind, id);
  return view;
}

/** Returns the condition for grants that pass one on. Its grantee lends them, which narrows the search to an index. */
async function passingOn(
  { database }: AuthoritySource,
  workspaceId: string,
  { parentGrantId }: AuthorityFilter,
): Promise<object> {
  if (parentGrantId === undefined) return {};
  const key = { workspaceId, id: parentGrantId, kind: "grant" };
  const parent = await stored(database.orm.em.fork().findOne(AuthorityEntity, key));
  return { grantorAgentId: parent?.agentId ?? "", sealed: { parent_grant_id: parentGrantId } };
}

/**
 * Lists authority of one kind, newest first, including ended items; a position is the index of the entry that created the item.
 * The list of an unknown agent is empty.
 */
export async function listAuthority(
  source: AuthoritySource,
  workspaceId: string,
  filter: AuthorityFilter,
  page: PageRequest,
): Promise<Page<AuthorityView>> {
  const { kind, agentId } = filter;
  // Every item has an entry of its own, so the index is a unique position.
  const ofAgent = agentId === undefined ? {} : { $or: [{ agentId }, { grantorAgentId: agentId }] };
  const ofParent = await passingOn(source, workspaceId, filter);
  const read = (chunk: PageRequest): Promise<AuthorityRow[]> => {
    const { where, options } = latestFirst("createdSeq", chunk);
    const condition = { workspaceId, kind, ...where, ...ofAgent, ...ofParent };
    return stored(source.database.orm.em.fork().find(AuthorityEntity, condition, options));
  };
  const { items, next } = await readPage(page, ({ createdSeq }: AuthorityRow) => createdSeq, read);
  return { items: await viewsOf(source, workspaceId, items), next };
}

/** Identifies a piece of authority. */
interface AuthorityName {
  readonly kind: AuthorityKind;
  readonly id: string;
}

type FinalUses = Pick<AuthorityRow, "uses" | "stepCalls">;

/** Returns the final uses, by id, of everything that ends with a piece of authority: a grant takes its child grants along. */
function endingWith({ state }: ChangeScope, { id, uses, stepCalls }: AuthorityRow): Map<string, FinalUses> {
  const ending = new Map<string, FinalUses>([[id, { uses, stepCalls }]]);
  for (const { sealed, ...item } of state.authority.withChildren(id)) {
    ending.set(sealed.id, { uses: item.uses, stepCalls: sealed.steps === undefined ? null : item.stepCalls });
  }
  return ending;
}

async function endNow(scope: ChangeScope, row: AuthorityRow): Promise<AuthorityView> {
  const { transaction, state, nowMs, seal } = scope;
  const { workspaceId } = state;
  const ending = endingWith(scope, row);
  for (const [id, final] of ending) {
    const key = { workspaceId, id, endedAtMs: null };
    await transaction.nativeUpdate(AuthorityEntity, key, { endedAtMs: nowMs, ...final });
  }
  seal({
    type: "authority_ended",
    kind: row.kind as AuthorityKind,
    agent_id: row.agentId ?? null,
    ids: [...ending.keys()],
  });
  return viewFrom({ ...row, endedAtMs: nowMs, ...ending.get(row.id) }, state, nowMs);
}

/**
 * Ends a piece of authority, and with a grant its child grants, from the next decision on; nothing is sealed if it has
 * ended. `agent`: the agent that ends it, default none. Throws AUTHORITY_NOT_FOUND, also for an id of another kind, and OPERATOR_NEEDED for
 * what an agent did not make itself. For a credential or token the caller MUST make its
 * authenticator forget the workspace.
 */
export function endAuthority(
  log: WorkspaceLog,
  by: string,
  { kind, id }: AuthorityName,
  agent?: EndingAgent,
): Promise<AuthorityView> {
  return log.change(by, async (scope) => {
    const { transaction, state, nowMs } = scope;
    const row = await transaction.findOne(AuthorityEntity, { workspaceId: state.workspaceId, id, kind });
    if (row === null) throw authorityNotFound(kind, id);
    if (agent !== undefined) assertAgentMayEnd(agent, row.sealed as SealedAuthority);
    return (row.endedAtMs ?? null) === null ? endNow(scope, row) : viewFrom(row, state, nowMs);
  });
}
