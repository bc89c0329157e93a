import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { callUnaryMethod, useTransport, useQuery as useUnaryQuery } from "@connectrpc/connect-query";
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { EnforcementService, type ListDecisionsResponse } from "../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Escalation } from "../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { type Incident, IncidentService } from "../../../gen/agentcontrol/v1/incident_service_pb.js";
import {
  type Limit,
  type LimitGroup,
  LimitOrder,
  MandateMode,
  MandateService,
  SequenceMode,
} from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type McpServer, McpServerService } from "../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { ProposalService } from "../../../gen/agentcontrol/v1/proposal_service_pb.js";
import { type DecisionRecord, OutcomeStatus, type Proposal } from "../../../gen/agentcontrol/v1/resources_pb.js";
import { type Webhook, WebhookService } from "../../../gen/agentcontrol/v1/webhook_service_pb.js";
import { useNow } from "../kit/time.tsx";
import { useSeenRevocations } from "./seen-revocations.ts";
import { findUnusualBlocks, type UnusualBlocks } from "./unusual-blocks.ts";
import { useEscalations, usePendingCount } from "./use-escalations.tsx";

/** Milliseconds between two reads while the page is visible. */
const REFRESH_MS = 30_000;
const LOOK_EVERY_MS = 5_000;
const SOON_MS = 15 * 60_000;
const HOUR_MS = 3_600_000;
const WEEK_MS = 168 * HOUR_MS;
/** Limits that are read, the fullest. */
const LIMITS = 100;
/** Actions with an unknown outcome that are read, the newest. */
const UNKNOWN = 100;
/** Webhooks, servers and incidents that are read: the most that a page has. */
const PAGE_SIZE = 500;
/** Share of a limit from which it is nearly full. */
const NEARLY_FULL = 0.8;

/** A list that could not be read. */
export interface NeedFault {
  /** The list, as in "could not be read: …". */
  readonly what: string;
  readonly error: unknown;
  readonly retry: () => void;
}

/** Allowed actions of which nobody reported in time how they ended. */
export interface UnknownActions {
  /** At most 100. */
  readonly count: number;
  /** True if there may be more than `count`. */
  readonly isMore: boolean;
  /** The one of them whose outcome is unknown for the longest time. */
  readonly oldest: DecisionRecord;
}

/** Things of the workspace that wait for a person, besides escalations. */
interface ReadNeeds {
  /** Enforced velocity limits and budgets of which the fullest group has used at least 80 %. */
  readonly limits: readonly Limit[];
  /** MCP servers that are away, or whose new or changed definitions wait. */
  readonly servers: readonly McpServer[];
  /** Active webhooks whose last attempt failed. */
  readonly webhooks: readonly Webhook[];
  readonly blocks: UnusualBlocks | undefined;
  /** Undefined if there is none. */
  readonly unknown: UnknownActions | undefined;
  /** Revocations of the last 7 days that were not seen in this browser, the newest first. */
  readonly incidents: readonly Incident[];
  /** Changes that the signed-in person may accept, and has not, the newest first. */
  readonly proposals: readonly Proposal[];
  readonly faults: readonly NeedFault[];
  /** True once every list was read or failed. */
  readonly isRead: boolean;
  /** True once every list was read or failed a first time: what is shown then stays in its place, but for what is new. */
  readonly isTried: boolean;
  /** Time since which everything shown is known, epoch milliseconds; undefined while something was never read. */
  readonly readAtMs: number | undefined;
}

/** Things of the workspace that wait for a person. */
export interface Needs extends ReadNeeds {
  /** Pending escalations that expire within 15 minutes, the most urgent first. */
  readonly expiring: readonly Escalation[];
  /** All other pending escalations, the most urgent first. */
  readonly waiting: readonly Escalation[];
  /** True while escalations arrive by themselves. */
  readonly isLive: boolean;
}

const EVERY = { refetchInterval: REFRESH_MS } as const;
/** At most 100 proposals wait in a workspace. */
const WAITING_PROPOSALS = { mine: true, pageSize: 100 };
const expiryOf = ({ expiresAt }: Escalation): number =>
  expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt);

/** Returns the share of a velocity limit or a budget that a group has used, 0 to 1; 0 for a limit that admits nothing. */
function shareOf({ maxCount = 0n }: Limit, { count, budget }: LimitGroup): number {
  if (budget !== undefined) return budget.limit === 0 ? 0 : Math.min(1, budget.total / budget.limit);
  return maxCount === 0n ? 0 : Math.min(1, Number(count) / Number(maxCount));
}

/** Returns the groups of a limit that have used at least 80 % of it. */
export function nearlyFullGroups(limit: Limit): readonly LimitGroup[] {
  const { mode, sequenceMode, groups } = limit;
  if (mode === MandateMode.OBSERVE || sequenceMode === SequenceMode.ORDERED) return [];
  return groups.filter((group) => shareOf(limit, group) >= NEARLY_FULL);
}

const unknownMs = ({ outcome }: DecisionRecord): number =>
  outcome?.reportedAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(outcome.reportedAt);

function unknownActions(page: ListDecisionsResponse | undefined): UnknownActions | undefined {
  const { decisions = [], nextPageToken } = page ?? {};
  const [first, ...others] = decisions;
  if (first === undefined) return undefined;
  const oldest = others.reduce((before, each) => (unknownMs(each) < unknownMs(before) ? each : before), first);
  return { count: decisions.length, isMore: nextPageToken !== undefined, oldest };
}

