import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import { nextTurn, Turns } from "../../src/async/turns.ts";

/** Keeps the event loop busy. */
function work(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** Counts the turns that the event loop takes for others until `work` ends. */
async function turnsDuring(work: Promise<void>): Promise<number> {
  let isDone = false;
  const done = work.then(() => {
    isDone = true;
  });
  let turns = 0;
  for (; !isDone; turns++) await setImmediate();
  await done;
  return turns;
}

describe("a turn of the event loop", () => {
  it("serves what was ready before it.", async () => {
    const served: string[] = [];
    process.nextTick(() => served.push("tick"));
    void Promise.resolve().then(() => served.push("microtask"));
    const callback = new Promise<void>((resolve) => {
      globalThis.setImmediate(() => {
        served.push("callback");
        resolve();
      });
    });
    await nextTurn();
    expect(served).to.deep.equal(["tick", "microtask", "callback"]);
    await callback;
  });
});

describe("work in turns", () => {
  it("gives way once it has used up its turn, and not before.", async () => {
    const turns = new Turns(20);
    expect(turns.isOver).to.equal(false);
    expect(await turnsDuring(turns.giveWay())).to.be.below(2);
    work(21);
    expect(turns.isOver).to.equal(true);
    await turns.giveWay();
    expect(turns.isOver).to.equal(false);
  });

  it("lets others have a turn after each of its own.", async () => {
    const steps = async (): Promise<void> => {
      const turns = new Turns(1);
      for (let count = 0; count < 20; count++) {
        work(2);
        await turns.giveWay();
      }
    };
    expect(await turnsDuring(steps())).to.be.within(19, 40);
  });
});
