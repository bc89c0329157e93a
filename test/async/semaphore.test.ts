import { getEventListeners } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { expect } from "chai";
import { type Release, Semaphore, type SemaphoreOptions } from "../../src/async/semaphore.ts";

/**
 * A semaphore, and its callers as they get their permits. The first letter of a caller's name is its key; letters between that and its
 * number are its member.
 */
function watchedSemaphore(options: SemaphoreOptions) {
  const semaphore = new Semaphore(options);
  const admitted: string[] = [];
  const refused: string[] = [];
  const releases: Release[] = [];
  const ask = async (name: string, signal?: AbortSignal): Promise<void> => {
    const release = await semaphore.acquire({ key: name.charAt(0), member: name.slice(1, -1), signal });
    if (release === undefined) refused.push(name);
    else {
      admitted.push(name);
      releases.push(release);
    }
  };
  return {
    admitted,
    refused,
    /** Has callers ask one after the other. */
    async ask(...names: readonly string[]): Promise<void> {
      for (const name of names) void ask(name);
      await turn();
    },
    /** Has a caller ask that can give up. Returns the function that makes it. */
    async askFor(name: string): Promise<() => Promise<void>> {
      const caller = new AbortController();
      void ask(name, caller.signal);
      await turn();
      return async () => {
        caller.abort();
        await turn();
      };
    },
    /** Releases the permit that was acquired first. */
    async releaseFirst(): Promise<void> {
      releases.shift()?.();
      await turn();
    },
  };
}

describe("a semaphore", () => {
  it("gives permits in the order of the callers, and lets nobody overtake one who waits.", async () => {
    const { ask, askFor, releaseFirst, admitted, refused } = watchedSemaphore({ permits: 1 });
    await ask("a1");
    const giveUp = await askFor("a2");
    await ask("a3");
    expect(admitted).to.deep.equal(["a1"]);
    await giveUp();
    expect(refused).to.deep.equal(["a2"]);
    await Promise.all([releaseFirst(), ask("a4")]);
    expect(admitted).to.deep.equal(["a1", "a3"]);
    await releaseFirst();
    expect(admitted).to.deep.equal(["a1", "a3", "a4"]);
  });

  it("refuses a caller when too many of its key wait, and admits callers of other keys to wait.", async () => {
    const { ask, releaseFirst, admitted, refused } = watchedSemaphore({ permits: 1, maxWaiting: 2 });
    await ask("a1", "a2", "a3", "a4", "b1");
    expect([admitted, refused]).to.deep.equal([["a1"], ["a4"]]);
    await releaseFirst();
    await ask("a5", "a6");
    expect([admitted, refused]).to.deep.equal([
      ["a1", "a2"],
      ["a4", "a6"],
    ]);
  });

  it("lets no more in than it has permits, and one key to no more than are free then, but one in any case.", async () => {
    const { ask, releaseFirst, admitted } = watchedSemaphore({ permits: 6 });
    await ask("a1", "a2", "a3", "a4", "b1", "b2", "c1", "d1", "e1");
    expect(admitted).to.deep.equal(["a1", "a2", "a3", "b1", "c1", "d1"]);
    await releaseFirst();
    expect(admitted).to.deep.equal(["a1", "a2", "a3", "b1", "c1", "d1", "e1"]);
  });

  it("lets one key to no more than its own maximum.", async () => {
    const { ask, releaseFirst, admitted } = watchedSemaphore({ permits: Number.POSITIVE_INFINITY, maxPerKey: 2 });
    await ask("a1", "a2", "a3", "b1");
    expect(admitted).to.deep.equal(["a1", "a2", "b1"]);
    await releaseFirst();
    expect(admitted).to.deep.equal(["a1", "a2", "b1", "a3"]);
  });

  it("lets keys in by turns, however many wait of one.", async () => {
    const { ask, releaseFirst, admitted } = watchedSemaphore({ permits: 2, maxPerKey: 1 });
    await ask("a1", "b1", "a2", "a3", "a4", "b2", "c1");
    for (let ended = 0; ended < 6; ended++) await releaseFirst();
    expect(admitted).to.deep.equal(["a1", "b1", "a2", "b2", "c1", "a3", "a4"]);
  });

  it("lets the members of a key in by turns, in the turns of their key.", async () => {
    const { ask, askFor, releaseFirst, admitted } = watchedSemaphore({ permits: 1 });
    await ask("ax1", "ax2", "ax3", "ax4");
    const giveUp = await askFor("ay1");
    await ask("ay2", "b1", "ay3", "az1");
    await giveUp();
    for (let ended = 0; ended < 8; ended++) await releaseFirst();
    expect(admitted).to.deep.equal(["ax1", "ax2", "b1", "ay2", "az1", "ax3", "ay3", "ax4"]);
  });

  it("keeps no permit and no listener for a caller that gave up.", async () => {
    const semaphore = new Semaphore({ permits: 1 });
    const { signal } = new AbortController();
    const release = await semaphore.acquire({ signal });
    expect(semaphore.isIdle).to.equal(false);
    const waiting = semaphore.acquire({ signal });
    expect(getEventListeners(signal, "abort")).to.have.length(1);
    release?.();
    (await waiting)?.();
    expect(getEventListeners(signal, "abort")).to.have.length(0);
    expect(semaphore.isIdle).to.equal(true);
    expect(await semaphore.acquire({ signal: AbortSignal.abort() })).to.equal(undefined);
    expect(semaphore.isIdle).to.equal(true);
  });

  it("runs work with a permit, which it gets back when the work fails; and runs nothing for a caller that gave up.", async () => {
    const semaphore = new Semaphore({ permits: 1 });
    const failed = await semaphore.run(() => Promise.reject(new Error("no"))).catch((error: Error) => error.message);
    expect([failed, await semaphore.run(async () => "ran")]).to.deep.equal(["no", "ran"]);
    expect(await semaphore.run(async () => "ran", { signal: AbortSignal.abort() })).to.equal(undefined);
  });
});
