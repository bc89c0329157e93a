import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import { LargeRequests } from "../../src/server/large-requests.ts";

/** Keeps the event loop busy. */
function work(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe("the turns of large requests", () => {
  it("come one at a time, workspace by workspace.", async () => {
    const turns = new LargeRequests();
    const order: string[] = [];
    const step = (workspaceId: string, name: string) => turns.turn(workspaceId).then(() => void order.push(name));
    await Promise.all([step("a", "a1"), step("a", "a2"), step("a", "a3"), step("b", "b1"), step("c", "c1")]);
    expect(order).to.deep.equal(["a1", "b1", "c1", "a2", "a3"]);
    await step("a", "a4");
    expect(order.at(-1)).to.equal("a4");
  });

  it("leave turns of the event loop to everything else between two steps, also to steps that are asked for meanwhile.", async () => {
    const turns = new LargeRequests();
    const stepsBetween: number[] = [];
    let steps = 0;
    let isDone = false;
    const others = (async () => {
      for (let before = 0; !isDone; before = steps) {
        await setImmediate();
        stepsBetween.push(steps - before);
      }
    })();
    const request = async (): Promise<void> => {
      for (let count = 0; count < 3; count++) {
        await turns.turn("a");
        steps++;
        work(4);
      }
    };
    await Promise.all(Array.from({ length: 10 }, request));
    isDone = true;
    await others;
    expect(steps).to.equal(30);
    expect(Math.max(...stepsBetween)).to.equal(1);
    // The loop rests after each step as long as the step took, and turns many times meanwhile.
    expect(stepsBetween.length).to.be.above(3 * steps);
  });
});
