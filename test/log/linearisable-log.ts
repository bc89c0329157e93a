import type { JsonObject } from "@bufbuild/protobuf";
import { type NaiveState, type Replayed, startReplay } from "./naive-log.ts";
import type { StoredLog } from "./stored-log.ts";

/** An entry of the log, parsed. */
export type LogEntry = JsonObject & { readonly type: string; readonly seq: number };

/** States at every size of a log. */
export interface Timelines {
  /** The least size from `floor` on at which a thing was like this; undefined when it never was from there on. */
  firstSize(thing: string, like: string, floor: number): number | undefined;
}

/** A log as the naive model reads it. */
export interface ReadLog {
  readonly entries: readonly LogEntry[];
  /** The entries that a mark is of; a log that is right has one for each at most. */
  readonly byMark: ReadonlyMap<string, readonly LogEntry[]>;
  /** For every decision what the model says and what was sealed. */
  readonly replayed: readonly Replayed[];
  readonly timelines: Timelines;
  /** Why the model could not go on; undefined when it read the log to its end. */
  readonly fault: string | undefined;
}

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

/** The `request_id` of a decision: the UUID that its id is the base32 form of. */
function requestIdOf(decisionId: string): string {
  const digits = [...decisionId.slice("dec_".length)].map((each) => BASE32.indexOf(each).toString(2).padStart(5, "0"));
  const bits = digits.join("").slice(0, 128);
  const hex = Array.from({ length: 32 }, (_, at) =>
    Number.parseInt(bits.slice(4 * at, 4 * at + 4), 2).toString(16),
  ).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** The mark of the entry that refuses a repeat of a request. */
export const refusalMark = (mark: string): string => `refusal of ${mark}`;

/** The mark of the decision on the action of an escalation as somebody edited it. */
export const editMark = (escalationId: unknown): string => `edit of ${escalationId}`;

/** Identifies the call of an entry; undefined for an entry without a call. */
function markOf(entry: LogEntry): unknown {
  const member = (name: string, inner: string): unknown => (entry[name] as JsonObject)[inner];
  switch (entry.type) {
    case "decision":
      if (entry.edit_of !== undefined) return editMark(entry.edit_of);
      return entry.replay_of === undefined
        ? requestIdOf(String(entry.decision_id))
        : refusalMark(requestIdOf(String(entry.replay_of)));
    case "agent_registered":
      return member("agent", "name");
    case "department_created":
      return member("department", "name");
    case "mandate_published":
      return (member("mandate", "definition") as JsonObject).name;
    case "authority_created":
      return (member("authority", "action_types") as string[]).at(-1);
    case "claim":
      return `claim ${entry.claim_id}`;
    case "outcome":
      return entry.result_digest === undefined ? undefined : `outcome ${entry.result_digest}`;
    case "agent_revoked":
      return entry.reason;
    case "escalation_resolved":
      return entry.edited_from === undefined ? entry.note : `approval by ${entry.note}`;
    default:
      return undefined;
  }
}

type Line = { readonly size: number; readonly like: string }[];

function timelinesOf(lines: ReadonlyMap<string, Line>): Timelines {
  return {
    firstSize(thing, like, floor) {
      const line = lines.get(thing) ?? [];
      const start = Math.max(
        0,
        line.findLastIndex(({ size }) => size <= floor),
      );
      const found = line.slice(start).find((item) => item.like === like);
      return found === undefined ? undefined : Math.max(floor, found.size);
    },
  };
}

/** An agent as GetAgent shows it. */
export const agentLike = (status: unknown, trust: unknown, departments: readonly unknown[]): string =>
  JSON.stringify([status, trust, [...departments].sort()]);

/** Claim and outcome of an allowed action as GetDecision shows them. */
export const outcomeLike = (claimId: unknown, status: unknown): string =>
  `${claimId ?? "unclaimed"} ${status ?? "none"}`;

/** The outcome of the action that an entry is about, if it is allowed. */
function outcomeAfter({ allowed }: NaiveState, { decision_id }: LogEntry): [string, string][] {
  const found = allowed.get(String(decision_id));
  if (found === undefined) return [];
  const status = found.status ?? (found.dueAt === undefined ? undefined : "pending");
  return [[`outcome ${decision_id}`, outcomeLike(found.claimId, status)]];
}

/** The resources that an entry may have changed, as they are after it. */
function changedBy(state: NaiveState, entry: LogEntry): [string, string][] {
  if (entry.type === "claim" || entry.type === "outcome") return outcomeAfter(state, entry);
  const { agents, departments, mandates, escalations, grants } = state;
  const isDecision = entry.type === "decision";
  const acting = (entry.action as JsonObject | undefined)?.agent_id;
  const touched = isDecision ? [String(acting)] : [...agents.keys()];
  const ofAgents = touched.map((id): [string, string] => {
    const agent = agents.get(id);
    const own = [...departments].filter(([, members]) => members.has(id)).map(([departmentId]) => departmentId);
    return [id, agentLike(agent?.status, (agent?.trustTenths ?? 0) / 10, own)];
  });
  if (isDecision && entry.escalation_id === undefined) return [...ofAgents, ...outcomeAfter(state, entry)];
  const ofEscalations = [entry.escalation_id]
    .filter((id) => typeof id === "string")
    .map((id): [string, string] => [id, escalations.get(id)?.status ?? ""]);
  if (isDecision) return [...ofAgents, ...ofEscalations];
  const members = [...departments].flatMap(([departmentId, own]) =>
    touched.map((id): [string, string] => [`${departmentId} ${id}`, String(own.has(id))]),
  );
  const statuses = touched.map((id): [string, string] => [`status ${id}`, agents.get(id)?.status ?? ""]);
  const ended = grants.map(({ id, isEnded }): [string, string] => [id, String(isEnded)]);
  const ofPack = [entry.archived ?? [], ((entry.published ?? []) as JsonObject[]).map(({ mandate_id }) => mandate_id)];
  const inForce = [entry.mandate_id, (entry.mandate as JsonObject | undefined)?.mandate_id, ...ofPack.flat()]
    .filter((id) => typeof id === "string")
    .map((id): [string, string] => [id, String(mandates.has(id))]);
  return [...ofAgents, ...ofEscalations, ...members, ...statuses, ...ended, ...inForce];
}

/** Reads a log with the naive model. */
export function readWithModel({ entries: stored }: StoredLog): ReadLog {
  const entries = stored.map(({ body }) => JSON.parse(body) as LogEntry);
  const byMark = Map.groupBy(entries, (entry) => String(markOf(entry) ?? ""));
  const lines = new Map<string, Line>();
  const replayed: Replayed[] = [];
  const read = { entries, byMark, replayed, timelines: timelinesOf(lines) };
  const replay = startReplay(stored[0]?.body ?? "{}");
  for (const entry of entries.slice(1)) {
    try {
      const compared = replay.take(stored[entry.seq]?.body ?? "");
      if (compared !== undefined) replayed.push(compared);
    } catch (error) {
      return { ...read, fault: `entry ${entry.seq}: ${(error as Error).message}` };
    }
    for (const [thing, like] of changedBy(replay.state, entry)) {
      const line = lines.get(thing);
      if (line === undefined) lines.set(thing, [{ size: entry.seq + 1, like }]);
      else if (line.at(-1)?.like !== like) line.push({ size: entry.seq + 1, like });
    }
  }
  return { ...read, fault: undefined };
}
