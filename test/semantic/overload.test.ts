import { getEventListeners } from "node:events";
import type { ServerResponse } from "node:http";
import { expect } from "chai";
import { type CallResult, CircuitBreaker, DEFAULT_BREAKER } from "../../src/semantic/circuit-breaker.ts";
import type { ModelOptions } from "../../src/semantic/model.ts";
import type { GuardAnswer } from "../../src/semantic/verdict.ts";
import { causeOf, watchedGuard } from "./harness.ts";
import {
  answers,
  type Behaviour,
  judges,
  type ModelServer,
  resets,
  startModelServer,
  staysSilent,
} from "./model-server.ts";

const { windowMs, maxCalls, minFailures, openMs } = DEFAULT_BREAKER;
const down = answers("", 503);

describe("a circuit breaker", () => {
  let at = 0;
  let changes: string[] = [];
  const create = () => {
    at = 0;
    changes = [];
    return new CircuitBreaker(
      DEFAULT_BREAKER,
      () => at,
      (state) => void changes.push(state),
    );
  };
  const call = (breaker: CircuitBreaker, result: CallResult, times = 1): void => {
    for (let count = 0; count < times; count++) breaker.begin()?.end(result);
  };

  it("opens at the last of five failures in a row, and lets nothing through.", () => {
    const breaker = create();
    call(breaker, "failed", minFailures - 1);
    expect(breaker.state).to.equal("closed");
    call(breaker, "failed");
    expect([breaker.state, breaker.begin(), changes]).to.deep.equal(["open", undefined, ["open"]]);
  });

  it("opens when half of the last twenty calls failed, not when fewer did.", () => {
    const breaker = create();
    for (let count = 0; count < maxCalls; count++) call(breaker, count % 3 === 0 ? "failed" : "worked");
    expect(breaker.state).to.equal("closed");
    call(breaker, "failed", 5);
    expect(breaker.state).to.equal("open");
  });

  it("forgets failures that are older than its window.", () => {
    const breaker = create();
    call(breaker, "failed", minFailures - 1);
    at += windowMs;
    call(breaker, "failed", minFailures - 1);
    expect(breaker.state).to.equal("closed");
    call(breaker, "failed");
    expect(breaker.state).to.equal("open");
  });

  it("learns nothing from calls that tell nothing.", () => {
    const breaker = create();
    call(breaker, "unknown", 50);
    call(breaker, "failed", minFailures - 1);
    call(breaker, "unknown", 50);
    expect(breaker.state).to.equal("closed");
    call(breaker, "failed");
    expect(breaker.state).to.equal("open");
  });

  it("lets one call through after a while; closes when it works, and waits as long again when it fails.", () => {
    const breaker = create();
    call(breaker, "failed", minFailures);
    at += openMs - 1;
    expect(breaker.begin()).to.equal(undefined);
    at += 1;
    expect(breaker.state).to.equal("half_open");
    const probe = breaker.begin();
    expect(breaker.begin()).to.equal(undefined);
    probe?.end("failed");
    expect(breaker.state).to.equal("open");
    at += openMs;
    call(breaker, "worked");
    expect([breaker.state, changes]).to.deep.equal(["closed", ["open", "open", "closed"]]);
    call(breaker, "failed", minFailures - 1);
    expect(breaker.state).to.equal("closed");
  });

  it("lets another call through when the first one told nothing.", () => {
    const breaker = create();
    call(breaker, "failed", minFailures);
    at += openMs;
    call(breaker, "unknown");
    expect(breaker.state).to.equal("half_open");
    call(breaker, "worked");
    expect(breaker.state).to.equal("closed");
  });

  it("takes no notice of calls that began before it last opened or closed.", () => {
    const breaker = create();
    const late = Array.from({ length: 2 * minFailures }, () => breaker.begin());
    call(breaker, "failed", minFailures);
    late.pop()?.end("worked");
    expect(breaker.state).to.equal("open");
    at += openMs;
    call(breaker, "worked");
    for (const each of late) each?.end("failed");
    expect(breaker.state).to.equal("closed");
  });
});

