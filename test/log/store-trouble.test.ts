import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { decide, steps } from "../../src/decision/decide.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { findEscalationPage } from "../../src/escalation/escalation.ts";
import { EscalationFeed } from "../../src/escalation/feed.ts";
import { waitEscalation, watchEscalations } from "../../src/escalation/watch.ts";
import { createDatabaseClock } from "../../src/log/clock.ts";
import type { Decide } from "../../src/log/queue.ts";
import { readReceipt } from "../../src/log/read-receipts.ts";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { WorkspaceLog } from "../../src/log/writer.ts";
import { loadState } from "../../src/state/load.ts";
import type { Action } from "../../src/state/types.ts";
import type { StateJournal } from "../../src/state/workspace.ts";
import { openDatabase } from "../../src/store/database.ts";
import { idFromUuid } from "../../src/store/ids.ts";
import { cutConnections, SILENT_LOG, withClient } from "../support/database.ts";
import { decideOn } from "../support/decide-on.ts";
import {
  actionOf,
  actionRule,
  attempt,
  type Replica,
  reasonOf,
  settled,
  type TestWorkspace,
  velocityRule,
  withWorkspace,
} from "../support/harness.ts";
import { coldState, comparable, foldedState } from "./comparable.ts";
import { startGate, until } from "./gate.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";
import { openWatchedLog, whileHeld } from "./watched-log.ts";

const CALLERS = 30;
const TURNS = 25;
const CUTS = 6;

async function assertStatesEqual(workspace: TestWorkspace): Promise<void> {
  const { pool } = workspace.database;
  const { lastAtMs } = await workspace.log.caughtUp();
  const folded = await comparable(pool, await foldedState(pool), lastAtMs);
  expect(await comparable(pool, await coldState(pool), lastAtMs)).to.deep.equal(folded);
  for (const { log } of workspace.replicas) {
    expect(await comparable(pool, await log.caughtUp(), lastAtMs)).to.deep.equal(folded);
  }
}

/** A call that is asked again with the same `request_id` until it is answered; counts the faults on the way. */
async function insist<T>(call: () => Promise<T>, faults: string[]): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ControlPlaneError)) throw error;
      faults.push(ErrorReason[error.reason] as string);
    }
  }
}

describe("a database that cuts every connection under load", () => {
  it("costs callers a STORE_UNAVAILABLE at most; the log stays whole and every request is decided once.", () =>
    withWorkspace({ replicas: 2 }, async (workspace) => {
      const agentIds = [await workspace.agent(), await workspace.agent(), await workspace.agent()];
      await workspace.mandate([velocityRule(200)]);
      const faults: string[] = [];
      const requestIds: string[] = [];
      let left = CALLERS;
      const caller = async (number: number): Promise<void> => {
        const replica = workspace.replicas[number % 2] as Replica;
        for (let turn = 0; turn < TURNS; turn++) {
          const requestId = randomUUID();
          requestIds.push(requestId);
          const request = { agentId: agentIds[turn % 3] as string, actionType: "pay", requestId };
          await insist(() => workspace.intercept(request, replica), faults);
          // Changes meet the cuts as well; one whose fate is unknown may come twice.
          if (turn % 8 === 0) await insist(() => replica.agents.registerAgent({ name: "late" }), faults);
        }
        left -= 1;
      };
      const callers = Promise.all(Array.from({ length: CALLERS }, (_, number) => caller(number)));
      for (let cut = 0; cut < CUTS && left > 0; cut++) {
        await cutConnections(workspace.url);
        await workspace.log.saveTrust().catch(() => undefined);
      }
      await callers;
      expect(faults.filter((fault) => fault !== "STORE_UNAVAILABLE")).to.deep.equal([]);
      const log = await readLog(workspace.url);
      assertIntact(log);
      expect(decisionsOf(log)).to.have.length(requestIds.length);
      await assertStatesEqual(workspace);
    }));
});

/**
 * Fails the commit of a batch under the lock, and checks that none of the actions is sealed whose callers were told so. Resolves with
 * whether one batch held them all: on a busy machine the last ones come with a batch of their own, which succeeds.
 */
