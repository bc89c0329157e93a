import { invalidField } from "../errors.ts";
import { coversAgent } from "../policy/coverage.ts";
import type { CompiledMandate, CompiledRule, OrderedSpec, Principal, ScopeWord } from "../policy/types.ts";
import { getAgent } from "../registry/agents.ts";
import { jsonBytes, MAX_PAGE_BYTES, type Page, type PageRequest } from "../registry/page.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { ReadOnlyLogs } from "./dry-runs.ts";

/** Maximum number of agents that are listed of one rule, those with the highest counts. */
const MAX_AGENTS = 20;
/** Maximum number of departments that are listed of one rule, those with the highest counts. */
const MAX_DEPARTMENTS = 100;
/** Milliseconds for which limits are read at a time: decisions wait meanwhile. At least one rule is read. */
const TURN_MS = 10;

/** Group of agents whose actions a limit counts together, with its count. */
export interface LimitGroup {
  /** Agent id, department ids joined by `+`, or workspace id. */
  readonly group: string;
  readonly name: string;
  /** Actions in the window; of an ordered sequence the steps that happened in order. */
  readonly count: number;
  /** Further actions, or steps before the last, until the next one fires the rule. */
  readonly remaining: number;
  readonly members: number;
}

/** A counting rule with its counts. */
export interface ListedLimit {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly groups: readonly LimitGroup[];
  /** Groups that have counts and are left out. */
  readonly moreGroups: number;
}

/** Place of a rule in the list: the newest mandate first, of one pack's by id; then rules as they are written. */
interface LimitPlace {
  /** Index of the entry that created the mandate. */
  readonly createdSeq: number;
  readonly mandateId: string;
  readonly index: number;
}

const POSITION = /^(\d{1,16}) (\S{1,64}) (\d{1,6})$/;

function placeFrom(position: string): LimitPlace {
  const [, createdSeq, mandateId, index] = POSITION.exec(position) ?? [];
  if (mandateId === undefined) throw invalidField("page_token", "is not a position in this list");
  return { createdSeq: Number(createdSeq), mandateId, index: Number(index) };
}

const positionOf = ({ createdSeq, mandateId, index }: LimitPlace): string => `${createdSeq} ${mandateId} ${index}`;

function comparePlaces(a: LimitPlace, b: LimitPlace): number {
  if (a.createdSeq !== b.createdSeq) return b.createdSeq - a.createdSeq;
  if (a.mandateId !== b.mandateId) return a.mandateId < b.mandateId ? -1 : 1;
  return a.index - b.index;
}

/** A rule at its place in the list. */
interface PlacedRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly place: LimitPlace;
}

/** Counts of one rule, as of a time. */
interface Counter {
  readonly scope: ScopeWord;
  readonly departmentId: string | undefined;
  /** Count from which the next action fires the rule. */
  readonly limit: number;
  ofWorkspace(): number;
  ofAgent(agentId: string): number;
  ofDepartments(groups: readonly (readonly string[])[]): readonly number[];
  forEachAgent(visit: (agentId: string, count: number) => void): void;
}

function counterOf(state: WorkspaceState, { velocity, ordered }: CompiledRule, nowMs: number): Counter | undefined {
  if (ordered !== undefined) return orderedCounter(state, ordered, nowMs);
  if (velocity === undefined) return undefined;
  const { counter, maxCount } = velocity;
  const counts = state.windows.countsOf(counter, nowMs);
  return {
    scope: counter.scope,
    departmentId: counter.departmentId,
    limit: maxCount,
    ofWorkspace: () => counts.total,
    ofAgent: (agentId) => counts.countFor(agentId),
    ofDepartments: (groups) => groups.map((departmentIds) => counts.peekDepartments(departmentIds)),
    forEachAgent: (visit) => counts.forEach(visit),
  };
}

