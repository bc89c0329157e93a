import { invalidField } from "../errors.ts";
import { type BudgetState, type BudgetWindow, budgetStateFrom, type CompiledBudget } from "../policy/budget.ts";
import { coversAgent, groupOfRule } from "../policy/coverage.ts";
import { amountFrom } from "../policy/decimal.ts";
import type { CompiledMandate, CompiledRule, OrderedSpec, Principal, ScopeWord } from "../policy/types.ts";
import { getAgent } from "../registry/agents.ts";
import { jsonBytes, MAX_PAGE_BYTES, type Page, type PageRequest, pageFrom } from "../registry/page.ts";
import type { CountedGroup } from "../state/counters/windows.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { ReadOnlyLog, ReadOnlyLogs } from "./dry-runs.ts";

/** Maximum number of agents that are listed of one rule, those with the highest counts. */
const MAX_AGENTS = 20;
/** Maximum number of departments that are listed of one rule, those with the highest counts. */
const MAX_DEPARTMENTS = 100;
/** Parts of a window in its history. */
const HISTORY_PARTS = 24;
/** Milliseconds for which limits are read at a time: decisions wait meanwhile. At least one rule is read. */
const TURN_MS = 10;

/** Group of agents whose actions a limit counts together, with its count. Counts of a budget are 0. */
export interface LimitGroup {
  /** Agent id, department ids joined by `+`, or workspace id. */
  readonly group: string;
  readonly name: string;
  /** Actions in the window; of an ordered sequence the steps that happened in order. */
  readonly count: number;
  /** Further actions, or steps before the last, until the next one fires the rule. */
  readonly remaining: number;
  readonly members: number;
  /** Set for a budget only. */
  readonly budget?: BudgetState;
  /** The agent, if the group is one agent. */
  readonly agentId?: string;
  /**
   * Time from which one more action, under a budget any amount, fits if nothing else happens, epoch milliseconds. Undefined while
   * `remaining` is above 0, if none ever fits, if it is not known, and for an ordered sequence.
   */
  readonly resetsAtMs?: number;
}

/** Order of limits: by rule the newest mandate first, by fill the fullest first. */
export type LimitOrder = "rule" | "fill";

/** A counting rule with its counts. */
export interface ListedLimit {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly groups: readonly LimitGroup[];
  /** Groups that have counts and are left out. */
  readonly moreGroups: number;
  /** Part of the limit that its fullest group has used, or of the steps that it has done, 0 to 1. */
  readonly fill: number;
  /** Counts of the first group by equal parts of the window, the oldest first. */
  readonly history?: readonly number[];
}

/** Place of a rule in the list: the newest mandate first, of one pack's by id; then rules as they are written. */
interface LimitPlace {
  /** Index of the entry that created the mandate. */
  readonly createdSeq: number;
  readonly mandateId: string;
  readonly index: number;
}

/** Place of a rule in the list by fill. */
interface FillPlace extends LimitPlace {
  readonly fill: number;
}

const POSITION = /^(\d{1,16}) (\S{1,64}) (\d{1,6})$/;
const FILL_POSITION = /^([01]|0\.\d{1,20}|[1-9](?:\.\d{1,20})?e-\d{1,3}) (.*)$/;

const wrongPosition = () => invalidField("page_token", "is not a position in this list");

function placeFrom(position: string): LimitPlace {
  const [, createdSeq, mandateId, index] = POSITION.exec(position) ?? [];
  if (mandateId === undefined) throw wrongPosition();
  return { createdSeq: Number(createdSeq), mandateId, index: Number(index) };
}

function fillPlaceFrom(position: string): FillPlace {
  const [, fill, place] = FILL_POSITION.exec(position) ?? [];
  if (place === undefined) throw wrongPosition();
  return { ...placeFrom(place), fill: Number(fill) };
}

const positionOf = ({ createdSeq, mandateId, index }: LimitPlace): string => `${createdSeq} ${mandateId} ${index}`;
const fillPositionOf = (place: FillPlace): string => `${place.fill} ${positionOf(place)}`;

function comparePlaces(a: LimitPlace, b: LimitPlace): number {
  if (a.createdSeq !== b.createdSeq) return b.createdSeq - a.createdSeq;
  if (a.mandateId !== b.mandateId) return a.mandateId < b.mandateId ? -1 : 1;
  return a.index - b.index;
}

