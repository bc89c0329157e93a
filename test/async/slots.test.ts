import { setImmediate as turn } from "node:timers/promises";
import { expect } from "chai";
import type { Release } from "../../src/async/semaphore.ts";
import type { ShareRefusal } from "../../src/async/shared-pot.ts";
import { Slots } from "../../src/async/slots.ts";

class Refused extends Error {
  readonly refusal: ShareRefusal;
  constructor(refusal: ShareRefusal) {
    super(refusal.pot);
    this.refusal = refusal;
  }
}

function watchedSlots(permits: number, size: number) {
  const slots = new Slots({
    name: "calls",
    permits,
    size,
    unit: "calls",
    advice: "make fewer",
    retryAfterSeconds: 3,
    refuse: (refusal) => new Refused(refusal),
  });
  const admitted: string[] = [];
  const refused: string[] = [];
  const releases: Release[] = [];
  return {
    slots,
    admitted,
    refused,
    /** Has callers ask one after the other. The first letter of a caller's name is its workspace, letters before its number its agent. */
    async ask(...names: readonly string[]): Promise<void> {
      for (const name of names) {
        slots.acquire({ workspaceId: name.charAt(0), agentId: name.slice(1, -1) || undefined }).then(
          (release) => {
            admitted.push(name);
            releases.push(release);
          },
          () => void refused.push(name),
        );
      }
      await turn();
    },
    async releaseFirst(): Promise<void> {
      releases.shift()?.();
      await turn();
    },
  };
}

describe("slots", () => {
  it("are shared: one workspace alone has half of the places, and a third is served while two have theirs.", async () => {
    const { ask, releaseFirst, admitted, refused } = watchedSlots(4, 12);
    await ask("a1", "a2", "a3", "a4", "a5", "a6", "a7");
    expect([admitted, refused]).to.deep.equal([["a1", "a2"], ["a7"]]);
    await ask("b1", "b2", "b3", "b4");
    expect([admitted, refused]).to.deep.equal([
      ["a1", "a2", "b1"],
      ["a7", "b4"],
    ]);
    await ask("c1");
    expect(admitted).to.deep.equal(["a1", "a2", "b1", "c1"]);
    await releaseFirst();
    await releaseFirst();
    expect(admitted).to.deep.equal(["a1", "a2", "b1", "c1", "a3"]);
    await ask("c2");
    expect(refused).to.deep.equal(["a7", "b4"]);
  });

  it("serve the agents of a workspace in turn, in the turns of the workspace.", async () => {
    const { ask, releaseFirst, admitted } = watchedSlots(1, 100);
    await ask("ax1", "ax2", "ax3", "ay1", "b1");
    for (let ended = 0; ended < 4; ended++) await releaseFirst();
    expect(admitted).to.deep.equal(["ax1", "ax2", "b1", "ay1", "ax3"]);
  });

  it("say what a refused caller holds, and take nothing for one that is refused or gives up.", async () => {
    const { slots } = watchedSlots(1, 4);
    const holder = { workspaceId: "a" };
    const release = await slots.acquire(holder);
    const giving = new AbortController();
    const waiting = slots.acquire(holder, giving.signal).catch((error: unknown) => error);
    const refused: unknown = await slots.acquire(holder).catch((error: unknown) => error);
    expect((refused as Refused).refusal).to.deep.include({ pot: "calls", party: "workspace", held: 2, most: 2 });
    expect(await slots.acquireIfRoom(holder)).to.equal(undefined);
    const reason = new Error("left");
    giving.abort(reason);
    expect(await waiting).to.equal(reason);
    const next = slots.run(async () => "ran", holder);
    release();
    expect(await next).to.equal("ran");
    (await slots.acquireIfRoom(holder))?.();
    expect(await slots.run(async () => "ran", holder)).to.equal("ran");
  });
});
