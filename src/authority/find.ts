import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { type Page, type PageRequest, pageFrom } from "../registry/page.ts";
import type { AuthorityKind } from "../state/control-changes.ts";
import type { Database } from "../store/database.ts";
import { AuthorityEntity, type AuthorityRow } from "../store/entities.ts";
import { stored } from "../store/store-fault.ts";
import { authorityNotFound } from "./kinds.ts";
import { type AuthorityView, viewFrom } from "./view.ts";

/** What authority is read from. */
export interface AuthoritySource {
  readonly logs: WorkspaceLogs;
  readonly database: Pick<Database, "orm">;
}

/** Which authority a list holds. */
export interface AuthorityFilter {
  readonly kind: AuthorityKind;
  /** Only this agent's, for grants as grantor or grantee; undefined does not narrow the list. */
  readonly agentId?: string | undefined;
}

/**
 * What rows show now. The state is caught up after the rows were read and looked at before anything else happens: it
 * may hold what is not durable yet at any other time.
 */
export async function viewsOf(
  { logs }: Pick<AuthoritySource, "logs">,
  workspaceId: string,
  rows: readonly AuthorityRow[],
): Promise<AuthorityView[]> {
  const state = await (await logs.of(workspaceId)).caughtUp();
  const nowMs = Math.max(logs.clock.now(), state.lastAtMs);
  return rows.map((row) => viewFrom(row, state, nowMs));
}

/** One piece of authority of a workspace. Throws AUTHORITY_NOT_FOUND, for an id of another kind as well. */
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

/**
 * Lists authority of one kind, newest first, what ended included; a page continues after the index of the entry that
 * made an item. Gives an empty page when nothing fits, an unknown agent included.
 */
export async function listAuthority(
  source: AuthoritySource,
  workspaceId: string,
  { kind, agentId }: AuthorityFilter,
  { size, after }: PageRequest,
): Promise<Page<AuthorityView>> {
  const where = {
    workspaceId,
    kind,
    ...(after === undefined ? {} : { createdSeq: { $lt: after } }),
    ...(agentId === undefined ? {} : { $or: [{ agentId }, { grantorAgentId: agentId }] }),
  };
  // Each item is made by an entry of its own, so its index alone gives every item a place.
  const options = { orderBy: { createdSeq: "desc" as const }, limit: size + 1 };
  const rows = await stored(source.database.orm.em.fork().find(AuthorityEntity, where, options));
  const { items, next } = pageFrom(rows, size, ({ createdSeq }) => createdSeq);
  return { items: await viewsOf(source, workspaceId, items), next };
}