async function failUnderLock(): Promise<boolean> {
  return withWorkspace({}, async (workspace) => {
    const agentId = await workspace.agent();
    const { pool } = workspace.database;
    const faults = [new Error("the disk is full")];
    const failing = new Proxy(pool, {
      get(_, name) {
        const value = Reflect.get(pool, name) as unknown;
        if (name !== "connect") return typeof value === "function" ? value.bind(pool) : value;
        return async () => {
          const client = await pool.connect();
          const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
          const failingQuery = async (...args: unknown[]) => {
            const fault = args[0] === "commit" ? faults.pop() : undefined;
            if (fault !== undefined) throw fault;
            return query(...args);
          };
          return Object.assign(Object.create(client), { query: failingQuery, release: client.release.bind(client) });
        };
      },
    });
    const log = new WorkspaceLog(
      { ...workspace.database, pool: failing },
      await loadState(pool, "default"),
      workspace.clock,
    );
    const action = () => actionOf({ agentId, actionType: "pay" });
    // Decided by another replica, so that the batch that holds it fails and goes to the lock.
    const known = { ...action(), isRetryable: true, decisionId: idFromUuid("dec", randomUUID()) };
    await decideOn(workspace.log, known);
    /** Takes no time before the lock, and all of a batch's under it. */
    const slowly = (): { action: Action; decide: Decide } => {
      const decided = action();
      let times = 0;
      const decideSlowly: Decide = (state, nowMs, journal) => {
        const until = performance.now() + (times++ === 0 ? 0 : 20);
        while (performance.now() < until);
        return decide(state, decided, nowMs, journal);
      };
      return { action: decided, decide: decideSlowly };
    };
    const slow = [slowly(), slowly(), slowly()];
    const results = await Promise.allSettled([
      decideOn(log, known),
      ...slow.map((each) => log.append(each.action, { ...steps(each.action), decide: each.decide }, () => false)),
    ]);
    const [ofKnown, ofFirst, ...others] = results.map(({ status }) => status);
    expect([ofKnown, ofFirst]).to.deep.equal(["fulfilled", "rejected"]);
    await log.idle();
    const sealed = decisionsOf(await readLog(workspace.url)).map(({ decision_id }) => decision_id);
    const later = slow.slice(1).filter((_, index) => others[index] === "fulfilled");
    expect(sealed).to.have.members([known.decisionId, ...later.map(({ action: { decisionId } }) => decisionId)]);
    return later.length === 0;
  });
}

describe("a commit that fails under the lock of the log's end", () => {
  it("decides none of the actions whose callers were told so, those that the batch had no time for included.", async () => {
    for (let attempt = 1; !(await failUnderLock()); attempt++) expect(attempt).to.be.below(10);
  });
});

describe("a database that is away", () => {
  it("is STORE_UNAVAILABLE to callers that decide, read or start, and everything resumes when it is back.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      const gate = await startGate(workspace.url);
      const options = { poolSize: 3, log: SILENT_LOG };
      const database = await openDatabase({ url: gate.url, ...options });
      const logs = await createWorkspaceLogs(database, SILENT_LOG);
      const log = await logs.of("default");
      const signal = new AbortController().signal;
      const watch = {
        log,
        pool: database.pool,
        feed: new EscalationFeed(log, database.pool),
        heartbeatMs: 10,
        signal,
      };
      const calls: readonly (() => Promise<unknown>)[] = [
        () => attempt(log, { agentId, actionType: "read" }),
        () => log.caughtUp(),
        () => log.change("key_test", async () => undefined),
        () => readReceipt(database.pool, "default", "dec_x"),
        () =>
          findEscalationPage(
            { log, pool: database.pool },
            { status: null, agentId: null, resolvedBy: null, before: null, size: 1, bytes: 1 },
          ),
        () => waitEscalation(watch, "esc_x", null).next(),
        () => watchEscalations(watch, "").next(),
        async () => await logs.of("other"),
      ];
      gate.shut();
      for (const call of calls) expect(await reasonOf(call())).to.equal("STORE_UNAVAILABLE");
      gate.open();
      for (const call of calls.slice(0, 5)) await call();
      await logs.close();
      await database.close();
      gate.close();
      assertIntact(await readLog(workspace.url));
    }));
});

