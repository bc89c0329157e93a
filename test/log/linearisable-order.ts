import type { JsonObject } from "@bufbuild/protobuf";
import { type Call, told } from "./linearisable-calls.ts";
import { agentLike, type LogEntry, outcomeLike, type ReadLog, refusalMark } from "./linearisable-log.ts";

/** Something that took effect at one moment between two times. */
interface Operation {
  readonly call: Call;
  readonly startedAt: number;
  readonly endedAt: number;
  /**
   * The least size of the log, from the one that it must see on, at which the operation can have taken effect; undefined
   * when there is none.
   */
  readonly sizeFrom: (floor: number) => number | undefined;
}

type SizeFrom = Operation["sizeFrom"];

/**
 * The call appended an entry: it took effect with it and no sooner than what ended before. An edit appends the approval of the
 * edited action right after it.
 */
const appended =
  ({ seq, edit }: LogEntry): SizeFrom =>
  (floor) =>
    seq >= floor ? seq + ((edit as JsonObject | undefined)?.replaced_by === undefined ? 1 : 2) : undefined;

/** The decisions of a log by agent and all together, oldest first. */
type Decisions = ReadonlyMap<string | undefined, readonly LogEntry[]>;

function decisionsIn({ entries }: ReadLog): Decisions {
  const decisions = entries.filter(({ type }) => type === "decision");
  const byAgent = Map.groupBy(decisions, ({ action }): string | undefined => (action as JsonObject).agent_id as string);
  return byAgent.set(undefined, decisions);
}

/** The call listed the latest decisions of an agent or of all: newest first, none left out, up to some size of the log. */
function listed(decisions: readonly LogEntry[], records: readonly JsonObject[], limit: number): SizeFrom {
  return (floor) => {
    const last = records[0] === undefined ? -1 : decisions.findIndex(({ seq }) => seq === Number(records[0]?.seq));
    const want = decisions
      .slice(0, last + 1)
      .slice(-limit)
      .reverse();
    const isSame =
      records.length === want.length && want.every((each, at) => each.decision_id === records[at]?.decision_id);
    const next = decisions[last + 1];
    if (!isSame || (next !== undefined && next.seq < floor)) return undefined;
    return Math.max(floor, (decisions[last]?.seq ?? -1) + 1);
  };
}

const RECENT_DECISIONS = 20;

/** Facts about the log from answered reads, and from changes without an entry of their own. */
function seenBy({ kind, request, outcome }: Call, { timelines }: ReadLog, decisions: Decisions): SizeFrom | undefined {
  if (outcome.kind !== "answered") return undefined;
  const { body } = outcome;
  const is =
    (thing: string, like: string): SizeFrom =>
    (floor) =>
      timelines.firstSize(thing, like, floor);
  const agentId = request.agent_id as string;
  const membership = `${request.department_id} ${agentId}`;
  const isInactive: SizeFrom = (floor) =>
    is(`status ${agentId}`, "deactivated")(floor) ?? is(`status ${agentId}`, "revoked")(floor);
  const kinds: Partial<Record<Call["kind"], () => SizeFrom>> = {
    join: () => is(membership, "true"),
    leave: () => (floor) => is(membership, "false")(floor) ?? floorOfNever(is(membership, "true"), floor),
    extend: () => is(String(request.escalation_id), "pending"),
    archive: () => is(String(request.mandate_id), "false"),
    end_grant: () => is(String(request.grant_id), "true"),
    deactivate: () => isInactive,
    revoke: () => is(`status ${agentId}`, "revoked"),
    get_outcome: () => {
      const { claim, outcome } = body.decision as JsonObject;
      const like = outcomeLike((claim as JsonObject | null)?.claim_id, (outcome as JsonObject | null)?.status);
      return is(`outcome ${request.decision_id}`, like);
    },
    get_status: () => is(String(request.escalation_id), String(body.status)),
    list_decisions: () =>
      listed(decisions.get(agentId) ?? [], body.decisions as JsonObject[], Number(request.page_size)),
    get_agent: () => {
      const { status, trust_level, department_ids } = body.agent as JsonObject;
      const isLike = is(agentId, agentLike(status, trust_level, department_ids as string[]));
      const recent = listed(decisions.get(agentId) ?? [], body.recent_decisions as JsonObject[], RECENT_DECISIONS);
      // The figures are read first, then the decisions: each shows all that ended before the call began.
      return (floor) => {
        const size = isLike(floor);
        return size === undefined ? undefined : recent(size);
      };
    },
  };
  return kinds[kind]?.();
}

