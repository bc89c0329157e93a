import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { expect } from "chai";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import type { Action, SealedDecision } from "../../src/state/types.ts";
import { openDatabase } from "../../src/store/database.ts";
import { idFromUuid } from "../../src/store/ids.ts";
import { SILENT_LOG, withClient } from "../support/database.ts";
import { decideOn } from "../support/decide-on.ts";
import {
  actionOf,
  actionRule,
  attempt,
  openWorkspace,
  reasonOf,
  settled,
  type TestWorkspace,
  velocityRule,
  withWorkspace,
} from "../support/harness.ts";
import { directUrlOf } from "../support/pooler.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { until } from "./gate.ts";
import { replayNaively } from "./naive-log.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";
import { type Around, assertFolded, openWatchedLog, type WatchedLog, whileHeld } from "./watched-log.ts";

/** Items of the smallest batch that the next one does not join; so many more follow it. */
const BATCH = 16;
const LIMIT = 10;

describe("a batch that is sent behind another", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  beforeEach(async () => {
    workspace = await openWorkspace();
    agentId = await workspace.agent();
  });
  afterEach(async () => {
    assertIntact(await readLog(workspace.url));
    await workspace.close();
  });

  const openLog = (around?: Around) => openWatchedLog(workspace, around);
  const act = (log: WorkspaceLog, change: Partial<Action> = {}, actionType = "pay") =>
    decideOn(log, { ...actionOf({ agentId, actionType }), ...change });
  const actTwice = (log: WorkspaceLog) => Array.from({ length: 2 * BATCH }, () => act(log));
  const pay = (requestId?: string) => workspace.intercept({ agentId, actionType: "pay", requestId });

  /** Asserts that the log's decisions are so many payments, each decided after the one before it. */
  async function assertOneByOne(log: WorkspaceLog, total: number): Promise<void> {
    let before = 50;
    const want = Array.from({ length: total }, (_, index) => {
      const decision = index < LIMIT ? "allow" : "block";
      const after = Math.max(0, before * 10 + (decision === "allow" ? 2 : -20)) / 10;
      const one = { count: index + 1, decision, trust: { before, after } };
      before = after;
      return one;
    });
    const got = decisionsOf(await readLog(workspace.url)).map(({ authorisation, decision, trust }) => {
      return { count: authorisation.collective_limits?.[0]?.count, decision, trust };
    });
    expect(got).to.deep.equal(want);
    await assertFolded(workspace, log);
  }

  it("is in flight together with it, and both are decided as if one after the other.", async () => {
    await workspace.mandate([velocityRule(LIMIT)]);
    const { log, events } = await openLog();
    const { seq } = await log.caughtUp();
    const calls = await whileHeld(workspace.url, async () => {
      const asked = actTwice(log);
      await until(() => events.length === 2);
      return asked;
    });
    const sealed = await Promise.all(calls);
    // On a busy machine what waits may make a third batch.
    const ofTwo = events.filter((event) => /^(sent|appended) [12]$/.test(event));
    expect(ofTwo).to.deep.equal(["sent 1", "sent 2", "appended 1", "appended 2"]);
    expect(sealed.map((decision) => decision.seq)).to.deep.equal(sealed.map((_, index) => seq + index));
    const receipts = await Promise.all(sealed.map(({ decisionId }) => workspace.receipt(decisionId)));
    receipts.forEach(({ body }, index) => {
      expect(body.seq).to.equal(seq + index);
    });
    const sizes = receipts.map(({ body }) => body.previous_size);
    expect(sizes[0]).to.equal(seq);
    expect(new Set(sizes).size).to.be.at.least(2);
    expect(sizes).to.deep.equal([...sizes].sort((a, b) => a - b));
    await assertOneByOne(log, 2 * BATCH);
  });

  it("is decided again after it when another replica was before both.", async () => {
    await workspace.mandate([velocityRule(LIMIT)]);
    const { log, events } = await openLog({ before: async (count) => void (count === 1 && (await pay())) });
    await Promise.all(actTwice(log));
    expect(events.slice(0, 4)).to.have.members(["sent 1", "sent 2", "refused 1", "refused 2"]);
    await assertOneByOne(log, 1 + 2 * BATCH);
  });

  it("is not appended to as many entries of another replica as it was decided on.", async () => {
    await workspace.mandate([velocityRule(LIMIT)]);
    const sizes: unknown[] = [];
    // On a busy machine a batch decides fewer actions than it may hold.
    let paid = 0;
    const { log, events } = await openLog({
      async before(count, [, expectedSize, size]) {
        if (count === 1) for (; paid < Number(size); paid++) await pay();
        if (count === 2) sizes.push(expectedSize, (await readLog(workspace.url)).head.seq);
      },
    });
    await Promise.all(actTwice(log));
    expect(sizes[0]).to.equal(sizes[1]);
    expect(events.slice(0, 4)).to.have.members(["sent 1", "sent 2", "refused 1", "refused 2"]);
    await assertOneByOne(log, paid + 2 * BATCH);
  });

  it("is decided again when the one before it holds a request that another replica decided.", async () => {
    await workspace.mandate([velocityRule(LIMIT)]);
    const requestId = randomUUID();
    const { log, events } = await openLog();
    const first = await pay(requestId);
    await log.caughtUp();
    const decisionId = idFromUuid("dec", requestId);
    const [retried] = await Promise.all([
      act(log, { decisionId, isRetryable: true, keyId: workspace.adminCaller.keyId }),
      ...actTwice(log),
    ]);
    expect(retried).to.deep.include({
      decisionId: first.decisionId,
      seq: (await workspace.receipt(decisionId)).body.seq,
    });
    expect(events.slice(0, 4)).to.have.members(["sent 1", "sent 2", "failed 1", "refused 2"]);
    await assertOneByOne(log, 1 + 2 * BATCH);
  });

  it("is appended behind the same request of another replica, and the callers of both are answered.", async () => {
    const nowMs = Date.now() + 60_000;
    const clock = { now: () => nowMs, observe: () => undefined };
    const { log: other } = await openWatchedLog(workspace, {}, clock);
    const payment = { ...actionOf({ agentId, actionType: "pay" }), isRetryable: true };
    const behind: Promise<SealedDecision>[] = [];
    const { log, events } = await openWatchedLog(
      workspace,
      {
        async before(count) {
          if (count !== 1) return;
          behind.push(act(log));
          await decideOn(other, payment);
        },
      },
      clock,
    );
    const { seq } = await log.caughtUp();
    const first = await act(log, payment);
    const [second] = await Promise.all(behind);
    expect(second?.seq).to.equal(seq + 1);
    expect(events).to.deep.equal(["sent 1", "sent 2", "refused 1", "appended 2"]);
    expect(first).to.deep.include({ decisionId: payment.decisionId, seq });
    await assertFolded(workspace, log);
  });

  it("takes little text at once, however much waits, and leaves others a turn of the event loop between two.", async () => {
    const sizes: number[] = [];
    let turns = 0;
    const turnsBefore: number[] = [];
    const { log } = await openLog({
      async before(_, values) {
        turnsBefore.push(turns);
        for (const value of values) if (typeof value === "string") sizes.push(value.length);
      },
    });
    let isOver = false;
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    count();
    const metadata = { note: "x".repeat(100_000) };
    await Promise.all(Array.from({ length: 2 * BATCH }, () => attempt(log, { agentId, actionType: "pay", metadata })));
    isOver = true;
    // Three actions are the first to have more than a batch takes.
    expect(Math.max(...sizes)).to.be.within(300_000, 500_000);
    expect(new Set(turnsBefore).size).to.equal(turnsBefore.length);
    await assertFolded(workspace, log);
  });

  it("is lost with it when the server ends the connection, and nothing of either is left.", async () => {
    await workspace.mandate([velocityRule(LIMIT)]);
    const { log, events } = await openLog();
    await whileHeld(workspace.url, async () => {
      const reasons = Promise.all(actTwice(log).map(reasonOf));
      await until(() => events.length === 2);
      const cut = `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`;
      await until(async () => (await withClient(workspace.url, (client) => client.query(cut))).rows.length === 1);
      expect(new Set(await reasons)).to.deep.equal(new Set(["STORE_UNAVAILABLE"]));
    });
    expect((await act(log)).trustTenths).to.equal(500);
    await assertOneByOne(log, 1);
  });

  it("is durable once when the connection is lost before either answer comes.", async () => {
    await workspace.mandate([velocityRule(LIMIT)]);
    let answered = 0;
    let sent = 0;
    let isLossy = true;
    const { log, events } = await openLog({
      async before(_count, [, , size]) {
        if (isLossy) sent += Number(size);
      },
      async after(_count, client) {
        if (!isLossy) return;
        answered += 1;
        await until(() => answered >= 2);
        (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
        throw Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
      },
    });
    const asked = Array.from({ length: 2 * BATCH }, () => ({ ...actionOf({ agentId, actionType: "pay" }) }));
    const askAll = () => asked.map((action) => act(log, { ...action, isRetryable: true }));
    const reasons = await Promise.all(askAll().map(reasonOf));
    expect(new Set(reasons)).to.deep.equal(new Set(["STORE_UNAVAILABLE"]));
    expect(events.slice(0, 2)).to.deep.equal(["sent 1", "sent 2"]);
    // A busy machine may fill neither batch.
    expect(decisionsOf(await readLog(workspace.url)).length).to.equal(sent);
    isLossy = false;
    await act(log);
    const sealed = await Promise.all(askAll());
    expect(sealed.map(({ decisionId }) => decisionId)).to.deep.equal(asked.map(({ decisionId }) => decisionId));
    await assertOneByOne(log, 2 * BATCH + 1);
  });

  for (const isOvertaken of [false, true]) {
    it(`uses an approval once${isOvertaken ? ", also when it is decided again" : ""}.`, async () => {
      await workspace.mandate([actionRule(Decision.ESCALATE, "pay")]);
      const { escalationId = "" } = await pay();
      const before = async (count: number) => count === 2 && workspace.intercept({ agentId, actionType: "read" });
      const { log, events } = await openLog(isOvertaken ? { before } : {});
      // Presented too early, so that it is in memory when the second batch presents it.
      await act(log, { escalationId });
      await workspace.resolve(escalationId);
      await log.caughtUp();
      const reads = Array.from({ length: BATCH }, () => act(log, {}, "read"));
      const pays = await Promise.all(Array.from({ length: BATCH }, () => act(log, { escalationId })));
      await Promise.all(reads);
      const answers = isOvertaken ? ["refused 2", "refused 3"] : ["appended 2", "appended 3"];
      expect(events).to.include.members(["sent 2", "sent 3", ...answers]);
      expect(events.indexOf("sent 3")).to.be.below(events.indexOf(answers[0] as string));
      const allowed = pays.filter(({ decision }) => decision === "allow");
      expect(allowed).to.have.length(1);
      const users = decisionsOf(await readLog(workspace.url)).filter(
        (body) => body.used_escalation_id === escalationId,
      );
      expect(users.map((body) => body.decision_id)).to.deep.equal([allowed[0]?.decisionId]);
      await assertFolded(workspace, log);
    });
  }

  /** Asserts that every payment was decided by what the log holds of the second before it. */
  async function assertSecondExact(log: WorkspaceLog): Promise<void> {
    const stored = await readLog(workspace.url);
    const times = stored.entries.filter(({ kind }) => kind === 0).map(({ atMs }) => atMs);
    decisionsOf(stored).forEach(({ authorisation, decision }, index) => {
      const now = times[index] as number;
      const count = times.slice(0, index).filter((at) => at > now - 1_000).length + 1;
      const want = [count, count <= LIMIT ? "allow" : "block"];
      expect([authorisation.collective_limits?.[0]?.count, decision]).to.deep.equal(want);
    });
    await assertFolded(workspace, log);
  }

  it("keeps a limit over one second exact when the database stands still for longer.", async () => {
    await workspace.mandate([velocityRule(LIMIT, { windowSeconds: 1n })]);
    const { log, events, skip } = await openLog();
    const calls = await whileHeld(workspace.url, async (holder) => {
      const asked = [...actTwice(log), act(log)];
      await holder.query("select pg_sleep(1.25)");
      return [...asked, act(log)];
    });
    await Promise.all(calls);
    for (let wave = 0; wave < 3; wave++) await Promise.all(actTwice(log));
    expect(events.slice(0, 2)).to.deep.equal(["sent 1", "sent 2"]);
    // Nothing follows a batch that may soon leave the window.
    const before = events.length;
    const apart = await whileHeld(workspace.url, async () => {
      const first = act(log);
      await until(() => events.length > before);
      skip(600);
      return [first, act(log)];
    });
    await Promise.all(apart);
    expect(events[before + 1]).to.match(/^appended/);
    await assertSecondExact(log);
  });

  it("keeps a limit over one second exact when it is rolled back after that second.", async () => {
    await workspace.mandate([velocityRule(LIMIT, { windowSeconds: 1n })]);
    const watched = await openLog({
      async before(count) {
        if (count !== 2) return;
        watched.skip(1_250);
        await pay();
      },
    });
    await act(watched.log);
    await Promise.all([...actTwice(watched.log), act(watched.log)]);
    for (let wave = 0; wave < 3; wave++) {
      watched.skip(333);
      await Promise.all(actTwice(watched.log));
    }
    expect(watched.events.slice(2, 6)).to.have.members(["sent 2", "sent 3", "refused 2", "refused 3"]);
    await assertSecondExact(watched.log);
  });

  it("leaves a pool of one connection to other workspaces as well.", async () => {
    const options = { poolSize: 1, log: SILENT_LOG };
    const database = await openDatabase({ url: workspace.url, directUrl: directUrlOf(workspace.url), ...options });
    const logs = await createWorkspaceLogs(database, SILENT_LOG);
    const decided = new Map<string, number>();
    const isBusy = () => decided.size < 3 || [...decided.values()].some((count) => count < 4 * BATCH);
    const keepBusy = async (workspaceId: string, actingId: string): Promise<void> => {
      const log = await logs.of(workspaceId);
      while (isBusy()) {
        await act(log, { agentId: actingId }, "read");
        decided.set(workspaceId, (decided.get(workspaceId) ?? 0) + 1);
      }
    };
    const callers: Promise<void>[] = [];
    for (const workspaceId of ["one", "two", "three"]) {
      await createWorkspace({ database: workspace.database, nowMs: Date.now(), by: "system" }, { workspaceId });
      const caller = { ...workspace.adminCaller, workspaceId };
      const { agent } = await workspace.agents.registerAgent({ name: "busy" }, caller);
      for (let count = 0; count < 3 * BATCH; count++) callers.push(keepBusy(workspaceId, agent?.agentId ?? ""));
    }
    expect((await settled(callers)).errors).to.deep.equal([]);
    for (const workspaceId of decided.keys()) assertIntact(await readLog(workspace.url, workspaceId));
    await logs.close();
    await database.close();
  });
});

