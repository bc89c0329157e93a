import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import {
  type Escalation,
  EscalationService,
  EscalationStatus,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Countdown, Time, useNow } from "../../kit/time.tsx";
import { Difference } from "./difference.tsx";

const REFRESH_MS = 3_000;

/** Names the resolver of an escalation: a person or key, expiry, or withdrawal. */
export function whoText(resolvedBy: string | undefined): string {
  if (resolvedBy === "expiry") return "its time was up";
  if (resolvedBy === "withdrawal") return "every ask was withdrawn";
  return `by ${resolvedBy ?? "nobody"}`;
}

/** Outcome of a resolved escalation. An unused approval is read again. */
export function Outcome({ escalation }: { readonly escalation: Escalation }) {
  const { escalationId, status, usedAt, expiresAt } = escalation;
  const isOver = expiresAt !== undefined && timestampMs(expiresAt) < Date.now() - REFRESH_MS;
  const isOpen = status === EscalationStatus.APPROVED && usedAt === undefined && !isOver;
  const query = useQuery(
    EscalationService.method.getEscalation,
    { escalationId },
    { enabled: isOpen, refetchInterval: isOpen ? REFRESH_MS : false },
  );
  return <OutcomeText escalation={query.data?.escalation ?? escalation} />;
}

function OutcomeText({ escalation }: { readonly escalation: Escalation }) {
  const {
    status,
    resolvedBy,
    resolvedAt,
    note,
    usedAt,
    usedByDecisionId,
    expiresAt,
    replacedBy,
    editedArguments,
    editedFrom,
    arguments: asked = {},
  } = escalation;
  const now = useNow();
  const isOver = expiresAt !== undefined && timestampMs(expiresAt) <= now;
  const isApproved = status === EscalationStatus.APPROVED;
  return (
    <div className="outcome stack">
      <p className="row">
        <Badge tone={isApproved ? "good" : "bad"}>
          {isApproved ? "approved" : editedArguments === undefined ? "rejected" : "approved with other arguments"}
        </Badge>
        <span>{whoText(resolvedBy)}</span>
        <Time at={resolvedAt} />
      </p>
      {note === undefined || note === "" ? null : (
        <p>
          “<Shown text={note} />”
        </p>
      )}
      {isApproved && usedAt !== undefined ? (
        <p>
          Used <Time at={usedAt} /> by{" "}
          <Link href={`/decisions/${usedByDecisionId ?? ""}`}>
            <code>{usedByDecisionId}</code>
          </Link>
          .
        </p>
      ) : null}
      {isApproved && usedAt === undefined && expiresAt !== undefined ? (
        <p>
          {isOver ? (
            "Never used: the approval has expired. The agent has to ask again."
          ) : (
            <>
              Not used yet; it can be for <Countdown to={expiresAt} />.
            </>
          )}
        </p>
      ) : null}
      {editedFrom === undefined ? null : (
        <p>
          Its arguments come from an edit of{" "}
          <Link href={`/escalations/${editedFrom}`}>
            <code>{editedFrom}</code>
          </Link>
          .
        </p>
      )}
      {editedArguments === undefined ? null : (
        <details>
          <summary>What was changed</summary>
          <Difference before={asked} after={editedArguments} />
        </details>
      )}
      {replacedBy === undefined ? null : (
        <p>
          Replaced by{" "}
          <Link href={`/escalations/${replacedBy}`}>
            <code>{replacedBy}</code>
          </Link>
          .
        </p>
      )}
    </div>
  );
}
