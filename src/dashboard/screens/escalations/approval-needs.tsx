import { Link } from "wouter";
import {
  type ApprovalNeed,
  type Escalation,
  type EscalationApproval,
  EscalationStatus,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import { groupsText, hasApprovers, missingOf } from "./approval-words.ts";

/** Demands and approvals that a card lists. */
const MAX_LISTED = 20;

interface NeedsProps {
  readonly escalation: Pick<Escalation, "status" | "approvalsNeeded" | "approvals">;
}

/** Demands of the rules that name approvers: how many have approved, who they are, and who is missing. Nothing without such rules. */
export function ApprovalNeeds({ escalation }: NeedsProps) {
  const { approvalsNeeded, approvals, status } = escalation;
  if (!hasApprovers(escalation)) return null;
  const left = approvalsNeeded.length - MAX_LISTED;
  return (
    <ul className="approval-needs" aria-label="Approvals">
      {approvalsNeeded.slice(0, MAX_LISTED).map((need, index) => (
        <NeedLine
          key={index}
          need={need}
          approvals={approvals.filter((each) => isFor(need, each))}
          isOpen={status === EscalationStatus.PENDING}
        />
      ))}
      {left > 0 ? <li className="hint">and {left} more</li> : null}
    </ul>
  );
}

const isFor = ({ groups: needed }: ApprovalNeed, { groups }: EscalationApproval): boolean =>
  needed.length === 0 || needed.some((name) => groups.includes(name));

interface NeedLineProps {
  readonly need: ApprovalNeed;
  readonly approvals: readonly EscalationApproval[];
  /** True while the escalation waits. */
  readonly isOpen: boolean;
}

function NeedLine({ need, approvals, isOpen }: NeedLineProps) {
  const { groups, atLeast, given } = need;
  const isMet = missingOf(need) === 0;
  return (
    <li className="approval-need" data-need={groups.join(" ")}>
      <p className="row">
        <Badge tone={isMet ? "good" : "wait"}>
          {Math.min(given, atLeast)} of {atLeast} given
        </Badge>
        <span>
          by <Groups groups={groups} />
        </span>
      </p>
      <GivenApprovals approvals={approvals} />
      {isMet || !isOpen ? null : <Missing need={need} />}
    </li>
  );
}

function Groups({ groups }: Pick<ApprovalNeed, "groups">) {
  if (groups.length === 0) return "the operators";
  return groups.map((name, index) => (
    <span key={name}>
      {index === 0 ? "" : index === groups.length - 1 ? " or " : ", "}
      <Link href={`/approver-groups/${encodeURIComponent(name)}`}>
        <Shown text={name} />
      </Link>
    </span>
  ));
}

/** Says who may still answer: members, and deputies once people were reminded. */
function Missing({ need }: { readonly need: ApprovalNeed }) {
  const { groups, remindAt, reminded } = need;
  const count = missingOf(need);
  const who = groups.length === 0 ? (count === 1 ? "operator" : "operators") : count === 1 ? "member" : "members";
  return (
    <p className="hint" data-missing={count}>
      Waits for {count} more {who}
      {groups.length === 0 ? "" : ` of ${groupsText(need)}`}
      {reminded && groups.length > 0 ? ", or for deputies: people were reminded" : ""}
      {!reminded && remindAt !== undefined ? (
        <>
          ; {groups.length === 0 ? "people are reminded" : "deputies may answer from the reminder"}{" "}
          <Time at={remindAt} />
        </>
      ) : null}
      .
    </p>
  );
}

/** Approvals with who gave them, when, and why. */
export function GivenApprovals({ approvals }: { readonly approvals: readonly EscalationApproval[] }) {
  if (approvals.length === 0) return null;
  const left = approvals.length - MAX_LISTED;
  return (
    <ul className="given-approvals">
      {approvals.slice(0, MAX_LISTED).map(({ by, byName, at, note }) => (
        <li key={by} data-approved-by={by}>
          <Actor id={by} name={byName} /> approved{" "}
          <span className="hint">
            <Time at={at} />
          </span>
          {note === undefined || note === "" ? null : (
            <>
              {" "}
              “<Shown text={note} />”
            </>
          )}
        </li>
      ))}
      {left > 0 ? <li className="hint">and {left} more</li> : null}
    </ul>
  );
}
