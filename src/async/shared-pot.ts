/** Party that holds a part of a pot: a workspace, and the agent of it if that is known. */
export interface Holder {
  readonly workspaceId: string;
  readonly agentId?: string | null | undefined;
}

/** Refusal to hold more of a pot. */
export interface ShareRefusal {
  readonly pot: string;
  /** Plural of the counted thing. */
  readonly unit: string;
  /** Party whose share is used up. */
  readonly party: "workspace" | "agent";
  /** Amount that the party holds, and the most that it may hold at the moment. */
  readonly held: number;
  readonly most: number;
  /** Change that makes room, as an imperative. */
  readonly advice: string;
  readonly retryAfterSeconds: number;
}

/** Name, size and refusals of a pot. */
export interface SharedPotOptions {
  /** Name that refusals give, such as `sessions`. */
  readonly name: string;
  /** Whole amount: twice the amount that one workspace alone may hold. */
  readonly size: number;
  readonly unit: string;
  readonly advice: string;
  /** Seconds after which a refused party may try again. */
  readonly retryAfterSeconds: number;
  /** Creates the error of a refusal. */
  readonly refuse: (refusal: ShareRefusal) => Error;
}

/** Something that is not in use and may be closed to make room. */
export interface IdleThing {
  readonly holder: Holder;
  /** Monotonic milliseconds at which its last use ended. */
  readonly idleSinceMs: number;
  /** Closes it and releases its portion. MUST NOT reject. */
  close(): Promise<void>;
}

/** Part of a pot that one party holds. */
export interface Portion {
  readonly amount: number;
  /** Takes more. Throws the pot's refusal, and then takes nothing. Does nothing once the portion was released. */
  add(amount: number): void;
  /** Releases the amount; more may be taken again. */
  empty(): void;
  /** Releases the whole portion for good. Repeated calls do nothing. */
  release(): void;
}

/** Largest portions that fit into a pot at once: an agent alone, with a fifth of the pot, may take each portion that is allowed. */
const LARGEST_PORTIONS = 8;

/** Returns the size of a pot whose portions have at most `largest`, and which has at least `least`. */
export function potSizeFor(largest: number, least = 0): number {
  return Math.max(least, LARGEST_PORTIONS * largest);
}

/** Amounts that a workspace and its agents hold. */
interface WorkspaceShare {
  held: number;
  readonly ofAgents: Map<string, number>;
}

/** Divisors of the free amount, which give the most that a party may hold. */
const DIVISORS = { workspace: 1, agent: 4 } as const;

/**
 * Bounded amount that workspaces share by a dynamic threshold (Choudhury and Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998, with α = 1). After each take, a workspace holds at
 * most as much as is free then, and an agent at most a quarter of that. So one workspace alone holds half of the pot, two hold
 * a third each, and something is left for the next one. The rule counts what is held, and never takes anything back.
 */
export class SharedPot {
  readonly #options: SharedPotOptions;
  readonly #shares = new Map<string, WorkspaceShare>();
  #held = 0;

  constructor(options: SharedPotOptions) {
    this.#options = options;
  }

  /** Amount that all parties hold. */
  get held(): number {
    return this.#held;
  }

  /** Number of workspaces that hold something. */
  get holders(): number {
    return this.#shares.size;
  }

  /** Returns the amount that a workspace or, if the holder names one, its agent holds. */
  heldBy({ workspaceId, agentId }: Holder): number {
    const share = this.#shares.get(workspaceId);
    return (isNamed(agentId) ? share?.ofAgents.get(agentId) : share?.held) ?? 0;
  }

  /** Takes an amount. Throws the pot's refusal, and then takes nothing. */
  take(holder: Holder, amount = 1): Portion {
    const portion = this.open(holder);
    portion.add(amount);
    return portion;
  }

  /** Takes an amount; undefined if there is no room for it. */
  takeIfRoom(holder: Holder, amount = 1): Portion | undefined {
    return this.refusalOf(holder, amount) === undefined ? this.take(holder, amount) : undefined;
  }

