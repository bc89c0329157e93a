import { expect } from "chai";
import fc from "fast-check";
import {
  type Holder,
  type IdleThing,
  type Portion,
  potSizeFor,
  SharedPot,
  type SharedPotOptions,
  type ShareRefusal,
} from "../../src/async/shared-pot.ts";

class Refused extends Error {
  readonly refusal: ShareRefusal;
  constructor(refusal: ShareRefusal) {
    super(`${refusal.party} of ${refusal.pot}`);
    this.refusal = refusal;
  }
}

const potOf = (size: number, more: Partial<SharedPotOptions> = {}): SharedPot =>
  new SharedPot({
    name: "places",
    size,
    unit: "places",
    advice: "leave some",
    retryAfterSeconds: 7,
    refuse: (refusal) => new Refused(refusal),
    ...more,
  });

/** Returns the refusal of work; undefined if it is not refused. */
function refusalOf(work: () => unknown): ShareRefusal | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    if (error instanceof Refused) return error.refusal;
    throw error;
  }
}

/** Takes one at a time until the pot refuses. Returns the portions. */
function fill(pot: SharedPot, holder: Holder): Portion[] {
  const portions: Portion[] = [];
  while (refusalOf(() => portions.push(pot.take(holder))) === undefined);
  return portions;
}

