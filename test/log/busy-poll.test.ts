import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { type BusyPoll, createBusyPoll, RUNS_ALONE } from "../../src/log/busy-poll.ts";

const MOST_MS = 1;
const SHORT_MS = 0.4;
/** What a turn of the event loop takes while nothing happens in it. */
const TURN_MS = 0.05;

describe("a busy poll", () => {
  let nowMs: number;
  /** What the next turn of the event loop calls. */
  let scheduled: (() => void)[];
  let poll: BusyPoll;

  const open = (mostMs: number): BusyPoll =>
    createBusyPoll(mostMs, { now: () => nowMs, nextTurn: (next) => void scheduled.push(next) });
  beforeEach(() => {
    nowMs = 1_000;
    scheduled = [];
    poll = open(MOST_MS);
  });

  /** One turn of the event loop; gives how many polls keep the next one from sleeping. */
  function turn(): number {
    nowMs += TURN_MS;
    for (const next of scheduled.splice(0)) next();
    return scheduled.length;
  }

  function run(lengthMs: number, joining = 0): void {
    poll.begin();
    for (let count = 0; count < joining; count++) poll.join();
    for (const endMs = nowMs + lengthMs; nowMs < endMs; ) turn();
    poll.end();
    // The caller reads its answer and asks again.
    for (let count = 0; count < 4; count++) turn();
  }

  function runAlone(times: number): void {
    for (let count = 0; count < times; count++) run(SHORT_MS);
  }

  it("begins when some runs in a row were of one caller alone.", () => {
    runAlone(RUNS_ALONE - 1);
    poll.begin();
    expect(scheduled).to.have.length(0);
    poll.end();
    poll.begin();
    expect(scheduled).to.have.length(1);
    for (let count = 0; count < 5; count++) expect(turn()).to.equal(1);
  });

  it("ends with the run.", () => {
    runAlone(RUNS_ALONE);
    poll.begin();
    expect(turn()).to.equal(1);
    poll.end();
    expect(turn()).to.equal(0);
  });

  it("ends when its time is up.", () => {
    runAlone(RUNS_ALONE);
    poll.begin();
    const beganAt = nowMs;
    while (scheduled.length > 0) turn();
    expect(nowMs - beganAt).to.be.within(MOST_MS, MOST_MS + 2 * TURN_MS);
  });

  it("ends when another caller comes, and waits for some runs alone again.", () => {
    runAlone(RUNS_ALONE);
    poll.begin();
    poll.join();
    expect(turn()).to.equal(0);
    poll.end();
    runAlone(RUNS_ALONE - 1);
    expect(scheduled).to.have.length(0);
    run(SHORT_MS);
    poll.begin();
    expect(scheduled).to.have.length(1);
  });

  it("waits for some runs alone again after one that took longer than it may poll.", () => {
    runAlone(RUNS_ALONE);
    run(2 * MOST_MS);
    poll.begin();
    expect(scheduled).to.have.length(0);
  });

  it("polls once a turn, however soon the next run begins.", () => {
    runAlone(RUNS_ALONE);
    for (let count = 0; count < 5; count++) {
      poll.begin();
      poll.end();
    }
    poll.begin();
    expect(scheduled).to.have.length(1);
    expect(turn()).to.equal(1);
  });

  it("never polls without time to do so.", () => {
    poll = open(0);
    runAlone(2 * RUNS_ALONE);
    poll.begin();
    expect(scheduled).to.have.length(0);
  });

  it("keeps a process from sleeping.", async () => {
    poll = createBusyPoll(20);
    for (let count = 0; count < RUNS_ALONE; count++) {
      poll.begin();
      poll.end();
    }
    poll.begin();
    const before = performance.eventLoopUtilization();
    await delay(5);
    const { idle } = performance.eventLoopUtilization(before);
    poll.end();
    expect(idle).to.equal(0);
  });
});