/** Reads blocked decisions of the last 7 days by hour, ending now. */
function useUnusualBlocks(): UseQueryResult<UnusualBlocks | null> {
  const transport = useTransport();
  return useQuery({
    // One key whatever the time is, so that all readers share one answer.
    queryKey: ["unusual-blocks"],
    queryFn: async ({ signal }) => {
      const now = Date.now();
      const request = {
        since: timestampFromMs(now - WEEK_MS),
        until: timestampFromMs(now),
        bucketSeconds: 3_600,
        countsOnly: true,
      };
      const method = EnforcementService.method.summarizeDecisions;
      const { buckets } = await callUnaryMethod(transport, method, request, { signal });
      return findUnusualBlocks(buckets.map(({ block }) => Number(block))) ?? null;
    },
    ...EVERY,
  });
}

/** Reads what waits for a person besides escalations. Readers share their reads. */
function useReadNeeds(): ReadNeeds {
  const seen = useSeenRevocations();
  const limits = useUnaryQuery(MandateService.method.listLimits, { pageSize: LIMITS, orderBy: LimitOrder.FILL }, EVERY);
  const servers = useUnaryQuery(McpServerService.method.listMcpServers, { pageSize: PAGE_SIZE }, EVERY);
  const webhooks = useUnaryQuery(WebhookService.method.listWebhooks, { pageSize: PAGE_SIZE }, EVERY);
  const incidents = useUnaryQuery(IncidentService.method.listIncidents, { pageSize: PAGE_SIZE }, EVERY);
  const proposals = useUnaryQuery(ProposalService.method.listProposals, WAITING_PROPOSALS, EVERY);
  const unknown = useUnaryQuery(
    EnforcementService.method.listDecisions,
    { outcome: OutcomeStatus.UNKNOWN, pageSize: UNKNOWN },
    EVERY,
  );
  const blocks = useUnusualBlocks();
  const sources = [
    { what: "unknown outcomes", query: unknown },
    { what: "proposals", query: proposals },
    { what: "limits", query: limits },
    { what: "MCP servers", query: servers },
    { what: "webhooks", query: webhooks },
    { what: "incidents", query: incidents },
    { what: "blocked decisions", query: blocks },
  ];
  const weekAgo = Date.now() - WEEK_MS;
  const isOpen = ({ createdAt, revocationId }: Incident): boolean =>
    createdAt !== undefined && timestampMs(createdAt) > weekAgo && !seen.has(revocationId);
  const readAt = Math.min(...sources.map(({ query }) => query.dataUpdatedAt));
  return {
    limits: (limits.data?.limits ?? []).filter((limit) => nearlyFullGroups(limit).length > 0),
    servers: (servers.data?.servers ?? []).filter(
      ({ away, newDefinitions, changedDefinitions }) => away !== undefined || newDefinitions + changedDefinitions > 0,
    ),
    webhooks: (webhooks.data?.webhooks ?? []).filter(({ isActive, failures }) => isActive && failures > 0),
    blocks: blocks.data ?? undefined,
    unknown: unknownActions(unknown.data),
    incidents: (incidents.data?.incidents ?? []).filter(isOpen),
    proposals: proposals.data?.proposals ?? [],
    faults: sources
      .filter(({ query }) => query.isError)
      .map(({ what, query }) => ({ what, error: query.error, retry: () => void query.refetch() })),
    isRead: sources.every(({ query }) => !query.isPending),
    isTried: sources.every(({ query }) => !query.isPending || query.failureCount > 0),
    readAtMs: readAt === 0 ? undefined : readAt,
  };
}

/** Returns everything that waits for a person. */
export function useNeeds(): Needs {
  const needs = useReadNeeds();
  const now = useNow(LOOK_EVERY_MS);
  const { pending, isLive, isTried } = useEscalations();
  const byExpiry = useMemo(
    () =>
      pending
        .map((escalation) => ({ escalation, expiresMs: expiryOf(escalation) }))
        .sort((a, b) => a.expiresMs - b.expiresMs),
    [pending],
  );
  const firstLater = byExpiry.findIndex(({ expiresMs }) => expiresMs - now >= SOON_MS);
  const soon = firstLater === -1 ? byExpiry.length : firstLater;
  const escalations = byExpiry.map(({ escalation }) => escalation);
  return {
    ...needs,
    isTried: needs.isTried && isTried,
    expiring: escalations.slice(0, soon),
    waiting: escalations.slice(soon),
    isLive,
  };
}

/** Number of things that wait on a screen, with the words for it. */
export interface NeedCount {
  readonly count: number;
  /** Words after the count, for screen readers. */
  readonly words: string;
}

/** Returns what waits, by the screen's name in the navigation. */
export function useNeedCounts(): ReadonlyMap<string, NeedCount> {
  const { limits, servers, webhooks, blocks, unknown, incidents, proposals } = useReadNeeds();
  const pending = usePendingCount();
  return new Map([
    ["escalations", { count: pending, words: "pending" }],
    ["decisions", { count: blocks?.count ?? 0, words: "blocked in the last hour, more than usual" }],
    ["outcomes", { count: unknown?.count ?? 0, words: unknown?.isMore === true ? "or more to settle" : "to settle" }],
    ["limits", { count: limits.length, words: "nearly full" }],
    ["proposals", { count: proposals.length, words: "to answer" }],
    ["agents", { count: incidents.length, words: "revoked and not looked at" }],
    ["servers", { count: servers.length, words: "changed or away" }],
    ["webhooks", { count: webhooks.length, words: "failing" }],
  ]);
}

/** Returns the number of things that wait for a person. Unusually many blocked decisions count as one. */
export function useNeedTotal(): number {
  const { limits, servers, webhooks, blocks, unknown, incidents, proposals } = useReadNeeds();
  const pending = usePendingCount();
  const lists = [limits, servers, webhooks, incidents, proposals];
  return lists.reduce(
    (total, { length }) => total + length,
    pending + (unknown?.count ?? 0) + (blocks === undefined ? 0 : 1),
  );
}