const compareFills = (a: FillPlace, b: FillPlace): number => b.fill - a.fill || comparePlaces(a, b);

/** A rule at its place in the list. */
interface PlacedRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly place: LimitPlace;
}

/** Counts of one rule, as of a time; totals of a budget, in its currency. */
interface Counter {
  readonly scope: ScopeWord;
  readonly departmentId: string | undefined;
  /** Describes a budget for a group; undefined for a rule that counts. */
  readonly budgetOf?: (of: CountedGroup) => BudgetState;
  /** Count from which the next action fires the rule. */
  readonly limit: number;
  ofWorkspace(): number;
  ofAgent(agentId: string): number;
  ofDepartments(groups: readonly (readonly string[])[]): readonly number[];
  forEachAgent(visit: (agentId: string, count: number) => void): void;
  /** Returns when a group that has reached the limit has room again; undefined for an ordered sequence. */
  resetsAt(group: CountedGroup): number | undefined;
}

function counterOf(
  state: WorkspaceState,
  { velocity, budget, ordered }: CompiledRule,
  nowMs: number,
): Counter | undefined {
  if (ordered !== undefined) return orderedCounter(state, ordered, nowMs);
  if (budget !== undefined) return budgetCounter(state, budget, nowMs);
  if (velocity === undefined) return undefined;
  const { counter, maxCount } = velocity;
  const { pot } = counter;
  if (pot !== undefined) return outcomeCounter(state, { pot, windowMs: counter.windowMs }, maxCount, nowMs);
  const counts = state.windows.countsOf(counter, nowMs);
  return {
    scope: counter.scope,
    departmentId: counter.departmentId,
    limit: maxCount,
    ofWorkspace: () => counts.total,
    ofAgent: (agentId) => counts.countFor(agentId),
    ofDepartments: (groups) => groups.map((departmentIds) => counts.peekDepartments(departmentIds)),
    forEachAgent: (visit) => counts.forEach(visit),
    resetsAt: (group) => state.windows.groupResetsAt(counter, group, nowMs, maxCount),
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
    resetsAt: () => undefined,
  };
}

/** Counter of actions that count by their outcomes. */
function outcomeCounter(state: WorkspaceState, window: BudgetWindow, maxCount: number, nowMs: number): Counter {
  const amounts = state.budgets.amountsOf(window, nowMs);
  const count = (of: CountedGroup): number => {
    const { reserved, captured } = amounts.peek(of);
    return Number(reserved + captured);
  };
  return {
    scope: window.pot.scope,
    departmentId: window.pot.departmentId,
    limit: maxCount,
    ofWorkspace: () => count({}),
    ofAgent: (agentId) => count({ agentId }),
    ofDepartments: (groups) => groups.map((departmentIds) => count({ departmentIds })),
    forEachAgent: (visit) => amounts.forEachAgent((agentId) => visit(agentId, count({ agentId }))),
    resetsAt: (group) => state.budgets.groupResetsAt(window, group, nowMs, BigInt(maxCount) - 1n),
  };
}

