import { expect } from "chai";
import type { DatabaseClock } from "../../src/log/clock.ts";
import { WorkspaceLog } from "../../src/log/writer.ts";
import { VelocityWindows } from "../../src/state/counters/windows.ts";
import { loadState } from "../../src/state/load.ts";
import { attempt, openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";

/** Entries that the window holds at each of its ends; what lies between is only counted. */
const KEPT = 4;
const WINDOW_MS = 1_000;

/** A clock that stands still until a test has it tick at every look. */
interface SteppedClock extends DatabaseClock {
  nowMs: number;
  tickMs: number;
}

function createSteppedClock(): SteppedClock {
  return {
    nowMs: Date.now() + 60_000,
    tickMs: 0,
    now() {
      this.nowMs += this.tickMs;
      return this.nowMs;
    },
    observe: () => undefined,
  };
}

describe("a window whose counted entries are about to leave", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  let clock: SteppedClock;
  beforeEach(async () => {
    workspace = await openWorkspace();
    agentId = await workspace.agent();
    await workspace.mandate([velocityRule(1_000, { windowSeconds: BigInt(WINDOW_MS / 1_000) })]);
    clock = createSteppedClock();
  });
  afterEach(async () => {
    assertIntact(await readLog(workspace.url));
    await workspace.close();
  });

  const pay = (log: WorkspaceLog) => attempt(log, { agentId, actionType: "pay" });

  /** Opens a log whose windows hold few entries, on the workspace's database. */
  async function openLog(connecting: () => Promise<unknown> = async () => undefined): Promise<WorkspaceLog> {
    const { database } = workspace;
    const state = await loadState(database.pool, "default");
    const windows = new VelocityWindows(state.departments, "default", { kept: KEPT, minKept: KEPT });
    windows.require(state.policies.counters(), state.seq);
    const pool = new Proxy(database.pool, {
      get(target, name) {
        const value = Reflect.get(target, name) as unknown;
        if (name === "connect") return () => connecting().then(() => target.connect());
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    return new WorkspaceLog({ ...database, pool }, { ...state, windows }, clock);
  }

  /** Pays until some entries are held and later ones only counted; gives the time at which the held ones leave. */
  async function fill(log: WorkspaceLog): Promise<number> {
    for (let paid = 0; paid < KEPT; paid++) await pay(log);
    const leavesAtMs = clock.nowMs + WINDOW_MS;
    clock.nowMs += 100;
    for (let paid = 0; paid <= KEPT; paid++) await pay(log);
    return leavesAtMs;
  }

  /** Asserts that every payment counted those of the second before it. */
  async function assertExact(): Promise<void> {
    const stored = await readLog(workspace.url);
    const times = stored.entries.filter(({ kind }) => kind === 0).map(({ atMs }) => atMs);
    const counts = decisionsOf(stored).map(({ authorisation }) => authorisation.collective_limits?.[0]?.count);
    const want = times.map((now, index) => times.slice(0, index + 1).filter((at) => at > now - WINDOW_MS).length);
    expect(counts).to.deep.equal(want);
  }

  for (const leadMs of [1, 2, 3, 4]) {
    it(`is read back in time when the last look at the clock is the first too late (${leadMs}).`, async () => {
      const log = await openLog();
      clock.nowMs = (await fill(log)) - 1 - leadMs;
      clock.tickMs = 1;
      await pay(log);
      clock.tickMs = 0;
      await assertExact();
    });
  }

  it("leaves events in the order of the log when the wait for a connection was too long.", async () => {
    let isOvertaken = false;
    // On a busy machine, deciding two actions can take too long for one batch; then nothing waits for a second connection.
    while (!isOvertaken) {
      clock.nowMs += 2 * WINDOW_MS;
      let wait: (() => Promise<unknown>) | undefined;
      const log = await openLog(async () => {
        const once = wait;
        wait = undefined;
        await once?.();
      });
      const heard: number[] = [];
      log.subscribe((events) => heard.push(...events.map(({ seq }) => seq)));
      const leavesAtMs = await fill(log);
      const { seq } = await log.caughtUp();
      heard.length = 0;
      const late: Promise<unknown>[] = [];
      const firsts = Array.from({ length: 2 }, () => pay(log));
      wait = async () => {
        // Asked for while the first batch is on its way, and too few to follow it.
        setImmediate(() => late.push(pay(log)));
        wait = async () => {
          await workspace.intercept({ agentId, actionType: "pay" });
          clock.nowMs = leavesAtMs;
          isOvertaken = true;
        };
      };
      await Promise.all(firsts);
      await Promise.all(late);
      await log.caughtUp();
      expect(heard).to.deep.equal([seq, seq + 1, seq + 2, ...(isOvertaken ? [seq + 3] : [])]);
      await assertExact();
    }
  });
});
