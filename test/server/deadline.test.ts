import { expect } from "chai";
import { createDeadlineWheel, type DeadlineEntry } from "../../src/server/deadline.ts";

class Entry implements DeadlineEntry {
  readonly deadlineAt: number;
  wheelPrevious: DeadlineEntry | null = null;
  wheelNext: DeadlineEntry | null = null;
  firedAt: number | undefined = undefined;
  readonly fired: Promise<void>;
  #settle: () => void = () => {};

  constructor(afterMs: number) {
    this.deadlineAt = performance.now() + afterMs;
    this.fired = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  onDeadline(): void {
    this.firedAt = performance.now();
    this.#settle();
  }
}

describe("createDeadlineWheel", () => {
  it("fires every entry, none before it is due", async () => {
    const wheel = createDeadlineWheel();
    const entries = Array.from({ length: 200 }, (_, index) => new Entry(index % 70));
    for (const entry of entries) wheel.add(entry);
    await Promise.all(entries.map(({ fired }) => fired));
    for (const { deadlineAt, firedAt } of entries) expect(firedAt).to.be.at.least(deadlineAt);
  });

  it("fires an entry that was due before it came", async () => {
    const wheel = createDeadlineWheel();
    const entry = new Entry(-1_000);
    wheel.add(entry);
    await entry.fired;
  });

  it("never fires an entry that was removed, and keeps its neighbours", async () => {
    const wheel = createDeadlineWheel();
    const entries = Array.from({ length: 30 }, () => new Entry(10));
    for (const entry of entries) wheel.add(entry);
    const removed = entries.filter((_, index) => index % 3 === 0);
    for (const entry of removed) wheel.remove(entry);
    for (const entry of removed) wheel.remove(entry);
    const last = new Entry(40);
    wheel.add(last);
    await last.fired;
    expect(entries.filter(({ firedAt }) => firedAt === undefined)).to.deep.equal(removed);
  });

  it("passes over an entry that is due in a later round", async () => {
    const wheel = createDeadlineWheel();
    const far = new Entry(5 * 1024 + 20);
    const near = new Entry(60);
    wheel.add(far);
    wheel.add(near);
    await near.fired;
    expect(far.firedAt).to.equal(undefined);
    wheel.remove(far);
  });

  it("runs again after it fell idle", async () => {
    const wheel = createDeadlineWheel();
    for (let round = 0; round < 3; round++) {
      const entry = new Entry(5);
      wheel.add(entry);
      await entry.fired;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });

  it("lets an entry take another one out while it fires", async () => {
    const wheel = createDeadlineWheel();
    const second = new Entry(10);
    const first = new (class extends Entry {
      override onDeadline(): void {
        wheel.remove(second);
        super.onDeadline();
      }
    })(9);
    wheel.add(first);
    wheel.add(second);
    await first.fired;
    const last = new Entry(20);
    wheel.add(last);
    await last.fired;
    expect(second.firedAt).to.equal(undefined);
  });
});
