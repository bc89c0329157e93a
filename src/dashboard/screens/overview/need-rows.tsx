import type { ReactNode } from "react";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { Incident } from "../../../../gen/agentcontrol/v1/incident_service_pb.js";
import type { Limit, LimitGroup } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { McpServer } from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { Decision, type Proposal } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import type { Webhook } from "../../../../gen/agentcontrol/v1/webhook_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { countText } from "../../kit/count-text.ts";
import { Message } from "../../kit/message.tsx";
import { type Budget, restOfBudget, usedOfBudget } from "../../kit/money.ts";
import { changeText, proposalHref } from "../../kit/proposed.ts";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Countdown, durationText, Time } from "../../kit/time.tsx";
import { markRevocationSeen, useSeenRevocations } from "../../live/seen-revocations.ts";
import type { UnusualBlocks } from "../../live/unusual-blocks.ts";
import { type Needs, nearlyFullGroups, type UnknownActions } from "../../live/use-needs.ts";
import { leadingArgument, valueText } from "../escalations/fired-argument.ts";

/** One thing that waits for a person. */
export interface NeedRow {
  readonly kind:
    | "escalation"
    | "blocks"
    | "unknown"
    | "incident"
    | "proposal"
    | "limit"
    | "server"
    | "webhook"
    | "waiting"
    | "more";
  readonly id: string;
  /** Its state in a word or two. */
  readonly mark: ReactNode;
  /** Its name. */
  readonly thing: ReactNode;
  readonly cause: ReactNode;
  /** Next step of the person who reads it. */
  readonly step: { readonly href: string; readonly label: string };
  /** Button beside the next step. */
  readonly button?: ReactNode;
}

/** Rows of one kind before the rest is counted. */
const MAX_OF_KIND = 10;
const MAX_URL = 80;
/** Characters of an argument's value. */
const MAX_VALUE = 120;
const HOUR_MS = 3_600_000;

/** Lists what waits for a person, the most urgent first. */
export function rowsFrom({
  expiring,
  waiting,
  limits,
  servers,
  webhooks,
  blocks,
  unknown,
  incidents,
  proposals,
  readAtMs,
}: Needs): readonly NeedRow[] {
  const [away, changed] = [
    servers.filter((each) => each.away !== undefined),
    servers.filter((each) => each.away === undefined),
  ];
  return [
    ...cut(expiring, escalationRow, "/escalations", "more escalations expire soon"),
    ...(blocks === undefined ? [] : [blocksRow(blocks, readAtMs ?? Date.now())]),
    ...(unknown === undefined ? [] : [unknownRow(unknown)]),
    ...cut(incidents, incidentRow, "/agents", "more agents were revoked"),
    ...cut(proposals, proposalRow, "/proposals", "more proposals wait for you"),
    ...cut(away, serverRow, "/servers", "more MCP servers are away"),
    ...cut(limits, limitRow, "/limits", "more limits are nearly full"),
    ...cut(changed, serverRow, "/servers", "more MCP servers have changed"),
    ...cut(webhooks, webhookRow, "/webhooks", "more webhooks fail"),
    ...(waiting.length === 0 ? [] : [waitingRow(waiting, expiring.length)]),
  ];
}

/** Makes rows of the first of some things, and one row that counts the rest. */
function cut<T>(things: readonly T[], rowOf: (thing: T) => NeedRow, href: string, words: string): readonly NeedRow[] {
  const rows = things.slice(0, MAX_OF_KIND).map(rowOf);
  const rest = things.length - rows.length;
  if (rest === 0) return rows;
  const thing = `${rest.toLocaleString("en")} ${words}`;
  return [...rows, { kind: "more", id: words, mark: null, thing, cause: null, step: { href, label: "Show all" } }];
}

function escalationRow(escalation: Escalation): NeedRow {
  const { escalationId, agentName, actionType, tool, expiresAt } = escalation;
  return {
    kind: "escalation",
    id: escalationId,
    mark: expiresAt === undefined ? null : <Countdown to={expiresAt} />,
    thing: (
      <>
        <Shown text={agentName} /> wants <Shown text={actionType} />
        {tool === undefined || tool === actionType ? null : (
          <>
            {" "}
            with <Shown text={tool} />
          </>
        )}
      </>
    ),
    cause: <EscalationCause escalation={escalation} />,
    step: { href: `/escalations/${escalationId}`, label: "Answer" },
  };
}

