import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { Page, PageRequest } from "../registry/page.ts";
import type { Database } from "../store/database.ts";
import { IncidentEntity, type IncidentRow } from "../store/entities.ts";

/** Reads one incident. Throws INCIDENT_NOT_FOUND. */
export async function getIncident({ orm }: Database, workspaceId: string, incidentId: string): Promise<IncidentRow> {
  const row = await orm.em.fork().findOne(IncidentEntity, { workspaceId, incidentId });
  if (row !== null) return row;
  const metadata = { incident_id: incidentId };
  throw new ControlPlaneError(ErrorReason.INCIDENT_NOT_FOUND, `no incident \`${incidentId}\``, metadata);
}

/** Lists the incidents of a workspace, newest first; a page continues after an index in the log. */
export async function listIncidents(
  { orm }: Database,
  workspaceId: string,
  { size, after }: PageRequest,
): Promise<Page<IncidentRow>> {
  const where = after === undefined ? { workspaceId } : { workspaceId, createdSeq: { $lt: after } };
  const rows = await orm.em.fork().find(IncidentEntity, where, { orderBy: { createdSeq: "desc" }, limit: size + 1 });
  const items = rows.slice(0, size);
  return { items, next: rows.length > size ? items.at(-1)?.createdSeq : undefined };
}