describe("a call that the database did not answer", () => {
  it("is to be retried with the same `request_id` where it has one, and else just retried.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      const request = { agentId, actionType: "read" };
      const { decisionId } = await workspace.intercept(request);
      const gate = await startGate(workspace.url);
      const { enforcement, agents } = await workspace.replica({ url: gate.url });
      gate.shut();
      const plain = "the database did not answer; retry";
      const texts: readonly (readonly [text: string, call: () => Promise<unknown>])[] = [
        [`${plain} with the same \`request_id\``, () => enforcement.intercept({ ...request, requestId: randomUUID() })],
        [plain, () => enforcement.intercept(request)],
        [plain, () => enforcement.getDecision({ decisionId })],
        [plain, () => agents.registerAgent({ name: "late" })],
      ];
      for (const [text, call] of texts) {
        const error = await call().catch((each: unknown) => each);
        expect(error).to.be.instanceOf(ControlPlaneError).and.include({ message: text });
        expect((error as ControlPlaneError).reason).to.equal(ErrorReason.STORE_UNAVAILABLE);
      }
      gate.open();
      for (const [, call] of texts) await call();
      gate.close();
    }));
});

describe("a change whose connection is cut", () => {
  it("fails alone: the pool loses no place to it, however often it happens.", () =>
    withWorkspace({}, async (workspace) => {
      const { pool } = workspace.database;
      for (let cut = 0; cut < 8; cut++) {
        const change = workspace.log.change("key_test", async ({ transaction }) => {
          const [row] = (await transaction.execute("select pg_backend_pid() as pid")) as { pid: number }[];
          await withClient(workspace.url, (client) => client.query("select pg_terminate_backend($1)", [row?.pid]));
          await transaction.execute("select 1");
        });
        expect(await reasonOf(change)).to.equal("STORE_UNAVAILABLE");
      }
      expect(await workspace.agent()).to.match(/^agt_/);
      // The last answer comes a moment before its connection is back.
      await until(() => pool.totalCount === pool.idleCount);
    }));
});

/** A way to ask a log for decisions of one's own; by default it decides as the service does. */
const askOn = (log: WorkspaceLog, agentId: string) => (actionType: string, decideOne?: Decide) => {
  const action = actionOf({ agentId, actionType });
  return log.append(action, { ...steps(action), ...(decideOne && { decide: decideOne }) }, () => false);
};

/** A log of its own over the state as stored, and a way to ask it with a decision of one's own. */
async function askable(workspace: TestWorkspace, agentId: string) {
  const clock = createDatabaseClock();
  clock.observe(Date.now(), performance.now(), performance.now());
  const log = new WorkspaceLog(workspace.database, await coldState(workspace.database.pool), clock);
  return { log, ask: askOn(log, agentId) };
}

async function assertStateAsStored({ database, url }: TestWorkspace, log: WorkspaceLog): Promise<void> {
  const state = await log.caughtUp();
  const folded = await comparable(database.pool, await foldedState(database.pool), state.lastAtMs);
  expect(await comparable(database.pool, state, state.lastAtMs)).to.deep.equal(folded);
  assertIntact(await readLog(url));
}

const cannotDecide: Decide = () => {
  throw new TypeError("cannot be decided");
};

/** Leaves half a step in the state of a batch that is rolled back. */
const refuseUndo = ({ undo }: StateJournal): void =>
  void undo.push(() => {
    throw new RangeError("cannot be undone");
  });

/** Fails, and cannot be rolled back. */
const tearState: Decide = (state, nowMs, journal) => {
  refuseUndo(journal);
  return cannotDecide(state, nowMs, journal);
};

