import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type IncidentSchema, IncidentService } from "../../gen/agentcontrol/v1/incident_service_pb.js";
import { getIncident, listIncidents } from "../revocation/revocations.ts";
import type { Database } from "../store/database.ts";
import type { IncidentRow } from "../store/entities.ts";
import { pageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

function messageFrom(row: IncidentRow): MessageInitShape<typeof IncidentSchema> {
  const { incidentId, kind, agentId, revocationId, summary, reason, createdBy, createdAtMs } = row;
  const createdAt = timestampFromMs(createdAtMs);
  return { incidentId, kind, agentId, revocationId, summary, reason, createdBy, createdAt };
}

/** Creates the functions of IncidentService. */
export function createIncidentService(database: Database): ServiceDefinition {
  return defineService(IncidentService, {
    async listIncidents(request, { caller }) {
      const page = pageFrom(request, "incidents");
      const { items, next } = await listIncidents(database, caller.workspaceId, page);
      return { incidents: items.map(messageFrom), nextPageToken: page.tokenAfter(next) };
    },
    async getIncident({ incidentId }, { caller }) {
      return { incident: messageFrom(await getIncident(database, caller.workspaceId, incidentId)) };
    },
  });
}