/** Says by what to decide: the argument that fired with its value, and whose rule asks. */
function EscalationCause({ escalation }: { readonly escalation: Escalation }) {
  const leading = leadingArgument(escalation);
  const [reason] = escalation.reasons;
  if (leading === undefined || reason?.mandateName === undefined) {
    return reason === undefined ? "It expires soon." : <Message text={reason.message} />;
  }
  return (
    <>
      <Shown text={leading.path} /> <Shown text={valueText(leading).slice(0, MAX_VALUE)} />;{" "}
      <Shown text={reason.mandateName} /> asks a person.
    </>
  );
}

function waitingRow(waiting: readonly Escalation[], expiring: number): NeedRow {
  const [first] = waiting;
  return {
    kind: "waiting",
    id: "escalations",
    mark: <Badge tone="wait">waiting</Badge>,
    thing: expiring === 0 ? countText(waiting.length, "escalation") : countText(waiting.length, "more escalation"),
    cause:
      first?.expiresAt === undefined ? null : (
        <>
          The first expires <Time at={first.expiresAt} />.
        </>
      ),
    step: { href: "/escalations", label: "Open the queue" },
  };
}

function blocksRow({ count, usual }: UnusualBlocks, readAtMs: number): NeedRow {
  const since = new Date(readAtMs - HOUR_MS).toISOString();
  return {
    kind: "blocks",
    id: "blocks",
    mark: <Badge tone="bad">unusual</Badge>,
    thing: `${countText(count, "action")} blocked in the last hour`,
    cause: `The mean of the 7 days before is ${usual < 0.1 ? "under 0.1" : usual.toLocaleString("en", { maximumFractionDigits: 1 })} an hour.`,
    step: { href: `/decisions?${new URLSearchParams({ decision: "block", since })}`, label: "Look at them" },
  };
}

function unknownRow({ count, isMore, oldest }: UnknownActions): NeedRow {
  const { agentName, agentId, actionType, outcome } = oldest;
  const more = isMore ? " or more" : "";
  return {
    kind: "unknown",
    id: "unknown",
    mark: <Badge tone="wait">unknown</Badge>,
    thing: `${count.toLocaleString("en")}${more} allowed ${count === 1 ? "action" : "actions"} may have been done`,
    cause: (
      <>
        Nobody reported in time how {count === 1 ? "it" : "they"} ended; {count === 1 ? "" : "the longest unknown is "}
        <Shown text={actionType} /> of <Shown text={agentName || agentId} />, <Time at={outcome?.reportedAt} />.
      </>
    ),
    step: { href: "/outcomes", label: "Settle" },
  };
}

function incidentRow({
  agentId,
  revocationId,
  summary,
  reason,
  createdBy,
  createdByName,
  createdAt,
}: Incident): NeedRow {
  return {
    kind: "incident",
    id: revocationId,
    mark: <Badge tone="bad">revoked</Badge>,
    thing: <Shown text={summary} />,
    cause: (
      <>
        <Time at={createdAt} /> by <Actor id={createdBy} name={createdByName} />:{" "}
        {reason === "" ? "no reason was given" : <Shown text={reason} />}
      </>
    ),
    step: { href: `/agents/${agentId}`, label: "Open the certificate" },
    button: <SeenButton revocationId={revocationId} />,
  };
}

function proposalRow(proposal: Proposal): NeedRow {
  const { proposalId, kind, subject, createdBy, createdByName, createdAt, needed, acceptances } = proposal;
  return {
    kind: "proposal",
    id: proposalId,
    mark: <Badge tone="wait">proposed</Badge>,
    thing: (
      <>
        {changeText(kind)} <Shown text={subject} />
      </>
    ),
    cause: (
      <>
        By <Actor id={createdBy} name={createdByName} />, <Time at={createdAt} />; accepted by {acceptances.length} of{" "}
        {needed}.
      </>
    ),
    step: { href: proposalHref(proposal), label: "Look at the change" },
  };
}

/** Takes an incident off the list of this browser. It stays in its place while the list is held. */
function SeenButton({ revocationId }: { readonly revocationId: string }) {
  const isSeen = useSeenRevocations().has(revocationId);
  return (
    <Button action="seen" tone="quiet" aria-disabled={isSeen} onClick={() => markRevocationSeen(revocationId)}>
      {isSeen ? "✓ Seen" : "Seen"}
    </Button>
  );
}

const NEXT: Readonly<Record<number, string>> = {
  [Decision.ALLOW]: "allowed",
  [Decision.BLOCK]: "blocked",
  [Decision.ESCALATE]: "escalated",
};

