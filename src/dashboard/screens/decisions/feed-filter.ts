import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Decision, type DecisionRecord, OutcomeStatus } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { OUTCOME_STATUSES } from "../../kit/outcome-statuses.ts";

/** Filters of the feed, as the address of the screen holds them. An empty filter admits everything. */
export interface FeedFilter {
  readonly agent: string;
  /** `allow`, `block` or `escalate`. */
  readonly decision: string;
  /** `pending`, `succeeded`, `failed`, `cancelled` or `unknown`. */
  readonly outcome: string;
  /** A complete action type, or a prefix and `*`. */
  readonly action_type: string;
  readonly tool: string;
  readonly session: string;
  /** RFC 3339. */
  readonly since: string;
  /** RFC 3339. */
  readonly until: string;
}

/** Names of the filters. */
export const FILTERS = ["agent", "decision", "outcome", "action_type", "tool", "session", "since", "until"] as const;

/** Decisions by their words in the filter. */
export const DECISION_WORDS: ReadonlyMap<string, Decision> = new Map([
  ["allow", Decision.ALLOW],
  ["block", Decision.BLOCK],
  ["escalate", Decision.ESCALATE],
]);

/** Reads the filters from an address. */
export function filterFrom(parameters: URLSearchParams): FeedFilter {
  const text = (name: (typeof FILTERS)[number]): string => parameters.get(name)?.trim() ?? "";
  return {
    agent: text("agent"),
    decision: text("decision"),
    outcome: text("outcome"),
    action_type: text("action_type"),
    tool: text("tool"),
    session: text("session"),
    since: text("since"),
    until: text("until"),
  };
}

/** Writes the address of the screen under some filters. */
export function addressOf(filter: FeedFilter): string {
  const chosen = FILTERS.filter((name) => filter[name] !== "").map((name) => [name, filter[name]]);
  return chosen.length === 0 ? "/decisions" : `/decisions?${new URLSearchParams(chosen)}`;
}

const msOf = (time: string): number | undefined => {
  const ms = Date.parse(time);
  return Number.isNaN(ms) ? undefined : ms;
};

/** Tests whether a filter by type is a prefix. */
const isPrefix = (type: string): boolean => type.endsWith("*");

/** Makes the request that lists the decisions of a filter. */
export function listRequestOf(filter: FeedFilter) {
  const [since, until] = [msOf(filter.since), msOf(filter.until)];
  const type = filter.action_type;
  return {
    agentId: filter.agent,
    decision: DECISION_WORDS.get(filter.decision) ?? Decision.UNSPECIFIED,
    outcome: OUTCOME_STATUSES.get(filter.outcome) ?? OutcomeStatus.UNSPECIFIED,
    tool: filter.tool,
    sessionId: filter.session,
    ...(isPrefix(type) ? { actionTypePrefix: type.slice(0, -1) } : { actionType: type }),
    ...(since === undefined ? {} : { since: timestampFromMs(since) }),
    ...(until === undefined ? {} : { until: timestampFromMs(until) }),
  };
}

/** Returns the reason why a feed is not live; undefined for a live feed. */
export function whyNotLive({ until, session, outcome }: FeedFilter, nowMs: number): string | undefined {
  if (OUTCOME_STATUSES.has(outcome)) return "Decisions of one outcome are listed, not watched.";
  if (session !== "") return "Decisions of one session are listed, not watched.";
  const end = msOf(until);
  return end !== undefined && end <= nowMs ? "The filter ends in the past." : undefined;
}

const folded = (name: string): string => name.normalize("NFKC").trim().toLowerCase();

/** Tests a live decision against the filters that the service does not apply to a watch. */
export function admits({ action_type: type, tool, since, until }: FeedFilter, record: DecisionRecord): boolean {
  const own = folded(record.actionType);
  const wanted = folded(isPrefix(type) ? type.slice(0, -1) : type);
  if (wanted !== "" && (isPrefix(type) ? !own.startsWith(wanted) : own !== wanted)) return false;
  if (tool !== "" && folded(record.tool ?? "") !== folded(tool)) return false;
  const at = record.decidedAt === undefined ? 0 : timestampMs(record.decidedAt);
  const [from, end] = [msOf(since), msOf(until)];
  return (from === undefined || at >= from) && (end === undefined || at < end);
}
