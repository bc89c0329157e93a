import type { Person } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Time } from "../../kit/time.tsx";

/** Shows whether a person is active, and until when an invite is open. */
export function PersonState({ person: { deactivatedAt, leftAt, invitedUntil } }: { readonly person: Person }) {
  const endedAt = deactivatedAt ?? leftAt;
  if (endedAt !== undefined) {
    return (
      <span className="person-state">
        <Badge tone="bad">{deactivatedAt === undefined ? "left" : "deactivated"}</Badge>{" "}
        <span className="hint">
          <Time at={endedAt} />
        </span>
      </span>
    );
  }
  return (
    <span className="person-state">
      <Badge tone="good">active</Badge>{" "}
      {invitedUntil === undefined ? null : (
        <span className="hint">
          invited, link ends <Time at={invitedUntil} />
        </span>
      )}
    </span>
  );
}