describe("a guard under trouble", () => {
  let server: ModelServer;
  let at = 0;
  const now = (): number => at;
  beforeEach(async () => {
    at = 0;
    server = await startModelServer();
  });
  afterEach(() => server.close());

  async function causes(judge: () => Promise<Parameters<typeof causeOf>[0]>, count: number): Promise<string[]> {
    const found: string[] = [];
    for (let index = 0; index < count; index++) found.push(causeOf(await judge()));
    return found;
  }

  for (const [does, behaviour, cause, options] of [
    ["answers 503", down, "server_error", {}],
    ["answers 429", answers("", 429), "rate_limited", {}],
    ["resets connections", resets, "unreachable", {}],
    ["does not answer", staysSilent, "timed_out", { deadlineMs: 700, breaker: { ...DEFAULT_BREAKER, minFailures: 2 } }],
  ] satisfies [string, Behaviour, string, Partial<ModelOptions>][]) {
    it(`leaves a model alone that ${does}, and finds out when it works again.`, async () => {
      server.behaviour = behaviour;
      const { judge, logged, metrics } = watchedGuard(server.url, { now, ...options });
      const failures = (options as Partial<ModelOptions>).breaker?.minFailures ?? minFailures;
      expect(await causes(judge, failures)).to.deep.equal(Array(failures).fill(cause));
      const before = server.asked.length;
      expect(await causes(judge, 20)).to.deep.equal(Array(20).fill("circuit_open"));
      expect(server.asked).to.have.length(before);
      expect(await metrics()).to.include('acp_guard_breaker_state{state="open"} 1');
      at += openMs;
      expect(await causes(judge, 3)).to.deep.equal([cause, "circuit_open", "circuit_open"]);
      at += openMs;
      server.behaviour = judges();
      expect(await metrics()).to.include('acp_guard_breaker_state{state="half_open"} 1');
      expect(await causes(judge, 3)).to.deep.equal(["verdict", "verdict", "verdict"]);
      expect(await metrics()).to.include('acp_guard_breaker_state{state="closed"} 1');
      expect(logged.at(-1)).to.include("the guard's model works again");
    });
  }

  for (const [what, behaviour] of [
    ["odd answers", answers("{}")],
    ["refusals", answers("", 400)],
    ["redirects", answers("", 302, { location: "/" })],
  ] satisfies [string, Behaviour][]) {
    it(`goes on asking in spite of ${what}: an action may be written to cause them.`, async () => {
      server.behaviour = behaviour;
      const { judge } = watchedGuard(server.url, { now });
      await causes(judge, 30);
      expect(server.asked).to.have.length(30);
    });
  }

  it("goes on asking when rules give it too little time, or callers give up.", async () => {
    server.behaviour = staysSilent;
    const { judge } = watchedGuard(server.url, { now });
    expect(await causes(() => judge({ timeoutMs: 5 }), 8)).to.deep.equal(Array(8).fill("timed_out"));
    expect(await causes(() => judge({}, AbortSignal.timeout(5)), 8)).to.deep.equal(Array(8).fill("cancelled"));
    server.behaviour = judges();
    expect(causeOf(await judge())).to.equal("verdict");
  });

  it("gives up with its caller: at once, on the way, while waiting.", async () => {
    server.behaviour = staysSilent;
    const { judge, logged } = watchedGuard(server.url, { slots: { permits: 1, size: 4 } });
    expect(causeOf(await judge({}, AbortSignal.abort()))).to.equal("cancelled");
    expect(server.asked).to.have.length(0);
    const [first, second] = [new AbortController(), new AbortController()];
    const asked = judge({}, first.signal);
    const waiting = judge({}, second.signal);
    second.abort();
    expect(causeOf(await waiting)).to.equal("cancelled");
    first.abort();
    expect(causeOf(await asked)).to.equal("cancelled");
    await server.idle();
    server.behaviour = judges();
    expect(causeOf(await judge())).to.equal("verdict");
    expect(logged).to.deep.equal([]);
  });

  it("keeps nothing on a signal that outlives many questions.", async () => {
    const { signal } = new AbortController();
    const { judge } = watchedGuard(server.url);
    await Promise.all(Array.from({ length: 40 }, () => judge({}, signal)));
    expect(getEventListeners(signal, "abort")).to.deep.equal([]);
  });

  it("asks for each workspace within its share, lets some wait, and tells the others at once that it is too busy.", async () => {
    const held: ServerResponse[] = [];
    server.behaviour = (response) => void held.push(response);
    const { judge } = watchedGuard(server.url, { slots: { permits: 10, size: 26 } });
    const ask = (count: number, workspaceId: string, agentId?: string) =>
      Array.from({ length: count }, () => judge({ holder: { workspaceId, agentId } }));
    /** Asks, and returns the causes of those that are told at once. */
    const refused = async (given: readonly Promise<GuardAnswer>[], served: number) =>
      (await Promise.all(given.slice(served))).map(causeOf);
    // One workspace alone may have half of the questions, and of those that are asked at once.
    const first = ask(20, "first");
    expect(await refused(first, 13)).to.deep.equal(Array(7).fill("too_busy"));
    await server.waitFor(5);
    const second = ask(20, "second");
    expect(await refused(second, 6)).to.deep.equal(Array(14).fill("too_busy"));
    await server.waitFor(7);
    const third = ask(4, "third");
    expect(await refused(third, 3)).to.deep.equal(["too_busy"]);
    await server.waitFor(8);
    expect(server.open.most).to.equal(8);
    server.behaviour = judges();
    for (const [index, response] of held.entries()) server.behaviour(response, index, server.asked[index] as never);
    const served = [...first.slice(0, 13), ...second.slice(0, 6), ...third.slice(0, 3)];
    expect((await Promise.all(served)).map(causeOf)).to.deep.equal(Array(22).fill("verdict"));
    // One agent alone may have a fifth.
    server.behaviour = (response) => void held.push(response);
    const own = ask(7, "first", "agt_1");
    expect(await refused(own, 5)).to.deep.equal(["too_busy", "too_busy"]);
    server.behaviour = judges();
    for (const response of held.splice(8)) server.behaviour(response, 0, server.asked[0] as never);
    await Promise.all(own.slice(0, 5));
  });

  it("answers everyone when the model falls silent, and asks again when it speaks.", async () => {
    const slots = { permits: 10, size: 26 };
    const breaker = { ...DEFAULT_BREAKER, minFailures: 1_000 };
    server.behaviour = staysSilent;
    const { judge } = watchedGuard(server.url, { slots, breaker });
    const given = await Promise.all(Array.from({ length: 13 }, () => judge({ timeoutMs: 100 })));
    expect(given.slice(0, 5).map(causeOf)).to.deep.equal(Array(5).fill("timed_out"));
    // A waiter gets a permit as the first give up, or its deadline passes in the queue.
    for (const each of given.slice(5)) expect(causeOf(each)).to.be.oneOf(["timed_out", "too_busy"]);
    await server.idle();
    server.behaviour = judges();
    const again = await Promise.all(Array.from({ length: 13 }, () => judge()));
    expect(new Set(again.map(causeOf))).to.deep.equal(new Set(["verdict"]));
  });

  it("sends one question to a model that may work again, however many are asked at once.", async () => {
    server.behaviour = down;
    const { judge } = watchedGuard(server.url, { now });
    await causes(judge, minFailures);
    at += openMs;
    const before = server.asked.length;
    const found = await Promise.all(Array.from({ length: 30 }, () => judge()));
    expect(server.asked).to.have.length(before + 1);
    expect(found.map(causeOf).filter((cause) => cause === "circuit_open")).to.have.length(29);
  });
});
