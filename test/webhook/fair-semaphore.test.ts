import { setImmediate as turn } from "node:timers/promises";
import { expect } from "chai";
import { FairSemaphore } from "../../src/webhook/fair-semaphore.ts";

const NEVER = new AbortController().signal;

/** Work that ends when it is told to. */
function openWork() {
  const ends: (() => void)[] = [];
  const names: string[] = [];
  const start = (name: string) => () => {
    names.push(name);
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  return {
    names,
    start,
    async endFirst() {
      ends.shift()?.();
      await turn();
    },
  };
}

describe("a fair semaphore", () => {
  it("lets no more in than it has places, and one key into half of them.", async () => {
    const semaphore = new FairSemaphore(4);
    const work = openWork();
    for (const name of ["a1", "a2", "a3", "b1", "b2", "c1"])
      void semaphore.run(name.charAt(0), NEVER, work.start(name));
    await turn();
    expect(work.names).to.deep.equal(["a1", "a2", "b1", "b2"]);
  });

  it("lets keys in by turns, however many wait of one.", async () => {
    const semaphore = new FairSemaphore(2);
    const work = openWork();
    for (const name of ["a1", "b1", "a2", "a3", "a4", "b2", "c1"])
      void semaphore.run(name.charAt(0), NEVER, work.start(name));
    await turn();
    for (let ended = 0; ended < 6; ended++) await work.endFirst();
    expect(work.names).to.deep.equal(["a1", "b1", "a2", "b2", "c1", "a3", "a4"]);
  });

  it("runs nothing for whoever gives up waiting, and keeps no place for it.", async () => {
    const semaphore = new FairSemaphore(2);
    const work = openWork();
    const giveUp = new AbortController();
    void semaphore.run("a", NEVER, work.start("a1"));
    const waiting = semaphore.run("a", giveUp.signal, async () => "ran");
    void semaphore.run("a", NEVER, work.start("a3"));
    await turn();
    giveUp.abort();
    expect(await waiting).to.equal(undefined);
    await work.endFirst();
    expect(work.names).to.deep.equal(["a1", "a3"]);
    expect(await semaphore.run("a", giveUp.signal, async () => "ran")).to.equal(undefined);
  });

  it("gives the place back when the work fails.", async () => {
    const semaphore = new FairSemaphore(2);
    const fail = () => Promise.reject(new Error("no"));
    const failed = await semaphore.run("a", NEVER, fail).catch((error: Error) => error.message);
    expect([failed, await semaphore.run("a", NEVER, async () => "ran")]).to.deep.equal(["no", "ran"]);
  });
});
