import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type IncidentSchema, IncidentService } from "../../gen/agentcontrol/v1/incident_service_pb.js";
import { ActorNames, type NameOf } from "../registry/actor-names.ts";
import { getIncident, listIncidents } from "../revocation/revocations.ts";
import type { Database } from "../store/database.ts";
import type { IncidentRow } from "../store/entities.ts";
import { pageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

function messageFrom(row: IncidentRow, nameOf: NameOf): MessageInitShape<typeof IncidentSchema> {
  const { incidentId, kind, agentId, revocationId, summary, reason, createdBy, createdAtMs } = row;
  const createdAt = timestampFromMs(createdAtMs);
  const createdByName = nameOf(createdBy);
  return { incidentId, kind, agentId, revocationId, summary, reason, createdBy, createdAt, createdByName };
}

/** Creates the functions of IncidentService. */
export function createIncidentService(database: Database): ServiceDefinition {
  const names = new ActorNames(database.pool);
  const namesIn = (rows: readonly IncidentRow[], workspaceId: string): Promise<NameOf> =>
    names.find(
      workspaceId,
      rows.map(({ createdBy }) => createdBy),
    );
  return defineService(IncidentService, {
    async listIncidents(request, { caller }) {
      const page = pageFrom(request, "incidents");
      const { items, next } = await listIncidents(database, caller.workspaceId, page);
      const nameOf = await namesIn(items, caller.workspaceId);
      return { incidents: items.map((row) => messageFrom(row, nameOf)), nextPageToken: page.tokenAfter(next) };
    },
    async getIncident({ incidentId }, { caller }) {
      const row = await getIncident(database, caller.workspaceId, incidentId);
      return { incident: messageFrom(row, await namesIn([row], caller.workspaceId)) };
    },
  });
}