/** The rule in plain words, over a list of everything that is held. */
class NaivePot {
  readonly #size: number;
  readonly held: { readonly holder: Holder; amount: number }[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  sumOf(isCounted: (holder: Holder) => boolean): number {
    return this.held.reduce((sum, { holder, amount }) => sum + (isCounted(holder) ? amount : 0), 0);
  }

  mayHold({ workspaceId, agentId }: Holder, amount: number): boolean {
    const freeThen = this.#size - this.sumOf(() => true) - amount;
    const workspaceThen = this.sumOf((other) => other.workspaceId === workspaceId) + amount;
    if (workspaceThen > freeThen) return false;
    if (agentId === undefined) return true;
    const ofAgent = this.sumOf((other) => other.workspaceId === workspaceId && other.agentId === agentId) + amount;
    return ofAgent * 4 <= freeThen;
  }
}

describe("a pot that workspaces share", () => {
  it("sized for its largest portion has room for one of an agent, also beside one of another workspace.", () => {
    const pot = potOf(potSizeFor(1_000));
    pot.take({ workspaceId: "a", agentId: "b" }, 1_000);
    pot.take({ workspaceId: "c", agentId: "d" }, 1_000);
    expect([potSizeFor(1_000, 7_999), potSizeFor(1_000, 8_001)]).to.deep.equal([8_000, 8_001]);
  });

  for (const [count, size] of [
    [1, 512],
    [2, 512],
    [3, 512],
    [7, 512],
    [1, 20_000],
    [2, 20_001],
  ] as const) {
    it(`of ${size} gives ${count} that fill it ${Math.floor(size / (count + 1))} each, and has room for the next.`, () => {
      const pot = potOf(size);
      const workspaces = Array.from({ length: count }, (_, index) => ({ workspaceId: `w${index}` }));
      // In turns, as callers at the same time do.
      const portions: Portion[] = [];
      const open = new Set(workspaces);
      while (open.size > 0) {
        for (const holder of open) {
          if (refusalOf(() => portions.push(pot.take(holder))) !== undefined) open.delete(holder);
        }
      }
      const shares = workspaces.map((holder) => pot.heldBy(holder));
      for (const share of shares)
        expect(share).to.be.within(Math.floor(size / (count + 1)) - 1, Math.ceil(size / (count + 1)));
      expect(fill(pot, { workspaceId: "next" }).length).to.be.at.least(Math.floor(size / (count + 1) / 2) - 1);
    });
  }

  it("lets an agent alone hold a fifth, the other agents of its workspace their own, and another workspace as much as ever.", () => {
    const pot = potOf(500);
    expect(fill(pot, { workspaceId: "a", agentId: "1" })).to.have.length(100);
    expect(fill(pot, { workspaceId: "a", agentId: "2" })).to.have.length(80);
    expect(fill(pot, { workspaceId: "a" })).to.have.length(70);
    expect(refusalOf(() => pot.take({ workspaceId: "a", agentId: "3" }))?.party).to.equal("workspace");
    expect(fill(pot, { workspaceId: "b" })).to.have.length(125);
  });

  it("keeps agents of the same name in two workspaces apart.", () => {
    const pot = potOf(1_000);
    fill(pot, { workspaceId: "a", agentId: "1" });
    expect(pot.heldBy({ workspaceId: "b", agentId: "1" })).to.equal(0);
    expect(refusalOf(() => pot.take({ workspaceId: "b", agentId: "1" }))).to.equal(undefined);
  });

  it("says in a refusal who holds how much of what, the most that it may hold, and when to ask again.", () => {
    const pot = potOf(100);
    fill(pot, { workspaceId: "a", agentId: "1" });
    const common = { pot: "places", unit: "places", advice: "leave some", retryAfterSeconds: 7 };
    expect(refusalOf(() => pot.take({ workspaceId: "a", agentId: "1" }))).to.deep.equal({
      ...common,
      party: "agent",
      held: 20,
      most: 20,
    });
    fill(pot, { workspaceId: "a" });
    expect(refusalOf(() => pot.take({ workspaceId: "a" }, 30))).to.deep.equal({
      ...common,
      party: "workspace",
      held: 50,
      most: 50,
    });
  });

  it("takes all of an amount or nothing, a zero always, and no amount that is none.", () => {
    const pot = potOf(100);
    expect(refusalOf(() => pot.take({ workspaceId: "a" }, 51))).to.include({ held: 0, most: 50 });
    expect(refusalOf(() => pot.take({ workspaceId: "a" }, 1e18))).to.include({ held: 0, most: 50 });
    expect(pot.held).to.equal(0);
    expect(pot.holders).to.equal(0);
    const whole = pot.take({ workspaceId: "a" }, 50);
    expect(pot.take({ workspaceId: "a" }, 0).amount).to.equal(0);
    expect(pot.take({ workspaceId: "b" }, 0).amount).to.equal(0);
    expect(pot.holders).to.equal(1);
    for (const amount of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => pot.take({ workspaceId: "b" }, amount)).to.throw(RangeError);
      expect(() => whole.add(amount)).to.throw(RangeError);
    }
    expect(pot.held).to.equal(50);
  });

  it("releases a portion once, however often it is asked, and holds nothing for a portion that was released.", () => {
    const pot = potOf(100);
    const [one, other] = [pot.take({ workspaceId: "a" }, 10), pot.take({ workspaceId: "a" }, 5)];
    one.add(3);
    expect(one.amount).to.equal(13);
    one.empty();
    one.add(2);
    expect([one.amount, pot.held]).to.deep.equal([2, 7]);
    one.release();
    one.release();
    one.add(20);
    one.empty();
    expect(one.amount).to.equal(0);
    expect(pot.held).to.equal(5);
    other.release();
    other.release();
    expect(pot.held).to.equal(0);
  });

  it("keeps nothing of thousands of workspaces and agents that hold nothing any more.", () => {
    const pot = potOf(1_000_000);
    const portions = Array.from({ length: 20_000 }, (_, index) =>
      pot.take({ workspaceId: `w${index >> 2}`, agentId: `a${index}` }),
    );
    expect(pot.holders).to.equal(5_000);
    for (const portion of portions) portion.release();
    expect([pot.holders, pot.held]).to.deep.equal([0, 0]);
    expect(pot.heldBy({ workspaceId: "w1", agentId: "a5" })).to.equal(0);
  });

  it("admits as the rule in plain words does, whatever is taken and released in which order.", () => {
    const holder = fc.record(
      { workspaceId: fc.constantFrom("a", "b", "c"), agentId: fc.constantFrom("1", "2") },
      { requiredKeys: ["workspaceId"] },
    );
    const step = fc.oneof(
      fc.record({ kind: fc.constant("take" as const), holder, amount: fc.integer({ min: 0, max: 60 }) }),
      fc.record({ kind: fc.constant("add" as const), which: fc.nat(), amount: fc.integer({ min: 0, max: 30 }) }),
      fc.record({ kind: fc.constant("release" as const), which: fc.nat() }),
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), fc.array(step, { maxLength: 120 }), (size, steps) => {
        const [pot, naive] = [potOf(size), new NaivePot(size)];
        const portions: Portion[] = [];
        for (const each of steps) {
          if (each.kind === "take") {
            const isAllowed = each.amount === 0 || naive.mayHold(each.holder, each.amount);
            const refusal = refusalOf(() => portions.push(pot.take(each.holder, each.amount)));
            expect(refusal === undefined).to.equal(isAllowed);
            if (isAllowed) naive.held.push({ holder: each.holder, amount: each.amount });
            if (refusal !== undefined) expect(refusal.held + each.amount).to.be.above(refusal.most);
          } else if (portions.length > 0) {
            const index = each.which % portions.length;
            const [portion, known] = [portions[index], naive.held[index]];
            if (portion === undefined || known === undefined) throw new Error("both have the same portions");
            if (each.kind === "release") {
              portion.release();
              known.amount = 0;
              naive.held.splice(index, 1);
              portions.splice(index, 1);
              portion.release();
            } else {
              const isAllowed = each.amount === 0 || naive.mayHold(known.holder, each.amount);
              expect(refusalOf(() => portion.add(each.amount)) === undefined).to.equal(isAllowed);
              if (isAllowed) known.amount += each.amount;
            }
          }
          expect(pot.held).to.equal(naive.sumOf(() => true));
          for (const workspaceId of ["a", "b", "c"]) {
            const sum = naive.sumOf((other) => other.workspaceId === workspaceId);
            expect(pot.heldBy({ workspaceId })).to.equal(sum);
            for (const agentId of ["1", "2"]) {
              const isCounted = (other: Holder) => other.workspaceId === workspaceId && other.agentId === agentId;
              expect(pot.heldBy({ workspaceId, agentId })).to.equal(naive.sumOf(isCounted));
            }
          }
        }
      }),
    );
  });

  describe("makes room by closing what is idle", () => {
    /** Things in a pot, some of them idle. */
    function things(pot: SharedPot) {
      const idle = new Set<IdleThing>();
      const closed: string[] = [];
      const take = (holder: Holder) => pot.takeOneMakingRoom(holder, () => idle);
      return {
        closed,
        take,
        async add(name: string, holder: Holder, idleSinceMs?: number): Promise<void> {
          const portion = await take(holder);
          if (idleSinceMs === undefined) return;
          const thing: IdleThing = {
            holder,
            idleSinceMs,
            async close() {
              idle.delete(thing);
              closed.push(name);
              portion.release();
            },
          };
          idle.add(thing);
        },
      };
    }

    it("of the agent itself first idle, when its own share is used up.", async () => {
      const pot = potOf(20);
      const { add, closed, take } = things(pot);
      const own = { workspaceId: "a", agentId: "1" };
      await add("other agent", { workspaceId: "a", agentId: "2" }, 1);
      await add("late", own, 30);
      await add("early", own, 20);
      await add("used", own);
      await take(own);
      expect(closed).to.deep.equal(["early"]);
      await take(own);
      expect(closed).to.deep.equal(["early", "late"]);
      await take(own).catch((error: Refused) => expect(error.refusal.party).to.equal("agent"));
      expect(closed).to.have.length(2);
    });

    it("of workspaces over their share, the largest first, and never of one within its share.", async () => {
      const pot = potOf(12);
      const { add, closed, take } = things(pot);
      for (let n = 0; n < 6; n++) await add(`large ${n}`, { workspaceId: "large" }, 100 - n);
      for (let n = 0; n < 3; n++) await add(`small ${n}`, { workspaceId: "small" }, n);
      // Three are free, so `large` is over its share and `small` is not.
      await add("b1", { workspaceId: "b" });
      expect(closed).to.deep.equal([]);
      await take({ workspaceId: "b" });
      expect(closed).to.deep.equal(["large 5"]);
      await take({ workspaceId: "b", agentId: "1" }).catch(() => undefined);
      expect(closed).to.deep.equal(["large 5", "large 4", "large 3"]);
      expect(pot.heldBy({ workspaceId: "small" })).to.equal(3);
    });

    it("and refuses without closing anything of others, when all of the caller's own is in use.", async () => {
      const pot = potOf(12);
      const { add, closed, take } = things(pot);
      for (let n = 0; n < 5; n++) await add(`used ${n}`, { workspaceId: "large" });
      await add("idle", { workspaceId: "small" }, 1);
      const refused = await take({ workspaceId: "large" }).catch((error: unknown) => error);
      expect(refused).to.be.instanceOf(Refused);
      expect(closed).to.deep.equal([]);
    });

    it("and ends, when closing releases nothing.", async () => {
      const pot = potOf(2);
      await pot.take({ workspaceId: "a" });
      const stuck = { holder: { workspaceId: "a" }, idleSinceMs: 1, close: async () => undefined };
      const refused = await pot.takeOneMakingRoom({ workspaceId: "a" }, () => [stuck]).catch((error: unknown) => error);
      expect(refused).to.be.instanceOf(Refused);
    });
  });
});