/** Actions that three replicas are asked for, in bursts at random. */
const ACTIONS = 900;
const ALLOWED = 120;

describe("three replicas that send batches behind each other", () => {
  it(`allow exactly ${ALLOWED} of ${ACTIONS} actions, and tell of each once and in order.`, () =>
    withWorkspace({ replicas: 3 }, async (workspace) => {
      const below = seededBelow(29);
      const agentIds = [await workspace.agent(), await workspace.agent(), await workspace.agent()];
      await workspace.mandate([velocityRule(ALLOWED, { scope: Scope.WORKSPACE })]);
      const replicas = await Promise.all(workspace.replicas.map((replica) => openWatchedLog(replica)));
      const { seq } = await workspace.log.caughtUp();
      const heard = replicas.map(({ log }) => {
        const seqs: number[] = [];
        log.subscribe((events) => seqs.push(...events.map((event) => event.seq)));
        return seqs;
      });
      let left = ACTIONS;
      const caller = async ({ log }: WatchedLog): Promise<void> => {
        while (left > 0) {
          const burst = Array.from({ length: Math.min(left, 1 + below(20)) }, () => agentIds[below(3)] as string);
          left -= burst.length;
          await Promise.all(burst.map((agentId) => attempt(log, { agentId, actionType: "pay" })));
        }
      };
      await Promise.all(replicas.flatMap((replica) => [replica, replica, replica].map(caller)));
      const stored = await readLog(workspace.url);
      assertIntact(stored);
      const counted = decisionsOf(stored).map(({ authorisation, decision }) => {
        return [authorisation.collective_limits?.[0]?.count, decision];
      });
      const want = Array.from({ length: ACTIONS }, (_, index) => [index + 1, index < ALLOWED ? "allow" : "block"]);
      expect(counted).to.deep.equal(want);
      for (const { want, got } of replayNaively(stored.entries.map(({ body }) => body))) {
        expect(got).to.deep.equal(want);
      }
      for (const { log } of replicas) await assertFolded(workspace, log);
      for (const seqs of heard) expect(seqs).to.deep.equal(want.map((_, index) => seq + index));
      expect(replicas.map(({ events }) => events.join()).join()).to.match(/sent \d+,sent/);
    }));
});
