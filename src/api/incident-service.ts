import type { MessageInitShape } from "@bufbuild/protobuf";
import { type IncidentSchema, IncidentService } from "../../gen/agentcontrol/v1/incident_service_pb.js";
import { getIncident, listIncidents } from "../revocation/incidents.ts";
import type { IncidentRow } from "../store/authority-entities.ts";
import type { Database } from "../store/database.ts";
import { decodePageToken, nextPageToken, pageKind, pageSizeFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";
import { timestampFromMs } from "./words.ts";

function messageFrom(row: IncidentRow): MessageInitShape<typeof IncidentSchema> {
  const { incidentId, kind, agentId, revocationId, summary, reason, createdBy, createdAtMs } = row;
  const createdAt = timestampFromMs(createdAtMs);
  return { incidentId, kind, agentId, revocationId, summary, reason, createdBy, createdAt };
}

/** Creates the functions of IncidentService. */
export function createIncidentService(database: Database): ServiceDefinition {
  return defineService(IncidentService, {
    async listIncidents(request, { caller }) {
      const kind = pageKind("incidents");
      const page = { size: pageSizeFrom(request), after: decodePageToken(kind, request.pageToken) };
      const { items, next } = await listIncidents(database, caller.workspaceId, page);
      return { incidents: items.map(messageFrom), nextPageToken: nextPageToken(kind, next) };
    },
    async getIncident({ incidentId }, { caller }) {
      return { incident: messageFrom(await getIncident(database, caller.workspaceId, incidentId)) };
    },
  });
}