describe("an action that cannot be decided", () => {
  it("fails alone: the others of its batch are decided, and nothing of it stays in the state.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      await workspace.mandate([velocityRule(10)]);
      const { log, ask } = await askable(workspace, agentId);
      const { errors } = await settled([ask("pay"), ask("pay"), ask("pay.never", cannotDecide), ask("pay")]);
      expect(errors.map(String)).to.deep.equal(["TypeError: cannot be decided"]);
      expect((await settled([ask("pay.never", cannotDecide)])).errors).to.have.length(1);
      await ask("pay");
      expect(decisionsOf(await readLog(workspace.url))).to.have.length(4);
      await assertStateAsStored(workspace, log);
    }));

  it("fails alone after it was decided, too: a later action of its batch gets an escalation of its own.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      await workspace.mandate([actionRule(Decision.ESCALATE, "pay")]);
      const { log, ask } = await askable(workspace, agentId);
      // The fold does not know what to do with this authority.
      const cannotFold: Decide = (state, nowMs, journal) => ({
        ...decide(state, actionOf({ agentId, actionType: "read" }), nowMs, journal),
        authority: [null as never],
      });
      const { errors } = await settled([ask("read"), ask("read", cannotFold), ask("pay"), ask("read")]);
      expect(errors).to.have.length(1);
      const [escalation] = decisionsOf(await readLog(workspace.url)).filter(({ decision }) => decision === "escalate");
      expect(escalation).to.not.equal(undefined);
      await assertStateAsStored(workspace, log);
    }));
});

describe("a fault of the log itself", () => {
  it("costs the callers that wait an error; then the state is read anew and the log goes on.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      await workspace.mandate([velocityRule(10)]);
      const { log, ask } = await askable(workspace, agentId);
      const heard: number[] = [];
      log.subscribe((events) => void heard.push(...events.map(({ seq }) => seq)));
      await ask("pay");
      const read = log.caughtUp().catch(() => undefined);
      const { errors } = await settled([ask("pay"), ask("pay", tearState)]);
      await read;
      expect(errors.map(String)).to.include("RangeError: cannot be undone");
      await ask("pay");
      await log.change("key_test", async () => undefined);
      await assertStateAsStored(workspace, log);
      const { seq } = await log.caughtUp();
      expect(heard).to.deep.equal(Array.from(heard, (_, index) => seq - heard.length + index));
    }));

  it("costs the callers of a batch behind another the error too, and the batch before it nothing.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      const { log, events } = await openWatchedLog(workspace);
      const ask = askOn(log, agentId);
      const asked = await whileHeld(workspace.url, async () => {
        const first = ask("pay");
        while (!events.includes("sent 1")) await setImmediate();
        return { first, behind: settled([ask("pay", tearState)]) };
      });
      expect((await asked.first).decision).to.equal("allow");
      expect((await asked.behind).errors.map(String)).to.deep.equal(["RangeError: cannot be undone"]);
      await log.idle();
      await ask("pay");
      await assertStateAsStored(workspace, log);
    })).timeout(10_000);

  it("costs the callers of a batch that cannot be rolled back the error too.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      const overtake = async (count: number) =>
        count === 1 && (await workspace.intercept({ agentId, actionType: "pay" }));
      const { log } = await openWatchedLog(workspace, { before: overtake });
      const ask = askOn(log, agentId);
      const cannotUndo: Decide = (state, nowMs, journal) => {
        refuseUndo(journal);
        return decide(state, actionOf({ agentId, actionType: "pay" }), nowMs, journal);
      };
      expect((await settled([ask("pay", cannotUndo)])).errors.map(String)).to.deep.equal([
        "RangeError: cannot be undone",
      ]);
      await log.idle();
      await ask("pay");
      await assertStateAsStored(workspace, log);
    })).timeout(10_000);

  it("by a listener reaches no caller and no other listener.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      const { log, ask } = await askable(workspace, agentId);
      const heard: number[] = [];
      log.subscribe(() => {
        throw new RangeError("a listener's own fault");
      });
      log.subscribe((events) => void heard.push(...events.map(({ seq }) => seq)));
      const uncaught = await uncaughtDuring(async () => {
        await ask("read");
        await ask("read");
      });
      expect(uncaught).to.include("RangeError: a listener's own fault");
      expect(heard).to.have.length.at.least(1);
      await assertStateAsStored(workspace, log);
    }));
});

/** The errors that nothing caught while `run` ran, in place of the test runner's own handler. */
async function uncaughtDuring(run: () => Promise<void>): Promise<readonly string[]> {
  const uncaught: string[] = [];
  const handlers = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => void uncaught.push(String(error)));
  try {
    await run();
    await setImmediate();
  } finally {
    process.removeAllListeners("uncaughtException");
    for (const handler of handlers) process.on("uncaughtException", handler);
  }
  return uncaught;
}
