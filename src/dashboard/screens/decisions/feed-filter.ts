import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Decision, type DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";

/** What narrows the feed, as the address of the screen holds it. Empty texts narrow nothing. */
export interface FeedFilter {
  readonly agent: string;
  /** `allow`, `block` or `escalate`. */
  readonly decision: string;
  /** A whole action type, or its beginning and `*`. */
  readonly action_type: string;
  readonly tool: string;
  readonly session: string;
  /** RFC 3339. */
  readonly since: string;
  /** RFC 3339. */
  readonly until: string;
}

/** The names of the filters. */
export const FILTERS = ["agent", "decision", "action_type", "tool", "session", "since", "until"] as const;

/** The decisions that can be filtered by. */
export const DECISION_WORDS: ReadonlyMap<string, Decision> = new Map([
  ["allow", Decision.ALLOW],
  ["block", Decision.BLOCK],
  ["escalate", Decision.ESCALATE],
]);

/** Reads the filters of an address. */
export function filterFrom(parameters: URLSearchParams): FeedFilter {
  const text = (name: (typeof FILTERS)[number]): string => parameters.get(name)?.trim() ?? "";
  return {
    agent: text("agent"),
    decision: text("decision"),
    action_type: text("action_type"),
    tool: text("tool"),
    session: text("session"),
    since: text("since"),
    until: text("until"),
  };
}

const msOf = (time: string): number | undefined => {
  const ms = Date.parse(time);
  return Number.isNaN(ms) ? undefined : ms;
};

/** True for a type that stands for all types with this beginning. */
const isPrefix = (type: string): boolean => type.endsWith("*");

/** Makes the request that lists the decisions that a filter lets through. */
export function listRequestOf(filter: FeedFilter) {
  const [since, until] = [msOf(filter.since), msOf(filter.until)];
  const type = filter.action_type;
  return {
    agentId: filter.agent,
    decision: DECISION_WORDS.get(filter.decision) ?? Decision.UNSPECIFIED,
    tool: filter.tool,
    sessionId: filter.session,
    ...(isPrefix(type) ? { actionTypePrefix: type.slice(0, -1) } : { actionType: type }),
    ...(since === undefined ? {} : { since: timestampFromMs(since) }),
    ...(until === undefined ? {} : { until: timestampFromMs(until) }),
  };
}

/** Returns why a feed has no live decisions; undefined for one that has. */
export function whyNotLive({ until, session }: FeedFilter, nowMs: number): string | undefined {
  if (session !== "") return "Decisions of one session are listed, not watched.";
  const end = msOf(until);
  return end !== undefined && end <= nowMs ? "The filter ends in the past." : undefined;
}

const folded = (name: string): string => name.normalize("NFKC").trim().toLowerCase();

/** Tests a live decision against what the service does not filter live ones by. */
export function admits({ action_type: type, tool, since, until }: FeedFilter, record: DecisionRecord): boolean {
  const own = folded(record.actionType);
  const wanted = folded(isPrefix(type) ? type.slice(0, -1) : type);
  if (wanted !== "" && (isPrefix(type) ? !own.startsWith(wanted) : own !== wanted)) return false;
  if (tool !== "" && folded(record.tool ?? "") !== folded(tool)) return false;
  const at = record.decidedAt === undefined ? 0 : timestampMs(record.decidedAt);
  const [from, end] = [msOf(since), msOf(until)];
  return (from === undefined || at >= from) && (end === undefined || at < end);
}
