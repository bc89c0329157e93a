import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import {
  type Escalation,
  EscalationService,
  EscalationStatus,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { Badge, type Tone } from "../../kit/badge.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Countdown, Time, useNow } from "../../kit/time.tsx";
import { laterOf } from "../../live/escalation-feed.ts";
import { useEscalations } from "../../live/use-escalations.tsx";
import { GivenApprovals } from "./approval-needs.tsx";
import { Difference } from "./difference.tsx";

const REFRESH_MS = 3_000;

type Resolver = Pick<Escalation, "resolvedBy" | "resolvedByName">;

/** Returns the reason for a resolution that nobody made; undefined for one by a person or key. */
function causeText(resolvedBy: string | undefined): string | undefined {
  if (resolvedBy === "expiry") return "its time was up";
  return resolvedBy === "withdrawal" ? "every ask was withdrawn" : undefined;
}

/** Names the resolver of an escalation: a person or key, expiry, or withdrawal. */
export const whoText = ({ resolvedBy, resolvedByName }: Resolver): string =>
  causeText(resolvedBy) ?? `by ${shownText(resolvedByName ?? resolvedBy ?? "nobody")}`;

function Who({ resolvedBy, resolvedByName }: Resolver) {
  const cause = causeText(resolvedBy);
  if (cause !== undefined) return <span>{cause}</span>;
  return (
    <span>
      by <Actor id={resolvedBy ?? "nobody"} name={resolvedByName} />
    </span>
  );
}

/** Colour and word of an outcome. */
interface Verdict {
  readonly tone: Tone;
  readonly word: string;
}

/** Returns the verdict on an escalation. That on an edited one is the verdict on the action that took its place. */
function useVerdict({ status, editedArguments, replacedBy }: Escalation): Verdict {
  const { pending, resolved } = useEscalations();
  const isEdited = editedArguments !== undefined;
  const known = isEdited
    ? [...resolved, ...pending].find(({ escalationId }) => escalationId === replacedBy)
    : undefined;
  const query = useQuery(
    EscalationService.method.getEscalation,
    { escalationId: replacedBy ?? "" },
    { enabled: isEdited && replacedBy !== undefined && known === undefined },
  );
  if (!isEdited) {
    return status === EscalationStatus.APPROVED
      ? { tone: "good", word: "approved" }
      : { tone: "bad", word: "rejected" };
  }
  const replacement = laterOf(query.data?.escalation, known);
  if (replacedBy !== undefined && replacement === undefined) return { tone: "plain", word: "edited" };
  switch (replacement?.status) {
    case EscalationStatus.PENDING:
      return { tone: "wait", word: "edited: another person has to approve it" };
    case EscalationStatus.REJECTED:
      return { tone: "bad", word: "edited, then rejected" };
    default:
      return { tone: "good", word: "approved with other arguments" };
  }
}

/** Outcome of a resolved escalation in one line: the verdict, by whom, and when. */
export function OutcomeLine({ escalation }: { readonly escalation: Escalation }) {
  const { tone, word } = useVerdict(escalation);
  return (
    <>
      <Badge tone={tone}>{word}</Badge>
      <Who {...escalation} />
      <Time at={escalation.resolvedAt} />
    </>
  );
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
  // The cache may hold a state from before the answer, which the stream has told since.
  return <OutcomeText escalation={laterOf(escalation, query.data?.escalation) ?? escalation} />;
}

function OutcomeText({ escalation }: { readonly escalation: Escalation }) {
  const {
    status,
    note,
    usedAt,
    usedByDecisionId,
    expiresAt,
    replacedBy,
    editedArguments,
    editedFrom,
    approvals,
    arguments: asked = {},
  } = escalation;
  const now = useNow();
  const isOver = expiresAt !== undefined && timestampMs(expiresAt) <= now;
  const isApproved = status === EscalationStatus.APPROVED;
  return (
    <div className="outcome stack">
      <p className="row">
        <OutcomeLine escalation={escalation} />
      </p>
      {note === undefined || note === "" ? null : (
        <p>
          “<Shown text={note} />”
        </p>
      )}
      <GivenApprovals approvals={approvals} />
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
          <Difference before={asked} after={editedArguments} isPast />
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
