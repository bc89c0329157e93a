import { expect } from "chai";
import type { CounterSpec } from "../../../src/policy/types.ts";
import type { HistoryEntry } from "../../../src/state/counters/log-history.ts";
import { VelocityWindows } from "../../../src/state/counters/windows.ts";
import { AGENTS, counterSpec, DEPARTMENTS, membershipOf, naiveCount, naiveHistory } from "./naive-log.ts";

const MOST_KEPT = 4;
const MEMBERSHIP = membershipOf(DEPARTMENTS);
const SPECS: readonly CounterSpec[] = [
  counterSpec(),
  counterSpec({ scope: "department", windowMs: 700 }),
  counterSpec({ scope: "workspace", windowMs: 500 }),
  counterSpec({ scope: "workspace", key: "pay* allow", countDecisions: ["allow"] }),
];

describe("velocity windows", () => {
  let log: HistoryEntry[];
  let windows: VelocityWindows;

  /** Windows that have read none of the log yet. */
  function create(specs: readonly CounterSpec[], kept = MOST_KEPT): void {
    windows = new VelocityWindows(MEMBERSHIP, "workspace-1", { kept, minKept: 1 });
    windows.require(specs, log.length);
  }

  const entryAt = (at: number, agentId = "a"): HistoryEntry => ({ at, agentId, actionType: "pay", decision: "allow" });

  function record(entry: HistoryEntry, undo?: (() => void)[]): void {
    log.push(entry);
    windows.record(entry, undo);
  }

  function complete(now: number, page = 2): void {
    for (let missing = windows.missing(now, log.length); missing; missing = windows.missing(now, log.length)) {
      windows.load(missing, naiveHistory(log, missing, page));
    }
  }

  const counts = (specs: readonly CounterSpec[], now: number) =>
    specs.flatMap((spec) => AGENTS.map((agentId) => windows.read(spec, agentId, now).count));
  const naiveCounts = (specs: readonly CounterSpec[], now: number) =>
    specs.flatMap((spec) => AGENTS.map((agentId) => naiveCount(log, spec, MEMBERSHIP, agentId, now)));

  beforeEach(() => {
    log = [];
  });

  it("are ready when there are none.", () => {
    create([]);
    expect(windows.isReady(1_000)).to.equal(true);
  });

  it("are not ready before any of them has its history, and are with it.", () => {
    log.push(entryAt(900));
    create(SPECS, 100);
    expect(windows.isReady(1_000)).to.equal(false);
    complete(1_000);
    expect(windows.isReady(1_000)).to.equal(true);
    windows.require([...SPECS, counterSpec({ windowMs: 5_000 })], log.length);
    expect(windows.isReady(1_000)).to.equal(false);
  });

  it("are not ready when a window holds as much as it may keep, until that is put in order.", () => {
    create([counterSpec()]);
    complete(1_000);
    for (let count = 0; count < MOST_KEPT; count++) {
      expect(windows.isReady(1_000)).to.equal(true);
      record(entryAt(1_000));
    }
    expect(windows.isReady(1_000)).to.equal(false);
    complete(1_000);
    expect(windows.isReady(1_000)).to.equal(true);
    expect(counts([counterSpec()], 1_000)).to.deep.equal(naiveCounts([counterSpec()], 1_000));
  });

  it("are ready again when what filled them has left.", () => {
    create([counterSpec()]);
    complete(1_000);
    for (let count = 0; count < MOST_KEPT; count++) record(entryAt(1_000 + count));
    expect(windows.isReady(1_003)).to.equal(false);
    record(entryAt(2_002));
    expect(windows.isReady(2_002)).to.equal(true);
  });

  it("are not ready from the moment on when entries leave that are not held.", () => {
    create([counterSpec()]);
    complete(1_000);
    for (let at = 1_000; at < 1_012; at++) {
      if (!windows.isReady(at)) complete(at);
      record(entryAt(at));
    }
    complete(1_011);
    expect(windows.isReady(2_003 - 1)).to.equal(true);
    expect(windows.isReady(2_003)).to.equal(false);
    complete(2_003);
    expect(windows.isReady(2_003)).to.equal(true);
    expect(counts([counterSpec()], 2_003)).to.deep.equal(naiveCounts([counterSpec()], 2_003));
  });

  it("have the counts from before when two journals are undone, the later first.", () => {
    for (const kept of [100, 4 * MOST_KEPT]) {
      log = AGENTS.flatMap((agentId, index) => [entryAt(800 + index, agentId), entryAt(950, agentId)]).sort(
        (one, other) => one.at - other.at,
      );
      create(SPECS, kept);
      complete(1_000);
      const durable = [...log];
      const journals = [1_000, 1_250].map((at) => {
        const undo: (() => void)[] = [];
        for (const agentId of ["b", "a", "b"]) {
          counts(SPECS, at);
          record(entryAt(at, agentId), undo);
          record({ ...entryAt(at, agentId), decision: "block" }, undo);
        }
        expect(counts(SPECS, at)).to.deep.equal(naiveCounts(SPECS, at));
        return undo;
      });
      for (const undo of journals.reverse()) for (const rollback of undo.reverse()) rollback();
      log = durable;
      expect(counts(SPECS, 1_250)).to.deep.equal(naiveCounts(SPECS, 1_250));
      record(entryAt(1_400, "a"));
      complete(1_400);
      expect(counts(SPECS, 1_400)).to.deep.equal(naiveCounts(SPECS, 1_400));
    }
  });

  it("have the counts of the first journal when only the second is undone.", () => {
    create(SPECS, 100);
    complete(1_000);
    record(entryAt(1_000, "a"), []);
    const second: (() => void)[] = [];
    const durable = [...log];
    record(entryAt(1_400, "b"), second);
    record(entryAt(1_400, "a"), second);
    for (const rollback of second.reverse()) rollback();
    log = durable;
    expect(counts(SPECS, 1_400)).to.deep.equal(naiveCounts(SPECS, 1_400));
  });
});
