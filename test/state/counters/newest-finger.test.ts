import { expect } from "chai";
import fc from "fast-check";
import { NewestFinger, type PlacedActions } from "../../../src/state/counters/newest-finger.ts";

/** Actions that count how often they are looked at. */
class Actions implements PlacedActions {
  layout = {};
  first = 0;
  looks = 0;
  readonly parties: number[] = [];

  get end(): number {
    return this.parties.length;
  }

  partyAt(place: number): number {
    this.looks += 1;
    return this.parties[place] as number;
  }

  /** Finds the nth newest action of a party by looking at all. */
  search(nth: number, party: number): number | undefined {
    const own = [...this.parties.keys()].filter((place) => place >= this.first && this.parties[place] === party);
    return own[own.length - nth];
  }
}

describe("a finger on the nth newest action", () => {
  it("finds what looking at all actions finds, while actions come, leave and change.", () => {
    const change = fc.oneof(
      { weight: 8, arbitrary: fc.record({ kind: fc.constant("add" as const), party: fc.nat(2) }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant("leave" as const), party: fc.nat(3) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("change" as const), party: fc.nat(2) }) },
      { weight: 5, arbitrary: fc.record({ kind: fc.constant("find" as const), party: fc.nat(2) }) },
    );
    const lives = fc.tuple(fc.integer({ min: 1, max: 6 }), fc.array(change, { maxLength: 60 }));
    fc.assert(
      fc.property(lives, ([nth, life]) => {
        const actions = new Actions();
        const finger = new NewestFinger();
        for (const { kind, party } of life) {
          if (kind === "add") actions.parties.push(party);
          else if (kind === "leave") actions.first = Math.min(actions.end, actions.first + party);
          else if (kind === "find") {
            expect(finger.find(actions, nth, (other) => other === 0)).to.equal(actions.search(nth, 0));
          } else if (actions.end > actions.first) {
            actions.parties[actions.end - 1] = party;
            actions.layout = {};
          }
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("looks at each action a bounded number of times, however often it is asked.", () => {
    const actions = new Actions();
    const finger = new NewestFinger();
    // Each third action is by the agent that exceeded its limit of 1,000.
    for (let count = 0; count < 30_000; count++) {
      actions.parties.push(count % 3);
      if (count % 3 === 0) finger.find(actions, 1_000, (party) => party === 0);
    }
    expect(actions.looks).to.be.below(5 * actions.end);
  });
});
