import { setTimeout as pause } from "node:timers/promises";
import { expect } from "chai";
import { whileHeld } from "../../src/dryrun/own-state.ts";
import { reasonOf } from "../support/harness.ts";

describe("room that a dry run holds", () => {
  const { signal } = new AbortController();
  let releases: number;
  let isOver: boolean;

  beforeEach(() => {
    releases = 0;
    isOver = false;
  });

  async function* three(): AsyncGenerator<number> {
    try {
      for (const each of [1, 2, 3]) yield each;
    } finally {
      isOver = true;
    }
  }
  const release = (): void => {
    releases += 1;
  };
  const held = (readerMs: number): AsyncGenerator<number> =>
    whileHeld(Promise.resolve(release), signal, three, readerMs);

  it("is freed with the run's state when a message is not read in time, and the reader is told.", async () => {
    const stream = held(20);
    expect((await stream.next()).value).to.equal(1);
    expect([isOver, releases]).to.deep.equal([false, 0]);
    await pause(100);
    expect([isOver, releases]).to.deep.equal([true, 1]);
    expect(await reasonOf(stream.next())).to.equal("DEADLINE_EXCEEDED");
    expect(releases).to.equal(1);
  });

  it("is held while messages are read, and freed once at the end.", async () => {
    const read: number[] = [];
    for await (const each of held(60_000)) read.push(each);
    expect(read).to.deep.equal([1, 2, 3]);
    expect([isOver, releases]).to.deep.equal([true, 1]);
  });

  it("is freed once when the reader leaves.", async () => {
    const stream = held(20);
    await stream.next();
    await stream.return(undefined);
    await pause(50);
    expect([isOver, releases]).to.deep.equal([true, 1]);
  });
});
