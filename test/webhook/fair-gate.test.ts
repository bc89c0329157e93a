import { setImmediate as turn } from "node:timers/promises";
import { expect } from "chai";
import { createFairGate } from "../../src/webhook/fair-gate.ts";

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

describe("createFairGate", () => {
  it("lets no more in than it has places, and one key into half of them.", async () => {
    const gate = createFairGate(4);
    const work = openWork();
    for (const name of ["a1", "a2", "a3", "b1", "b2", "c1"]) void gate.run(name.charAt(0), NEVER, work.start(name));
    await turn();
    expect(work.names).to.deep.equal(["a1", "a2", "b1", "b2"]);
  });

  it("lets keys in by turns, however many wait of one.", async () => {
    const gate = createFairGate(2);
    const work = openWork();
    for (const name of ["a1", "b1", "a2", "a3", "a4", "b2", "c1"])
      void gate.run(name.charAt(0), NEVER, work.start(name));
    await turn();
    for (let ended = 0; ended < 6; ended++) await work.endFirst();
    expect(work.names).to.deep.equal(["a1", "b1", "a2", "b2", "c1", "a3", "a4"]);
  });

  it("runs nothing for whoever gives up waiting, and keeps no place for it.", async () => {
    const gate = createFairGate(2);
    const work = openWork();
    const giveUp = new AbortController();
    void gate.run("a", NEVER, work.start("a1"));
    const waiting = gate.run("a", giveUp.signal, async () => "ran");
    void gate.run("a", NEVER, work.start("a3"));
    await turn();
    giveUp.abort();
    expect(await waiting).to.equal(undefined);
    await work.endFirst();
    expect(work.names).to.deep.equal(["a1", "a3"]);
    expect(await gate.run("a", giveUp.signal, async () => "ran")).to.equal(undefined);
  });

  it("gives the place back when the work fails.", async () => {
    const gate = createFairGate(2);
    const fail = () => Promise.reject(new Error("no"));
    const failed = await gate.run("a", NEVER, fail).catch((error: Error) => error.message);
    expect([failed, await gate.run("a", NEVER, async () => "ran")]).to.deep.equal(["no", "ran"]);
  });
});
