import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "chai";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { RevocationService } from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import {
  AgentBlockedError,
  AgentStoppedError,
  type AgentWatch,
  type ControlPlane,
  createControlPlane,
  type GuardOptions,
} from "../../src/client/index.ts";
import { give, killSession, newAuthority } from "../revocation/authority.ts";
import { until } from "../support/harness.ts";
import { openLogOf } from "../support/open-log.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import type { TestService } from "../support/service.ts";
import { morePieces, NOWHERE, rejection, startRuledService } from "./harness.ts";
import { type HttpProxy, type StreamHabit, startHttpProxy } from "./http-proxy.ts";

/** What a signal aborts with, as soon as it does. */
async function reasonOf(signal: AbortSignal): Promise<unknown> {
  if (!signal.aborted) await once(signal, "abort");
  return signal.reason;
}

describe("watching an agent over the client", () => {
  const cleanup = new AsyncDisposableStack();
  const proxies: HttpProxy[] = [];
  let service: TestService;
  let replica: ServedHere;
  let log: Awaited<ReturnType<typeof openLogOf>>;
  let agentId: string;

  before("starts two processes on one database", async () => {
    service = await startRuledService({ ACP_STREAM_HEARTBEAT_MS: "100" });
    cleanup.defer(async () => void (await service.stop()));
    const { database } = service;
    replica = await serveHere({ databaseUrl: database.url, env: { ACP_ADMIN_KEY: service.adminKey } });
    cleanup.defer(async () => void (await replica.stop()));
    log = await openLogOf(database.url, cleanup);
  });
  after("stops them", () => cleanup.disposeAsync());
  beforeEach("registers an agent", async () => {
    agentId = await service.agent();
  });
  afterEach("closes the proxies", () => {
    for (const proxy of proxies.splice(0)) proxy.close();
  });

  const revoke = (id = agentId) => service.admin.client(RevocationService).revokeAgent({ agentId: id });
  const deactivate = () => service.admin.client(AgentService).deactivateAgent({ agentId });
  const newSession = async (): Promise<string> => {
    const session = newAuthority("session", agentId);
    await give(log, [session]);
    return session.id;
  };
  const connect = (baseUrl: string): ControlPlane => {
    const controlPlane = createControlPlane({ baseUrl, apiKey: service.adminKey });
    cleanup.defer(() => controlPlane.close());
    return controlPlane;
  };
  const through = async (habit: StreamHabit) => {
    const proxy = await startHttpProxy(service.http, habit);
    proxies.push(proxy);
    return { proxy, controlPlane: connect(proxy.url) };
  };
  const watchOn = async (controlPlane: ControlPlane): Promise<AgentWatch> => {
    const watch = controlPlane.watchAgent(agentId);
    await watch.ready;
    return watch;
  };

  describe("watchAgent", () => {
    it("aborts on every process with an error that names the revocation.", async () => {
      const watches = [await watchOn(service.admin), await watchOn(connect(replica.http))];
      expect(watches.map(({ signal }) => signal.aborted)).to.deep.equal([false, false]);
      const { revocationId } = await revoke();
      for (const { signal, close } of watches) {
        const error = await reasonOf(signal);
        expect(error).to.be.instanceOf(AgentStoppedError).and.instanceOf(AgentBlockedError);
        expect(error).to.include({ agentId, change: "revoked", revocationId, decision: "block", sessionId: null });
        expect((error as Error).message).to.equal(`agent \`${agentId}\` was revoked`);
        close();
      }
    });

    it("aborts when the agent is deactivated, and at once for one that is out of service already.", async () => {
      const watch = await watchOn(service.admin);
      await deactivate();
      expect(await reasonOf(watch.signal)).to.include({ change: "deactivated", revocationId: null });
      watch.close();
      await revoke();
      const late = service.admin.watchAgent(agentId);
      expect(await reasonOf(late.signal)).to.include({ change: "revoked" });
      late.close();
    });

    it("tells of the sessions that are killed, each to those who asked for it, once.", async () => {
      const [one, two, three] = [await newSession(), await newSession(), await newSession()];
      const watch = await watchOn(service.admin);
      const heard: string[] = [];
      for (const id of [one, two, three]) watch.onSessionKilled(id, () => heard.push(id));
      const cancel = watch.onSessionKilled(two, () => heard.push("cancelled"));
      cancel();
      await killSession(log, agentId, two);
      await until(() => heard.length >= 1);
      expect(watch.signal.aborted).to.equal(false);
      // Late, and told nevertheless.
      watch.onSessionKilled(two, () => heard.push("late"));
      expect(heard).to.deep.equal([two, "late"]);
      await revoke();
      await until(() => heard.length >= 4);
      expect(heard.slice(2).sort()).to.deep.equal([one, three].sort());
      watch.close();
    });

    it("keeps one stream for each agent, however many watch it, and lets go of it after the last.", async () => {
      const { proxy, controlPlane } = await through("passes");
      const watches = [controlPlane.watchAgent(agentId), controlPlane.watchAgent(agentId), await watchOn(controlPlane)];
      expect(proxy.countOf("WatchAgent")).to.equal(1);
      const [first, second, third] = watches as [AgentWatch, AgentWatch, AgentWatch];
      first.close();
      first.close();
      second.close();
      // Heartbeats come ten times a second; a stream that nobody wants is left after a second.
      await morePieces(proxy, 13);
      expect(proxy.openStreams).to.equal(1);
      third.close();
      controlPlane.watchAgent(agentId).close();
      expect(proxy.countOf("WatchAgent")).to.equal(1);
      await until(() => proxy.openStreams === 0);
      const again = await watchOn(controlPlane);
      expect(proxy.countOf("WatchAgent")).to.equal(2);
      again.close();
    });

    it("does not abort while the stream is away, and hears what was missed when it is whole again.", async () => {
      const { proxy, controlPlane } = await through("passes");
      const watch = await watchOn(controlPlane);
      proxy.habit = "holds back";
      proxy.cutStreams();
      await until(() => proxy.countOf("WatchAgent") >= 2);
      const { pieces } = proxy;
      await revoke();
      await until(() => proxy.pieces > pieces);
      expect(watch.signal.aborted).to.equal(false);
      proxy.habit = "passes";
      proxy.cutStreams();
      expect(await reasonOf(watch.signal)).to.include({ change: "revoked" });
      watch.close();
    });

    it("tells of sessions that ended before the stream was open, or while it was away.", async () => {
      const { proxy, controlPlane } = await through("holds back");
      const [early, late, whole] = [await newSession(), await newSession(), await newSession()];
      const watch = controlPlane.watchAgent(agentId);
      const heard: string[] = [];
      for (const id of [early, late, whole]) watch.onSessionKilled(id, () => heard.push(id));
      await killSession(log, agentId, early);
      proxy.habit = "passes";
      proxy.cutStreams();
      await until(() => heard.length >= 1);
      proxy.habit = "holds back";
      proxy.cutStreams();
      await until(() => proxy.countOf("WatchAgent") >= 3);
      await killSession(log, agentId, late);
      proxy.habit = "passes";
      proxy.cutStreams();
      await until(() => heard.length >= 2);
      expect(heard).to.deep.equal([early, late]);
      watch.close();
    });

    it("tells of sessions that ended before a stream was open that did not ask for them.", async () => {
      const [early, other] = [await newSession(), await newSession()];
      for (const id of [early, other]) await killSession(log, agentId, id);
      const { proxy, controlPlane } = await through("passes");
      const watch = await watchOn(controlPlane);
      const heard: string[] = [];
      watch.onSessionKilled(early, () => heard.push(early));
      watch.onSessionKilled(other, () => heard.push(other));
      await until(() => heard.length >= 2);
      expect(heard.sort()).to.deep.equal([early, other].sort());
      expect(proxy.countOf("WatchAgent")).to.equal(2);
      watch.close();
    });

    it("never aborts by itself, neither for an unknown agent nor without a control plane.", async () => {
      for (const controlPlane of [service.admin, connect(NOWHERE)]) {
        const watch = controlPlane.watchAgent("agt_unknown");
        await pause(300);
        expect(watch.signal.aborted).to.equal(false);
        watch.close();
      }
    });

    it("lets go of every stream when the library is closed.", async () => {
      const { proxy, controlPlane } = await through("passes");
      const watch = await watchOn(controlPlane);
      controlPlane.close();
      await until(() => proxy.openStreams === 0);
      await revoke();
      expect(watch.signal.aborted).to.equal(false);
      watch.close();
    });
  });

  describe("a guarded call whose function runs", () => {
    const optionsFor = (more: Partial<GuardOptions<[string]>> = {}): GuardOptions<[string]> => ({
      agentId,
      actionType: "work",
      toArguments: (text) => ({ text }),
      ...more,
    });

    /** A guarded function that runs until it is told to finish, or its signal aborts. */
    const longWork = (controlPlane: ControlPlane, more: Partial<GuardOptions<[string]>> = {}) => {
      const started = Promise.withResolvers<AbortSignal>();
      const finish = Promise.withResolvers<string>();
      const call = controlPlane.guardWithSignal((signal, text: string) => {
        started.resolve(signal);
        return finish.promise.then((end) => `${text} ${end}`);
      }, optionsFor(more));
      return { call, started: started.promise, finish: finish.resolve };
    };

    it("is ended at once when its agent is revoked, and its signal aborts with the same error.", async () => {
      const { call, started, finish } = longWork(connect(replica.http));
      const outcome = rejection(call("a"));
      const signal = await started;
      await revoke();
      const error = await outcome;
      expect(error).to.be.instanceOf(AgentStoppedError).and.include({ change: "revoked", agentId });
      expect(signal.reason).to.equal(error);
      finish("too late");
    });

    it("is ended when its agent is deactivated, and when its session is killed, but not another one.", async () => {
      const [own, other] = [await newSession(), await newSession()];
      const inSession = longWork(service.admin, { sessionId: own });
      const elsewhere = longWork(service.admin, { sessionId: other });
      const outcomes = [rejection(inSession.call("a")), rejection(elsewhere.call("b"))];
      await Promise.all([inSession.started, elsewhere.started]);
      await killSession(log, agentId, own);
      expect(await outcomes[0])
        .to.be.instanceOf(AgentStoppedError)
        .and.include({ change: "killed", sessionId: own });
      expect((await elsewhere.started).aborted).to.equal(false);
      await deactivate();
      expect(await outcomes[1]).to.include({ change: "deactivated" });
    });

    it("is ended though its function knows nothing of signals.", async () => {
      const running = Promise.withResolvers<void>();
      const work = service.admin.guard((_text: string) => {
        running.resolve();
        return new Promise<never>(() => undefined);
      }, optionsFor());
      const outcome = rejection(work("a"));
      await running.promise;
      await revoke();
      expect(await outcome).to.be.instanceOf(AgentStoppedError);
    });

    it("rejects with the same error when the function rejects by itself on its signal.", async () => {
      const running = Promise.withResolvers<void>();
      const work = service.admin.guardWithSignal((signal, _text: string) => {
        running.resolve();
        return new Promise<never>((_, reject) => {
          signal.addEventListener("abort", () => reject(new Error("own words")));
        });
      }, optionsFor());
      const outcome = rejection(work("a"));
      await running.promise;
      await revoke();
      expect(await outcome).to.be.instanceOf(AgentStoppedError);
    });

    it("goes on when the caller chose so, and no stream is opened for it.", async () => {
      const { proxy, controlPlane } = await through("passes");
      const { call, started, finish } = longWork(controlPlane, { abortWhenRevoked: false });
      const outcome = call("a");
      const signal = await started;
      const watch = await watchOn(service.admin);
      await revoke();
      await reasonOf(watch.signal);
      watch.close();
      finish("done");
      expect(await outcome).to.equal("a done");
      expect(signal.aborted).to.equal(false);
      expect(proxy.countOf("WatchAgent")).to.equal(0);
    });

    it("gives receiver, parameters, result and fault as the function does.", async () => {
      const account = {
        balance: 5,
        add: service.admin.guardWithSignal(function (this: { balance: number }, signal, text: string) {
          if (text === "fail") throw new RangeError("own fault");
          return [this.balance, text, signal.aborted] as const;
        }, optionsFor()),
      };
      const result: readonly [number, string, boolean] = await account.add("euro");
      expect(result).to.deep.equal([5, "euro", false]);
      expect(await rejection(account.add("fail"))).to.be.instanceOf(RangeError);
    });

    it("shares one stream with the calls before and after it.", async () => {
      const { proxy, controlPlane } = await through("passes");
      const work = controlPlane.guard((text: string) => text, optionsFor());
      for (const text of ["a", "b", "c"]) expect(await work(text)).to.equal(text);
      await Promise.all(["d", "e"].map((text) => work(text)));
      expect(proxy.countOf("WatchAgent")).to.equal(1);
      controlPlane.close();
    });

    for (const habit of ["cuts", "holds back"] as const) {
      it(`is neither let through nor blocked by a way that ${habit} streams.`, async () => {
        const { controlPlane } = await through(habit);
        const { call, finish } = longWork(controlPlane);
        finish("done");
        expect(await call("a")).to.equal("a done");
        const blocked = longWork(controlPlane, { actionType: "danger.x" });
        expect(await rejection(blocked.call("a"))).to.be.instanceOf(AgentBlockedError);
        await revoke();
        expect(await rejection(call("b")))
          .to.be.instanceOf(AgentBlockedError)
          .and.not.instanceOf(AgentStoppedError);
      });
    }
  });
});