function orderedCounter(state: WorkspaceState, ordered: OrderedSpec, nowMs: number): Counter {
  const progress = state.sequences.progressOf(ordered, nowMs);
  return {
    scope: ordered.scope,
    departmentId: ordered.departmentId,
    limit: ordered.steps.length - 1,
    ofWorkspace: () => progress.workspace,
    ofAgent: (agentId) => progress.ofAgent(agentId),
    ofDepartments: (groups) => progress.ofDepartments(groups),
    forEachAgent: (visit) => progress.forEach(visit),
  };
}

/** A group that was counted. */
interface Counted {
  readonly ids: readonly string[];
  readonly count: number;
}

/** Keeps the groups with the highest counts; of equal ones those with the lowest ids. */
class Highest {
  readonly #size: number;
  readonly first: Counted[] = [];
  seen = 0;

  constructor(size: number) {
    this.#size = size;
  }

  add(ids: readonly string[], count: number): void {
    this.seen += 1;
    const last = this.first[this.#size - 1];
    if (last !== undefined && !isHigher({ ids, count }, last)) return;
    const at = this.first.findIndex((each) => isHigher({ ids, count }, each));
    this.first.splice(at < 0 ? this.first.length : at, 0, { ids, count });
    if (this.first.length > this.#size) this.first.pop();
  }
}

const isHigher = (a: Counted, b: Counted): boolean =>
  a.count === b.count ? (a.ids[0] ?? "") < (b.ids[0] ?? "") : a.count > b.count;

/** Reads the limits of one workspace as of a time, for all agents or for one. Leaves the state as it is. */
class LimitReader {
  readonly #state: WorkspaceState;
  readonly #nowMs: number;
  readonly #subject: Principal | undefined;

  constructor(state: WorkspaceState, nowMs: number, subject: Principal | undefined) {
    this.#state = state;
    this.#nowMs = nowMs;
    this.#subject = subject;
  }

  /** Lists the rules that count and cover the subject, from after a place on. */
  rulesAfter(after: LimitPlace | undefined): PlacedRule[] {
    const rules: PlacedRule[] = [];
    for (const { compiled: mandate, createdSeq } of this.#state.policies.mandates.values()) {
      if (this.#subject !== undefined && !coversAgent(mandate, this.#subject)) continue;
      for (const rule of mandate.rules) {
        const place = { createdSeq, mandateId: mandate.id, index: rule.index };
        if (this.#isLimit(rule) && (after === undefined || comparePlaces(after, place) < 0)) {
          rules.push({ mandate, rule, place });
        }
      }
    }
    return rules.sort((a, b) => comparePlaces(a.place, b.place));
  }

  /** Reads the counts of a rule. */
  limitOf(mandate: CompiledMandate, rule: CompiledRule): ListedLimit {
    const counter = counterOf(this.#state, rule, this.#nowMs);
    if (counter === undefined) return { mandate, rule, groups: [], moreGroups: 0 };
    const { groups, more } = this.#groupsOf(mandate, counter);
    return { mandate, rule, groups: groups.map((group) => this.#describe(group, counter)), moreGroups: more };
  }

  #isLimit({ velocity, ordered }: CompiledRule): boolean {
    const departmentId = velocity?.counter.departmentId ?? ordered?.departmentId;
    if (departmentId !== undefined && this.#subject?.departmentIds.includes(departmentId) === false) return false;
    return velocity !== undefined || ordered !== undefined;
  }

  #groupsOf(
    mandate: CompiledMandate,
    counter: Counter,
  ): { readonly groups: readonly Counted[]; readonly more: number } {
    const { agents, workspaceId } = this.#state;
    if (counter.scope === "workspace") {
      return { groups: [{ ids: [workspaceId], count: counter.ofWorkspace() }], more: 0 };
    }
    // A mandate for one agent counts for that agent's groups alone.
    const subject = this.#subject ?? (mandate.agentId === undefined ? undefined : agents.get(mandate.agentId));
    if (subject !== undefined) return { groups: [groupOf(subject, counter)], more: 0 };
    const highest =
      counter.scope === "agent" ? this.#agentsOf(mandate, counter) : this.#departmentsOf(mandate, counter);
    return { groups: highest.first, more: highest.seen - highest.first.length };
  }

  #agentsOf({ departmentId }: CompiledMandate, counter: Counter): Highest {
    const members = departmentId === undefined ? undefined : this.#state.departments.membersOfAny([departmentId]);
    const highest = new Highest(MAX_AGENTS);
    counter.forEachAgent((agentId, count) => {
      if (members?.has(agentId) ?? true) highest.add([agentId], count);
    });
    return highest;
  }

  #departmentsOf(mandate: CompiledMandate, counter: Counter): Highest {
    const named = counter.departmentId ?? mandate.departmentId;
    const groups = named === undefined ? [...this.#state.departments.all.keys()].map((id) => [id]) : [[named]];
    const highest = new Highest(MAX_DEPARTMENTS);
    for (const [index, count] of counter.ofDepartments(groups).entries()) highest.add(groups[index] ?? [], count);
    return highest;
  }

  #describe({ ids, count }: Counted, { scope, limit }: Counter): LimitGroup {
    const { agents, departments, settings } = this.#state;
    const counted = { group: ids.join("+"), count, remaining: Math.max(0, limit - count) };
    if (scope === "workspace") return { ...counted, name: settings.name, members: departments.agentCount() };
    const agent = agents.get(ids[0] ?? "");
    if (agent !== undefined) return { ...counted, name: agent.registration.name, members: 1 };
    const name = ids.map((id) => departments.all.get(id)?.department.name ?? id).join(" + ");
    return { ...counted, name, members: departments.membersOfAny(ids).size };
  }
}

/** Returns the group of an agent, as an action of it is counted. */
function groupOf({ agentId, departmentIds }: Principal, counter: Counter): Counted {
  const own = counter.scope === "department" ? departmentIds : [];
  const ids = counter.departmentId === undefined ? own : [counter.departmentId];
  if (ids.length === 0) return { ids: [agentId], count: counter.ofAgent(agentId) };
  return { ids, count: counter.ofDepartments([ids])[0] ?? 0 };
}

/** Query of a list of limits. */
export interface LimitQuery {
  readonly workspaceId: string;
  /** Only limits that cover this agent, with its own groups; undefined for all. */
  readonly agentId: string | undefined;
  /** Aborts when the caller leaves. */
  readonly signal: AbortSignal;
}

/**
 * Lists the velocity rules and ordered sequences in force with their counts, newest mandate first, a few at a time so that
 * decisions come in between; rules that no longer compile are left out. Changes nothing. Rejects with AGENT_NOT_FOUND,
 * INVALID_FIELD for the position of another list, OVERLOADED and STORE_UNAVAILABLE.
 */
export async function listLimits(
  { logs }: { readonly logs: Pick<ReadOnlyLogs, "of"> },
  { workspaceId, agentId, signal }: LimitQuery,
  { size, after }: PageRequest<string>,
): Promise<Page<ListedLimit, string>> {
  const log = await logs.of(workspaceId);
  const items: ListedLimit[] = [];
  let place = after === undefined ? undefined : placeFrom(after);
  for (let bytes = 0; ; ) {
    signal.throwIfAborted();
    const isEnd = await log.dryRun([], (state, nowMs) => {
      const startedAt = performance.now();
      const reader = new LimitReader(state, nowMs, agentId === undefined ? undefined : getAgent(state, agentId));
      for (const { mandate, rule, place: found } of reader.rulesAfter(place)) {
        // The surplus rule shows that the list goes on.
        if (items.length >= size || bytes > MAX_PAGE_BYTES) return false;
        const limit = reader.limitOf(mandate, rule);
        items.push(limit);
        bytes += bytesOf(limit);
        place = found;
        if (performance.now() - startedAt > TURN_MS) return undefined;
      }
      return true;
    });
    if (isEnd !== undefined) return { items, next: isEnd || place === undefined ? undefined : positionOf(place) };
  }
}

const bytesOf = ({ mandate, rule: { source }, groups }: ListedLimit): number =>
  jsonBytes([mandate.name, source.tool, source.conditions?.matchActionTypes, source.conditions?.steps, groups]);