  /** Returns an empty portion, for an amount that becomes known by and by. */
  open(holder: Holder): Portion {
    return new HeldPortion((change) => this.#change(holder, change));
  }

  /** Runs a task with an empty portion, and releases what it took once the task has settled. */
  async during<T>(holder: Holder, task: (portion: Portion) => Promise<T>): Promise<T> {
    const portion = this.open(holder);
    try {
      return await task(portion);
    } finally {
      portion.release();
    }
  }

  /**
   * Takes one, and first closes idle things if there is no room: of the agent itself if its own share is used up, then of the
   * caller's workspace and of others over their share, the largest holder first and the longest idle first. `idle` lists them
   * anew each time.
   */
  async takeOneMakingRoom(holder: Holder, idle: () => Iterable<IdleThing>): Promise<Portion> {
    for (const thing of this.#inTheWayOf(holder, 1, idle)) await thing.close();
    return this.take(holder);
  }

  /** Closes idle things as `takeOneMakingRoom` does. They MUST release their portions as soon as they are told to close. */
  makeRoom(holder: Holder, amount: number, idle: () => Iterable<IdleThing>): void {
    for (const thing of this.#inTheWayOf(holder, amount, idle)) void thing.close();
  }

  /** Yields the idle things to close, one after the other, until there is room or none is left. */
  *#inTheWayOf(holder: Holder, amount: number, idle: () => Iterable<IdleThing>): Generator<IdleThing> {
    const closed = new Set<IdleThing>();
    for (;;) {
      const refusal = this.refusalOf(holder, amount);
      const thing = refusal && this.#nextToClose(holder, refusal, idle(), closed);
      if (thing === undefined) return;
      closed.add(thing);
      yield thing;
    }
  }

  #change(holder: Holder, change: number): void {
    if (change > 0) {
      const refusal = this.refusalOf(holder, change);
      if (refusal !== undefined) throw this.#options.refuse(refusal);
    }
    const { workspaceId, agentId } = holder;
    const share: WorkspaceShare = this.#shares.get(workspaceId) ?? { held: 0, ofAgents: new Map() };
    this.#held += change;
    share.held += change;
    if (isNamed(agentId)) {
      const ofAgent = (share.ofAgents.get(agentId) ?? 0) + change;
      if (ofAgent > 0) share.ofAgents.set(agentId, ofAgent);
      else share.ofAgents.delete(agentId);
    }
    if (share.held > 0) this.#shares.set(workspaceId, share);
    else this.#shares.delete(workspaceId);
  }

  /** Returns the refusal of an amount; undefined if there is room. */
  refusalOf({ workspaceId, agentId }: Holder, amount = 1): ShareRefusal | undefined {
    const free = this.#options.size - this.#held;
    const share = this.#shares.get(workspaceId);
    const ofWorkspace = share?.held ?? 0;
    const mayTake = (party: ShareRefusal["party"], held: number): boolean =>
      (held + amount) * DIVISORS[party] <= free - amount;
    if (!mayTake("workspace", ofWorkspace)) return this.#refuse("workspace", ofWorkspace);
    if (!isNamed(agentId)) return undefined;
    const ofAgent = share?.ofAgents.get(agentId) ?? 0;
    return mayTake("agent", ofAgent) ? undefined : this.#refuse("agent", ofAgent);
  }

  #refuse(party: ShareRefusal["party"], held: number): ShareRefusal {
    const { name, size, unit, advice, retryAfterSeconds } = this.#options;
    // Each amount that the party takes is free no more.
    const most = Math.floor((size - this.#held + held) / (1 + DIVISORS[party]));
    return { pot: name, unit, party, held, most, advice, retryAfterSeconds };
  }

  #nextToClose(
    { workspaceId, agentId }: Holder,
    { party }: ShareRefusal,
    idle: Iterable<IdleThing>,
    closed: ReadonlySet<IdleThing>,
  ): IdleThing | undefined {
    const free = this.#options.size - this.#held;
    let next: { readonly thing: IdleThing; readonly weight: number } | undefined;
    for (const thing of idle) {
      if (closed.has(thing)) continue;
      const { holder, idleSinceMs } = thing;
      const isOwn = holder.workspaceId === workspaceId && (party === "workspace" || holder.agentId === agentId);
      const held = this.#shares.get(holder.workspaceId)?.held ?? 0;
      if (!isOwn && held <= free) continue;
      const weight = isOwn && party === "agent" ? Number.POSITIVE_INFINITY : held;
      const isEarlier = next !== undefined && weight === next.weight && idleSinceMs < next.thing.idleSinceMs;
      if (next === undefined || weight > next.weight || isEarlier) next = { thing, weight };
    }
    return next?.thing;
  }
}

/** Portion that reports its changes to the pot. */
class HeldPortion implements Portion {
  readonly #change: (change: number) => void;
  #amount = 0;
  #isReleased = false;

  constructor(change: (change: number) => void) {
    this.#change = change;
  }

  get amount(): number {
    return this.#amount;
  }

  add(amount: number): void {
    if (!Number.isFinite(amount) || amount < 0) throw new RangeError(`${amount} is no amount`);
    if (this.#isReleased || amount === 0) return;
    this.#change(amount);
    this.#amount += amount;
  }

  empty(): void {
    if (this.#amount > 0) this.#change(-this.#amount);
    this.#amount = 0;
  }

  release(): void {
    this.empty();
    this.#isReleased = true;
  }
}

const isNamed = (agentId: Holder["agentId"]): agentId is string => agentId !== undefined && agentId !== null;