function limitRow(limit: Limit): NeedRow {
  const { mandateId, mandateName, rule, windowSeconds, decision } = limit;
  const [fullest, ...others] = nearlyFullGroups(limit);
  const { agentId, name = "" } = fullest ?? {};
  const { isFull, mark, what, next } =
    fullest?.budget === undefined ? countedText(limit, fullest) : moneyLeftText(limit, fullest.budget);
  return {
    kind: "limit",
    id: `${mandateId} ${rule}`,
    mark: <Badge tone={isFull ? "bad" : "wait"}>{mark}</Badge>,
    thing: (
      <>
        <Shown text={name} /> {isFull ? "has used up" : "has nearly used up"} {what}
        {others.length === 0 ? "" : `, and ${countText(others.length, "other")} too`}
      </>
    ),
    cause: (
      <>
        <Shown text={mandateName} />, within {durationText(Number(windowSeconds) * 1_000)}: {next}{" "}
        {NEXT[decision] ?? "decided"}.
      </>
    ),
    step: {
      href: agentId === undefined ? "/limits" : `/limits?agent=${encodeURIComponent(agentId)}`,
      label: "Look at the limit",
    },
  };
}

/** How far a limit is used. */
interface LimitUse {
  readonly isFull: boolean;
  /** Used part of the whole, in few characters. */
  readonly mark: string;
  /** Actions or amounts that are limited. */
  readonly what: string;
  /** Words for the rest of the limit, up to the word for the decision that follows. */
  readonly next: string;
}

function countedText({ actionTypes, maxCount = 0n }: Limit, group: LimitGroup | undefined): LimitUse {
  const { count = 0n, remaining = 0n } = group ?? {};
  return {
    isFull: remaining === 0n,
    mark: `${count.toLocaleString("en")} of ${maxCount.toLocaleString("en")}`,
    what: shownText(actionTypes.join(", ")),
    next:
      remaining === 0n ? "the next one is" : `${countText(remaining, "more passes", "more pass")}, then the next is`,
  };
}

function moneyLeftText({ sums }: Limit, budget: Budget): LimitUse {
  const { total, limit, remaining } = budget;
  const rest = shownText(`${restOfBudget(budget)}, ${usedOfBudget(budget)}`);
  return {
    isFull: remaining === 0,
    mark: remaining > 0 ? `${Math.floor((100 * total) / limit)} %` : total > limit ? "exceeded" : "used up",
    what: shownText(`its budget for ${sums.map(({ tool, field }) => `${tool} ${field}`).join(", ")}`),
    next: remaining === 0 ? `${rest}; any further amount is` : `${rest}; any amount above is`,
  };
}

function serverRow({ name, away, newDefinitions, changedDefinitions }: McpServer): NeedRow {
  const waiting = [
    ...(changedDefinitions === 0 ? [] : [countText(changedDefinitions, "changed definition")]),
    ...(newDefinitions === 0 ? [] : [countText(newDefinitions, "new definition")]),
  ].join(" and ");
  const isOne = newDefinitions + changedDefinitions === 1;
  return {
    kind: "server",
    id: name,
    mark:
      away === undefined ? (
        <Badge tone="wait">{changedDefinitions > 0 ? "changed" : "new"}</Badge>
      ) : (
        <Badge tone="bad">away</Badge>
      ),
    thing: `MCP server ${name}`,
    cause: (
      <>
        {away === undefined ? null : (
          <>
            Went away <Time at={away.since} />: <Message text={away.reason} />.{" "}
          </>
        )}
        {waiting === "" ? null : `${waiting} ${isOne ? "waits" : "wait"} to be accepted; calls are refused until then.`}
      </>
    ),
    step: { href: `/servers/${name}`, label: waiting === "" ? "Look at the server" : "Look at the changes" },
  };
}

function webhookRow({ webhookId, url, failures, nextAttemptAt, backlog, backlogIsPartial }: Webhook): NeedRow {
  return {
    kind: "webhook",
    id: webhookId,
    mark: <Badge tone="bad">failing</Badge>,
    thing: shownText(url, MAX_URL),
    cause: (
      <>
        {countText(backlog, "event")} {backlogIsPartial ? "or more " : ""}
        {backlog === 1 ? "waits" : "wait"}; {countText(failures, "attempt")} failed
        {nextAttemptAt === undefined ? (
          ""
        ) : (
          <>
            ; the next is due <Time at={nextAttemptAt} />
          </>
        )}
        .
      </>
    ),
    step: { href: `/webhooks/${webhookId}`, label: "Look at its deliveries" },
  };
}
