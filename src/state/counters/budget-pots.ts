import type { JsonObject } from "@bufbuild/protobuf";
import { type BudgetWindow, type PotReading, type PotSpec, paymentOf } from "../../policy/budget.ts";
import { heldAmount, type OutcomeStatus } from "../../policy/outcome-status.ts";
import { AmountRing, type RingAmount } from "./amount-ring.ts";
import {
  type CountedGroup,
  GroupCounts,
  groupFor,
  type Membership,
  nameGroup,
  Parties,
  type Party,
} from "./windows.ts";

/** Default number of amounts that all windows of a workspace together keep at each of their ends: 29 MB at most. */
const DEFAULT_KEPT = 524_288;
/** Default number of amounts that a window may keep at each end however many windows there are. */
const DEFAULT_MIN_KEPT = 4_096;
const MILLION = 1_000_000;
/** Maximum number of amounts that are looked at, the oldest first, to find those that have to leave a window: 0.1 ms. */
const MAX_LOOKED_AT = 32_768;
const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER);

/** Amount that an allowed action reserves in a pot. Sealed with the decision. */
export interface Reservation {
  /** Key of the pot. */
  readonly pot: string;
  readonly millionths: number;
  /** Currency of the pot: `EUR`. Absent where only the amount is read, and for an action. */
  readonly currency?: string;
  /** Set if the pot gives the amount back only by a confirmed report. Absent where only the amount is read. */
  readonly release?: "confirmed";
  /** Set if the pot counts actions: it has one millionth, and no money. */
  readonly unit?: "action";
  /** Statuses with which it counts. Absent for those of a budget that names none, and where only the amount is read. */
  readonly outcomes?: readonly OutcomeStatus[];
}

/** Change of an amount in a pot by the outcome of its action, in millionths. */
export interface AmountChange {
  /** Key of the pot. */
  readonly pot: string;
  readonly reserved: number;
  readonly captured: number;
}

/** Amount of one action in a pot, as it stands at some place of the log. */
export interface PotAmount extends Party {
  /** Time of the decision, epoch milliseconds. */
  readonly at: number;
  /** Millionths, as `captured`. */
  readonly reserved: number;
  readonly captured: number;
}

/** Sums of the amounts of one agent and principal, in millionths. */
export interface PotSum extends Party {
  readonly reserved: bigint;
  readonly captured: bigint;
}

/** Times from the first up to the second, which is excluded: epoch milliseconds. */
interface Span {
  readonly from: number;
  readonly before: number;
}

/** Amounts that a window waits for. */
export interface MissingAmounts {
  /** Key of the pot. */
  readonly pot: string;
  readonly windowMs: number;
  /** Time of the first decision, epoch milliseconds. */
  readonly from: number;
  /** Time to stop before; undefined for everything up to the end of the log. */
  readonly before: number | undefined;
}

/** Amounts of a pot between two times: the oldest and the newest one by one, the others as sums, so that any number fits in memory. */
export interface Amounts {
  /** Oldest first; of each time all or none. */
  readonly oldest: readonly PotAmount[];
  /** Times, the second excluded, of those that follow and are not read one by one; undefined if there are none. */
  readonly left: Span | undefined;
  /** Sums of the amounts in `left`. Empty for a stretch with an end: a window has added them already. */
  readonly rest: readonly PotSum[];
  /** The amounts after `left`. Empty for a stretch with an end. */
  readonly newest: readonly PotAmount[];
}

const idOf = ({ pot, windowMs }: BudgetWindow): string => `${windowMs} ${pot.key}`;

/**
 * Amounts in the pots of a workspace, by sliding windows exact to the millisecond and to the millionth: an amount counts from the time
 * of its decision while that is later than now minus the window. A decision costs amortised O(1), whatever the size of the group
 * and the number of amounts in the window.
 */
export class BudgetPots {
  readonly #membership: Membership;
  readonly #workspaceId: string;
  readonly #kept: number;
  readonly #minKept: number;
  readonly #parties = new Parties();
  #windows = new Map<string, PotWindow>();
  #windowsByPot = new Map<string, readonly PotWindow[]>();
  #potsByTool = new Map<string, readonly PotSpec[]>();
  #confirmed: ReadonlySet<string> = new Set();
  #countPots: readonly PotSpec[] = [];
  #maxKept: number;