/** An agent that never was a member is none at any size. */
const floorOfNever = (isMember: SizeFrom, floor: number): number | undefined =>
  isMember(0) === undefined ? floor : undefined;

/** The attempts of one request are one operation: between the first start and the first answer. */
function operationsOf(calls: readonly Call[], log: ReadLog): Operation[] {
  const decisions = decisionsIn(log);
  const byMark = Map.groupBy(calls, (call) => call.mark ?? call);
  return [...byMark.values()].flatMap((attempts) => {
    const call = attempts.find(({ outcome }) => outcome.kind === "answered");
    if (call === undefined) return [];
    const startedAt = Math.min(...attempts.map((each) => each.startedAt));
    const endedAt = Math.min(
      ...attempts.filter(({ outcome }) => outcome.kind === "answered").map((each) => each.endedAt),
    );
    const entry = call.mark === undefined ? undefined : log.byMark.get(call.mark)?.[0];
    const sizeFrom = entry === undefined ? seenBy(call, log, decisions) : appended(entry);
    const first = sizeFrom === undefined ? [] : [{ call, startedAt, endedAt, sizeFrom }];
    return [...first, ...attempts.flatMap((each) => repeatOf(each, log))];
  });
}

/** A repeat that was answered takes effect of its own: with its refusal, or while its agent is active. */
function repeatOf(call: Call, { byMark, timelines }: ReadLog): Operation[] {
  const { kind, mark, outcome, request, startedAt, endedAt } = call;
  if (kind !== "intercept" || mark === undefined || outcome.kind !== "answered") return [];
  const [refusal] = byMark.get(refusalMark(mark)) ?? [];
  const isRefused = refusal !== undefined && refusal.decision_id === outcome.body.decision_id;
  if (isRefused && outcome.body.replayed !== true) {
    return [{ call, startedAt, endedAt, sizeFrom: appended(refusal as LogEntry) }];
  }
  if (isRefused || outcome.body.replayed !== true) return [];
  const sizeFrom: SizeFrom = (floor) => timelines.firstSize(`status ${String(request.agent_id)}`, "active", floor);
  return [{ call, startedAt, endedAt, sizeFrom }];
}

/**
 * Checks that the log is the order in which everything took effect: what ended before something else began comes before
 * it, reads included. One walk over all beginnings and ends: whatever ends raises the size of the log that everything
 * that begins later has to see, by as little as explains what it showed (Herlihy and Wing 1990, with the log as witness).
 */
export function faultsInOrder(calls: readonly Call[], log: ReadLog): { faults: string[]; operations: number } {
  const operations = operationsOf(calls, log);
  const moments = operations.flatMap((operation) => [
    { at: operation.startedAt, isEnd: false, operation },
    { at: operation.endedAt, isEnd: true, operation },
  ]);
  // At the same moment beginnings come first: only what ended before is to be seen.
  moments.sort((one, other) => one.at - other.at || Number(one.isEnd) - Number(other.isEnd));
  const sizes = new Map<Operation, number>();
  const faults: string[] = [];
  let floor = 0;
  for (const { isEnd, operation } of moments) {
    if (isEnd) {
      floor = Math.max(floor, sizes.get(operation) ?? 0);
      continue;
    }
    const size = operation.sizeFrom(floor);
    if (size === undefined) faults.push(`nothing from entry ${floor} on explains it: ${told(operation.call)}`);
    else sizes.set(operation, size);
  }
  return { faults, operations: operations.length };
}
