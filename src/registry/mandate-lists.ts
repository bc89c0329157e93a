import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Database } from "../store/database.ts";
import { MandateVersionEntity, type MandateVersionRow } from "../store/entities.ts";
import type { Transaction } from "../store/transaction.ts";
import { type MandateStatusWord, type MandateView, viewFromRow, viewFromState } from "./mandate-view.ts";
import { newestPage, type Page, type PageRequest, pageFrom } from "./page.ts";
import { stored } from "./stored.ts";

/** Versions of a mandate that are shown. */
const SHOWN_VERSIONS = 100;

/** The error for a mandate that the workspace does not have. */
export function mandateNotFound(mandateId: string): ControlPlaneError {
  const metadata = { mandate_id: mandateId };
  return new ControlPlaneError(ErrorReason.MANDATE_NOT_FOUND, `no mandate \`${mandateId}\``, metadata);
}

/** The last versions of a mandate, newest first. Throws MANDATE_NOT_FOUND when there is none. */
export async function lastVersions(
  transaction: Transaction,
  workspaceId: string,
  mandateId: string,
  limit: number,
): Promise<MandateVersionRow[]> {
  const options = { orderBy: { version: "desc" }, limit } as const;
  const rows = await transaction.find(MandateVersionEntity, { workspaceId, mandateId }, options);
  if (rows.length === 0) throw mandateNotFound(mandateId);
  return rows;
}

/** Gives a mandate: the version in force, or the last one if it is archived. Throws MANDATE_NOT_FOUND. */
export async function getMandate(database: Database, state: WorkspaceState, mandateId: string): Promise<MandateView> {
  const [latest] = await listMandateVersions(database, state, mandateId, 1);
  return latest as MandateView;
}

/** The versions of a mandate, newest first; the last 100 unless `limit` says otherwise. Throws MANDATE_NOT_FOUND. */
export async function listMandateVersions(
  { orm }: Database,
  state: WorkspaceState,
  mandateId: string,
  limit: number = SHOWN_VERSIONS,
): Promise<MandateView[]> {
  const { workspaceId, policies } = state;
  // Taken before the rows are read, so that both are of one moment: versions that are made meanwhile are left out.
  const mandate = policies.mandates.get(mandateId);
  const current = mandate === undefined ? [] : [viewFromState(mandate, policies.lookup)];
  if (current.length >= limit) return current;
  const rows = await stored(lastVersions(orm.em.fork(), workspaceId, mandateId, limit));
  const [{ version } = { version: Number.POSITIVE_INFINITY }] = current;
  const earlier = rows.filter((row) => row.version < version).map((row) => viewFromRow(row, policies.lookup));
  return [...current, ...earlier].slice(0, limit);
}

async function listArchived(
  { orm }: Database,
  state: WorkspaceState,
  { size, after }: PageRequest,
): Promise<Page<MandateView>> {
  const before = after === undefined ? {} : { createdSeq: { $lt: after } };
  const where = { workspaceId: state.workspaceId, archived: true, ...before };
  const options = { orderBy: { createdSeq: "desc" }, limit: size + 1 } as const;
  const rows = await stored(orm.em.fork().find(MandateVersionEntity, where, options));
  const views = rows.map((row) => viewFromRow(row, state.policies.lookup));
  return pageFrom(views, size, ({ createdSeq }) => createdSeq);
}

/**
 * Lists the mandates of a status, newest first; without one those that are not archived. A page continues after the index
 * of the entry that created a mandate.
 */
export async function listMandates(
  database: Database,
  state: WorkspaceState,
  status: MandateStatusWord | undefined,
  page: PageRequest,
): Promise<Page<MandateView>> {
  if (status === "archived") return listArchived(database, state, page);
  const { mandates, lookup } = state.policies;
  const { items, next } = newestPage(
    [...mandates.values()],
    ({ createdSeq }) => createdSeq,
    page,
    ({ compiled }) => status === undefined || (status === "stale") === compiled.violations.length > 0,
  );
  return { items: items.map((mandate) => viewFromState(mandate, lookup)), next };
}