  /**
   * Creates the windows of a workspace, empty at first. `kept` bounds the amounts that all windows together keep in memory at each
   * of their ends; `minKept` is the minimum share of each window.
   */
  constructor(membership: Membership, workspaceId: string, { kept = DEFAULT_KEPT, minKept = DEFAULT_MIN_KEPT } = {}) {
    this.#membership = membership;
    this.#workspaceId = workspaceId;
    this.#kept = kept;
    this.#minKept = minKept;
    this.#maxKept = kept;
  }

  /**
   * Sets the budgets in force, and the keys of the pots that give amounts back only by a confirmed report (default: none). A pot that was
   * in force before goes on with its amounts.
   */
  require(budgets: readonly BudgetWindow[], confirmed: ReadonlySet<string> = new Set()): void {
    this.#confirmed = confirmed;
    const before = this.#windows;
    this.#windows = new Map();
    const pots = new Map<string, PotSpec>();
    for (const budget of budgets) {
      pots.set(budget.pot.key, budget.pot);
      const id = idOf(budget);
      if (this.#windows.has(id)) continue;
      this.#windows.set(id, before.get(id) ?? new PotWindow(budget, this.#parties, this.#membership));
    }
    this.#windowsByPot = Map.groupBy(this.#windows.values(), ({ pot }) => pot);
    this.#potsByTool = new Map();
    this.#countPots = [...pots.values()].filter(({ counted }) => counted !== undefined);
    for (const pot of pots.values()) {
      for (const tool of new Set(pot.sums.map((sum) => sum.tool))) {
        this.#potsByTool.set(tool, [...(this.#potsByTool.get(tool) ?? []), pot]);
      }
    }
    this.#maxKept = Math.max(this.#minKept, Math.floor(this.#kept / Math.max(1, this.#windows.size)));
  }

  /** Returns what an allowed call of a tool reserves in the pots in force. `tool` as `toolKey` gives it. */
  reservationsOf(tool: string, args: JsonObject | undefined): readonly Reservation[] {
    const pots = this.#potsByTool.get(tool);
    if (pots === undefined) return [];
    return pots.flatMap((pot): readonly Reservation[] => {
      const millionths = paymentOf(pot, tool, args)?.millionths;
      if (millionths === undefined) return [];
      const { key, outcomes } = pot;
      const reservation = { pot: key, millionths, currency: pot.currency.toUpperCase(), ...(outcomes && { outcomes }) };
      return [this.isConfirmed(key) ? { ...reservation, release: "confirmed" } : reservation];
    });
  }

  /** Tests whether a pot gives an amount back only by a confirmed report. */
  isConfirmed(pot: string): boolean {
    return this.#confirmed.has(pot);
  }

  /** Returns what an allowed action of a type, in its normal form, adds to the pots in force that count actions. */
  countsOf(actionType: string): readonly Reservation[] {
    if (this.#countPots.length === 0) return [];
    return this.#countPots.flatMap(({ key, counted, outcomes }): readonly Reservation[] =>
      counted?.matches(actionType) === true
        ? [{ pot: key, millionths: 1, unit: "action", ...(outcomes && { outcomes }) }]
        : [],
    );
  }

  /** Adds what an allowed action reserves. For a batch that may be rolled back, adds a step to `undo` that takes it out again. */
  record(reservations: readonly Reservation[], party: Party, at: number, undo?: (() => void)[]): void {
    for (const { pot, millionths } of reservations) {
      for (const window of this.#windowsByPot.get(pot) ?? []) {
        if (window.record(party, at, millionths)) undo?.push(window.rollback);
      }
    }
  }

  /**
   * Changes what an action reserved at a time by its outcome: how much counts, never when. `party` as it was recorded. For a batch that may
   * be rolled back, adds a step to `undo` that changes it back.
   */
  settle(changes: readonly AmountChange[], party: Party, at: number, undo?: (() => void)[]): void {
    for (const { pot, reserved, captured } of changes) {
      for (const window of this.#windowsByPot.get(pot) ?? []) {
        if (window.change(party, at, reserved, captured))
          undo?.push(() => window.change(party, at, -reserved, -captured));
      }
    }
  }

  /** Reads the past amounts of a budget for the group of an agent. `now` MUST NOT go back. */
  read(budget: BudgetWindow, agentId: string, now: number): PotReading {
    const window = this.#windowOf(budget, now);
    const group = groupFor(this.#membership, budget.pot, agentId);
    const read = (counts: GroupCounts): number => counts.countForGroup(group);
    const amounts = { reserved: window.reserved.sum(read), captured: window.captured.sum(read) };
    return { ...nameGroup(this.#membership, this.#workspaceId, group), ...amounts };
  }

  /**
   * Returns the time, in epoch milliseconds, from which the past amounts of an agent's group come to `most` millionths at most if nothing
   * else happens; `now` if they do already. Undefined if they never do, if the amounts that have to leave before are added but not in
   * memory, and if there are too many others before them. `now` MUST NOT go back.
   */
  resetsAt(budget: BudgetWindow, agentId: string, now: number, most: bigint): number | undefined {
    return this.groupResetsAt(budget, groupFor(this.#membership, budget.pot, agentId), now, most);
  }

  /** Returns the same as `resetsAt` for a group itself. */
  groupResetsAt(budget: BudgetWindow, group: CountedGroup, now: number, most: bigint): number | undefined {
    return this.#windowOf(budget, now).resetsAt(group, now, most);
  }

  /** Returns the past amounts of a budget, by agent and group. `now` MUST NOT go back. */
  amountsOf(budget: BudgetWindow, now: number): Pick<PotWindow, "peek" | "forEachAgent"> {
    return this.#windowOf(budget, now);
  }

  /**
   * Returns the amounts that must be loaded before a budget is read as of `now`; undefined when nothing is missing. MUST be called
   * only while every recorded amount is durable.
   */
  missing(now: number): MissingAmounts | undefined {
    this.bound();
    for (const window of this.#windows.values()) {
      const missing = window.missing(now);
      if (missing !== undefined) return missing;
    }
    return undefined;
  }

  /** Tests that nothing is missing as of `now` and the memory is within its bound, so that deciding may run ahead of commits. */
  isReady(now: number): boolean {
    for (const window of this.#windows.values()) if (!window.isReady(now, this.#maxKept)) return false;
    return true;
  }

  /** Adds the amounts that `missing` named, as they stand at the end of the log. */
  load({ pot, windowMs, before }: MissingAmounts, amounts: Amounts): void {
    const window = this.#windows.get(`${windowMs} ${pot}`);
    if (before === undefined) window?.loadAll(amounts);
    else window?.loadNext(amounts);
  }

  /** Bounds the memory, as `missing` does too. Called after many amounts were recorded, under the same conditions. */
  bound(): void {
    for (const window of this.#windows.values()) window.bound(this.#maxKept);
  }

  /** Drops the sums of a department whose members change; the next read adds them again. */
  forgetDepartment(departmentId: string): void {
    for (const window of this.#windows.values()) window.forgetDepartment(departmentId);
  }

  #windowOf(budget: BudgetWindow, now: number): PotWindow {
    const window = this.#windows.get(idOf(budget));
    if (window === undefined) throw new Error(`no window of the pot \`${budget.pot.key}\` is in force`);
    window.advance(now);
    return window;
  }
}

/** Amounts of a group: open ones and paid ones, in millionths. */
type GroupAmounts = Pick<PotReading, "reserved" | "captured">;

/** Sums of amounts by agent and group. Whole units and millionths apart, so that neither leaves the whole numbers that a double holds. */
class AmountSums {
  readonly #wholes: GroupCounts;
  readonly #millionths: GroupCounts;

  constructor(parties: Parties, membership: Membership) {
    this.#wholes = new GroupCounts(parties, membership);
    this.#millionths = new GroupCounts(parties, membership);
  }

  add(party: number, millionths: number): void {
    const rest = millionths % MILLION;
    if (millionths !== rest) this.#wholes.add(party, (millionths - rest) / MILLION);
    if (rest !== 0) this.#millionths.add(party, rest);
  }

  addSum(party: number, millionths: bigint): void {
    this.#wholes.add(party, Number(millionths / BigInt(MILLION)));
    this.#millionths.add(party, Number(millionths % BigInt(MILLION)));
  }

  /** Returns the sum of a group that `read` reads, in millionths. */
  sum(read: (counts: GroupCounts) => number): bigint {
    return BigInt(read(this.#wholes)) * BigInt(MILLION) + BigInt(read(this.#millionths));
  }

  /** Creates the test whether a party belongs to a group; undefined for the workspace. */
  testOf(group: CountedGroup): ((party: number) => boolean) | undefined {
    return this.#wholes.testOf(group);
  }

  forEachAgent(visit: (agentId: string) => void): void {
    this.#wholes.forEach(visit);
    this.#millionths.forEach(visit);
  }

  forgetDepartment(departmentId: string): void {
    this.#wholes.forgetDepartment(departmentId);
    this.#millionths.forgetDepartment(departmentId);
  }
}

/** Millionths that have to leave a window, of any size. Taken away as numbers, which is ten times as fast as whole numbers of any size. */
class Excess {
  #beyond: bigint;
  #near: number;

  constructor(millionths: bigint) {
    this.#near = Number(millionths < MAX_SAFE ? millionths : MAX_SAFE);
    this.#beyond = millionths - BigInt(this.#near);
  }

  get isGone(): boolean {
    return this.#near <= 0;
  }

  take(millionths: number): void {
    this.#near -= millionths;
    if (this.#near > 0 || this.#beyond === 0n) return;
    const all = this.#beyond + BigInt(this.#near);
    this.#near = Number(all < MAX_SAFE ? all : MAX_SAFE);
    this.#beyond = all - BigInt(this.#near);
  }
}

/**
 * One sliding window over a pot. It holds its oldest amounts (`head`) and its newest (`tail`) one by one. Past a bound, those between
 * them are only added (`unloaded`). When the head is empty, its next page is read. So memory is bounded and sums stay exact.
 *
 * INVARIANT: every time is wholly in one of them, since the stretch between is read back by its times.
 */
class PotWindow {
  readonly pot: string;
  readonly windowMs: number;
  readonly reserved: AmountSums;
  readonly captured: AmountSums;
  readonly #parties: Parties;
  readonly #outcomes: readonly OutcomeStatus[] | undefined;
  #head = new AmountRing();
  #tail = new AmountRing();
  /** Times, the second excluded, of amounts that are added but not in memory. */
  #unloaded: Span | undefined;
  /** False until the past of the pot is loaded. Nothing is recorded before, because loading reads everything up to the end of the log. */
  #isComplete = false;

  constructor({ pot, windowMs }: BudgetWindow, parties: Parties, membership: Membership) {
    this.pot = pot.key;
    this.windowMs = windowMs;
    this.#parties = parties;
    this.#outcomes = pot.outcomes;
    this.reserved = new AmountSums(parties, membership);
    this.captured = new AmountSums(parties, membership);
  }

  /** Adds an amount that is reserved now, 0 where a pending outcome does not count. Returns false if the window waits for its past, which will have it. */
  record(party: Party, at: number, millionths: number): boolean {
    if (!this.#isComplete) return false;
    const { reserved } = heldAmount("pending", millionths, undefined, this.#outcomes);
    // A window that no rule reads any more would otherwise grow forever.
    this.#dropUntil(at - this.windowMs);
    this.#push(this.#tail, { at, party: this.#parties.numberOf(party), reserved, captured: 0 });
    return true;
  }

  /**
   * Changes an amount of a time by the differences. Returns false for one that has left the window, or if the window waits for its past,
   * which will have it changed. Actions of one party at one time leave the window together, so that either may take the change.
   */
  change(party: Party, at: number, reserved: number, captured: number): boolean {
    if (!this.#isComplete) return false;
    const change = { at, party: this.#parties.numberOf(party), reserved, captured };
    const { from, before } = this.#unloaded ?? { from: 0, before: 0 };
    const isKnown = (at >= from && at < before) || this.#head.change(change) || this.#tail.change(change);
    if (isKnown) this.#add(change);
    return isKnown;
  }

  /**
   * Takes the last recorded amount out again. MUST be called before anything else is recorded, before `bound`, and before the amount
   * can have left the window (`log/in-flight.ts`).
   */
  readonly rollback = (): void => this.#remove(this.#tail.pop());

  /** Returns the amounts of a group, without keeping the sums of departments: each kept group adds to the cost of every action. */
  peek(group: CountedGroup): GroupAmounts {
    const read = (counts: GroupCounts): number => counts.peek(group);
    return { reserved: this.reserved.sum(read), captured: this.captured.sum(read) };
  }

  /** Returns when the amounts of a group come to `most` millionths at most, as `BudgetPots.resetsAt` does. MUST be called after `advance`. */
  resetsAt(group: CountedGroup, now: number, most: bigint): number | undefined {
    const { reserved, captured } = this.peek(group);
    if (most < 0n) return undefined;
    const isIn = this.reserved.testOf(group);
    const excess = new Excess(reserved + captured - most);
    if (excess.isGone) return now;
    let left = MAX_LOOKED_AT;
    for (const ring of this.#unloaded === undefined ? [this.#head, this.#tail] : [this.#head]) {
      for (let index = 0; index < ring.length; index++) {
        if (left-- === 0) return undefined;
        if (isIn?.(ring.partyAt(index)) === false) continue;
        excess.take(ring.amountAt(index));
        if (excess.isGone) return ring.timeAt(index) + this.windowMs;
      }
    }
    return undefined;
  }

  /** Visits the agents with amounts above 0, in no particular order, each once. */
  forEachAgent(visit: (agentId: string) => void): void {
    const agents = new Set<string>();
    for (const sums of [this.reserved, this.captured]) sums.forEachAgent((agentId) => agents.add(agentId));
    for (const agentId of agents) visit(agentId);
  }

  forgetDepartment(departmentId: string): void {
    this.reserved.forgetDepartment(departmentId);
    this.captured.forgetDepartment(departmentId);
  }

  /** Bounds the memory to about `maxKept` amounts at each end. MUST be called only while every recorded amount is durable. */
  bound(maxKept: number): void {
    if (!this.#isOver(maxKept)) return;
    if (this.#unloaded === undefined && this.#head.length === 0) {
      [this.#head, this.#tail] = [this.#tail, this.#head];
      return;
    }
    // Further amounts may come with the last time, and the first ones may have the time at which the head ends.
    const before = this.#tail.lastAt;
    if (this.#unloaded === undefined) {
      while (this.#tail.firstAt === this.#head.lastAt) this.#head.push(this.#tail.shift());
    }
    const from = this.#unloaded?.from ?? this.#head.lastAt + 1;
    if (this.#tail.firstAt < before) this.#unloaded = { from, before };
    while (this.#tail.firstAt < before) this.#tail.shift();
  }

  /** Returns what must be loaded before the window is read as of `now`; undefined when nothing is missing. */
  missing(now: number): MissingAmounts | undefined {
    const { pot, windowMs } = this;
    if (!this.#isComplete) return { pot, windowMs, from: now - windowMs + 1, before: undefined };
    this.#dropUntil(now - windowMs);
    if (this.#unloaded === undefined || this.#head.length > 0) return undefined;
    return { pot, windowMs, ...this.#unloaded };
  }

  /** Drops the amounts that have left the window as of `now`. Tests that nothing is missing and `bound` would do nothing. */
  isReady(now: number, maxKept: number): boolean {
    return !this.#isOver(maxKept) && this.missing(now) === undefined;
  }

  /** Drops the amounts that have left the window as of `now`. Throws when amounts for that time are missing. */
  advance(now: number): void {
    if (this.missing(now) !== undefined) {
      throw new Error(`the window of the pot \`${this.pot}\` lacks amounts for this time`);
    }
  }

  /** Takes over the whole past of the pot. */
  loadAll({ oldest, left, rest, newest }: Amounts): void {
    if (this.#isComplete) return;
    for (const amount of oldest) this.#push(this.#head, this.#numbered(amount));
    for (const { reserved, captured, ...party } of rest) {
      this.reserved.addSum(this.#parties.numberOf(party), reserved);
      this.captured.addSum(this.#parties.numberOf(party), captured);
    }
    for (const amount of newest) this.#push(this.#tail, this.#numbered(amount));
    this.#unloaded = left;
    this.#isComplete = true;
  }

  /** Takes a page of the unloaded stretch, whose amounts are added already, into the head. */
  loadNext({ oldest, left }: Amounts): void {
    if (this.#unloaded === undefined || this.#head.length > 0) return;
    for (const amount of oldest) this.#head.push(this.#numbered(amount));
    this.#unloaded = left;
  }

  #isOver(maxKept: number): boolean {
    return this.#tail.length >= maxKept && this.#tail.firstAt < this.#tail.lastAt;
  }

  #numbered({ agentId, principalId, at, reserved, captured }: PotAmount): RingAmount {
    return { at, party: this.#parties.numberOf({ agentId, principalId }), reserved, captured };
  }

  #push(ring: AmountRing, amount: RingAmount): void {
    ring.push(amount);
    this.#add(amount);
  }

  #add({ party, reserved, captured }: RingAmount): void {
    if (reserved !== 0) this.reserved.add(party, reserved);
    if (captured !== 0) this.captured.add(party, captured);
  }

  #remove({ party, reserved, captured }: RingAmount): void {
    if (reserved !== 0) this.reserved.add(party, -reserved);
    if (captured !== 0) this.captured.add(party, -captured);
  }

  #dropUntil(limit: number): void {
    while (this.#head.firstAt <= limit) this.#remove(this.#head.shift());
    if (this.#head.length > 0 || this.#unloaded !== undefined || !this.#isComplete) return;
    while (this.#tail.firstAt <= limit) this.#remove(this.#tail.shift());
  }
}