function budgetCounter(state: WorkspaceState, budget: CompiledBudget, nowMs: number): Counter {
  const amounts = state.budgets.amountsOf(budget, nowMs);
  const budgetOf = (of: CountedGroup): BudgetState => budgetStateFrom(budget, amounts.peek(of));
  const ofAgent = (agentId: string): number => budgetOf({ agentId }).total;
  return {
    scope: budget.pot.scope,
    departmentId: budget.pot.departmentId,
    limit: amountFrom(BigInt(budget.maxTotal)),
    budgetOf,
    resetsAt: (group) => state.budgets.groupResetsAt(budget, group, nowMs, BigInt(budget.maxTotal) - 1n),
    ofWorkspace: () => budgetOf({}).total,
    ofAgent,
    ofDepartments: (groups) => groups.map((departmentIds) => budgetOf({ departmentIds }).total),
    forEachAgent: (visit) => amounts.forEachAgent((agentId) => visit(agentId, ofAgent(agentId))),
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
    if (counter === undefined) return { mandate, rule, groups: [], moreGroups: 0, fill: 0 };
    const { groups, more } = this.#groupsOf(mandate, counter);
    // The last step of a sequence is a part of it, while the action beyond a limit is none of the limit.
    const fill = fillOf(groups[0]?.count, rule.ordered === undefined ? counter.limit : rule.ordered.steps.length);
    return { mandate, rule, groups: groups.map((group) => this.#describe(group, counter)), moreGroups: more, fill };
  }

  /** Reads the counts of a limit anew, with the history of its first group. */
  withHistory({ mandate, rule }: ListedLimit): ListedLimit {
    const limit = this.limitOf(mandate, rule);
    const [group] = limit.groups;
    // Of actions that count by their outcomes, amounts are kept and no parts of a window.
    if (rule.velocity === undefined || rule.velocity.counter.pot !== undefined || group === undefined) return limit;
    const { counter } = rule.velocity;
    const isIn = this.#membersOf(group, counter.scope);
    const history = this.#state.windows.historyOf(counter, this.#nowMs, HISTORY_PARTS, isIn);
    return { ...limit, ...(history !== undefined && { history }) };
  }

  /** Tests that a mandate is in force at this version. */
  isInForce(mandate: CompiledMandate): boolean {
    return this.#state.policies.mandates.get(mandate.id)?.compiled === mandate;
  }

  #membersOf({ group, agentId }: LimitGroup, scope: ScopeWord): (agentId: string) => boolean {
    if (agentId !== undefined) return (id) => id === agentId;
    if (scope === "workspace") return () => true;
    const members = this.#state.departments.membersOfAny(group.split("+"));
    return (id) => members.has(id);
  }

  #isLimit(rule: CompiledRule): boolean {
    const group = groupOfRule(rule);
    const departmentId = group?.departmentId;
    if (departmentId !== undefined && this.#subject?.departmentIds.includes(departmentId) === false) return false;
    return group !== undefined;
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

  #describe({ ids, count }: Counted, counter: Counter): LimitGroup {
    const { agents, departments, settings } = this.#state;
    const { scope, limit } = counter;
    const budget = counter.budgetOf?.(this.#groupFrom(ids, scope));
    const hasRoom = budget === undefined ? count < limit : budget.remaining > 0;
    const resetsAtMs = hasRoom ? undefined : counter.resetsAt(this.#groupFrom(ids, scope));
    const counted = {
      group: ids.join("+"),
      ...(budget === undefined ? { count, remaining: Math.max(0, limit - count) } : { count: 0, remaining: 0, budget }),
      ...(resetsAtMs === undefined ? {} : { resetsAtMs }),
    };
    if (scope === "workspace") return { ...counted, name: settings.name, members: departments.agentCount() };
    const agent = agents.get(ids[0] ?? "");
    if (agent !== undefined) {
      return { ...counted, name: agent.registration.name, members: 1, agentId: agent.registration.agent_id };
    }
    const name = ids.map((id) => departments.all.get(id)?.department.name ?? id).join(" + ");
    return { ...counted, name, members: departments.membersOfAny(ids).size };
  }

  #groupFrom(ids: readonly string[], scope: ScopeWord): CountedGroup {
    if (scope === "workspace") return {};
    const [only = ""] = ids;
    return this.#state.agents.has(only) ? { agentId: only } : { departmentIds: ids };
  }
}

/** Returns the part of a limit, or of all steps, that a count is. */
function fillOf(count: number | undefined, limit: number): number {
  if (count === undefined) return 0;
  return count >= limit ? 1 : count / limit;
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
  readonly order: LimitOrder;
  /** True adds the history of each window. */
  readonly withHistory: boolean;
  /** Aborts when the caller leaves. */
  readonly signal: AbortSignal;
}

/**
 * Lists the velocity rules, budgets and ordered sequences in force with their counts, a few at a time so that decisions come in between;
 * rules that no longer compile are left out. Changes nothing. Rejects with AGENT_NOT_FOUND, INVALID_FIELD for the position of
 * another list, OVERLOADED and STORE_UNAVAILABLE.
 */
export async function listLimits(
  { logs }: { readonly logs: Pick<ReadOnlyLogs, "of"> },
  query: LimitQuery,
  page: PageRequest<string>,
): Promise<Page<ListedLimit, string>> {
  const log = await logs.of(query.workspaceId);
  const { items, next } = await (query.order === "fill" ? listByFill(log, query, page) : listByRule(log, query, page));
  return { items: query.withHistory ? await addHistories(log, query, items) : items, next };
}

/** Reads the limits of a page anew with their histories, so that both agree. Those that ended meanwhile stay as they were. */
async function addHistories(
  log: ReadOnlyLog,
  { agentId, signal }: LimitQuery,
  items: readonly ListedLimit[],
): Promise<readonly ListedLimit[]> {
  const read: ListedLimit[] = [];
  while (read.length < items.length) {
    signal.throwIfAborted();
    await log.dryRun([], (state, nowMs) => {
      const startedAt = performance.now();
      const reader = new LimitReader(state, nowMs, agentId === undefined ? undefined : getAgent(state, agentId));
      for (const limit of items.slice(read.length)) {
        read.push(reader.isInForce(limit.mandate) ? reader.withHistory(limit) : limit);
        if (performance.now() - startedAt > TURN_MS) return;
      }
    });
  }
  return read;
}

/**
 * Reads the rules after a place in their order, as long as `visit` takes them. Returns the place of the last one that it took,
 * undefined once there are no more.
 */
async function readLimits(
  log: ReadOnlyLog,
  { agentId, signal }: LimitQuery,
  after: LimitPlace | undefined,
  visit: (read: () => ListedLimit, place: LimitPlace) => boolean,
): Promise<LimitPlace | undefined> {
  let place = after;
  for (;;) {
    signal.throwIfAborted();
    const outcome = await log.dryRun([], (state, nowMs) => {
      const startedAt = performance.now();
      const reader = new LimitReader(state, nowMs, agentId === undefined ? undefined : getAgent(state, agentId));
      for (const { mandate, rule, place: found } of reader.rulesAfter(place)) {
        if (!visit(() => reader.limitOf(mandate, rule), found)) return "full";
        place = found;
        if (performance.now() - startedAt > TURN_MS) return "turn";
      }
      return "end";
    });
    if (outcome !== "turn") return outcome === "end" ? undefined : place;
  }
}

async function listByRule(
  log: ReadOnlyLog,
  query: LimitQuery,
  { size, after }: PageRequest<string>,
): Promise<Page<ListedLimit, string>> {
  const items: ListedLimit[] = [];
  let bytes = 0;
  const last = await readLimits(log, query, after === undefined ? undefined : placeFrom(after), (read) => {
    // The surplus rule shows that the list goes on.
    if (items.length >= size || bytes > MAX_PAGE_BYTES) return false;
    const limit = read();
    items.push(limit);
    bytes += bytesOf(limit);
    return true;
  });
  return { items, next: last === undefined ? undefined : positionOf(last) };
}

/** Reads the counts of every rule, and keeps those of the page and one that shows that the list goes on. */
async function listByFill(
  log: ReadOnlyLog,
  query: LimitQuery,
  { size, after }: PageRequest<string>,
): Promise<Page<ListedLimit, string>> {
  const from = after === undefined ? undefined : fillPlaceFrom(after);
  const fullest: { readonly limit: ListedLimit; readonly place: FillPlace }[] = [];
  await readLimits(log, query, undefined, (read, found) => {
    const limit = read();
    const place = { ...found, fill: limit.fill };
    const last = fullest[size];
    if (from !== undefined && compareFills(from, place) >= 0) return true;
    if (last !== undefined && compareFills(place, last.place) >= 0) return true;
    const at = fullest.findIndex((each) => compareFills(place, each.place) < 0);
    fullest.splice(at < 0 ? fullest.length : at, 0, { limit, place });
    if (fullest.length > size + 1) fullest.pop();
    return true;
  });
  const { items, next } = pageFrom(
    fullest,
    size,
    ({ place }) => fillPositionOf(place),
    ({ limit }) => bytesOf(limit),
  );
  return { items: items.map(({ limit }) => limit), next };
}

const bytesOf = ({ mandate, rule: { source }, groups }: ListedLimit): number =>
  jsonBytes([mandate.name, source.tool, source.conditions, groups]);
