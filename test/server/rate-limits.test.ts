import { randomUUID } from "node:crypto";
import { request } from "node:http";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { ControlPlaneError } from "../../src/errors.ts";
import { type RatedCaller, RateLimits, type RateLimitsOptions } from "../../src/server/rate-limits.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { ADMIN_KEY, type Harness, startHarness, WIRES } from "./harness.ts";

const GOOD = { actionType: "send", agentId: "agt_1" };

describe("limits of the rate of calls", () => {
  let nowMs: number;
  const limits = (options: Partial<RateLimitsOptions>): RateLimits =>
    new RateLimits({ perKey: null, perWorkspace: null, perProcess: null, now: () => nowMs, ...options });
  const caller = (keyId = "key_1", workspaceId = "default"): RatedCaller => ({ keyId, workspaceId });
  const outcome = (of: RateLimits, by: RatedCaller = caller()): string => {
    try {
      of.count(by);
      return "counted";
    } catch (error) {
      return (error as ControlPlaneError).metadata.limit ?? String(error);
    }
  };
  beforeEach(() => {
    nowMs = 1_000;
  });

  it("admit a burst, then the rate.", () => {
    const of = limits({ perKey: { perSecond: 4, burst: 3 } });
    expect([1, 2, 3, 4].map(() => outcome(of))).to.deep.equal(["counted", "counted", "counted", "key"]);
    nowMs += 249;
    expect(outcome(of)).to.equal("key");
    nowMs += 1;
    expect([outcome(of), outcome(of)]).to.deep.equal(["counted", "key"]);
    nowMs += 60_000;
    expect([1, 2, 3, 4].map(() => outcome(of))).to.deep.equal(["counted", "counted", "counted", "key"]);
  });

  it("say when the next call is admitted, in whole seconds.", () => {
    const of = limits({ perKey: { perSecond: 0.2, burst: 1 } });
    of.count(caller());
    nowMs += 1_500;
    try {
      of.count(caller());
      expect.fail("it was counted");
    } catch (error) {
      const { message, metadata } = error as ControlPlaneError;
      expect(message).to.equal(
        "the key has used up its rate (`ACP_RATE_LIMIT_KEY`: 0.2 calls a second, 1 at once); retry in 4 s",
      );
      const rate = { setting: "ACP_RATE_LIMIT_KEY", per_second: "0.2", burst: "1" };
      expect(metadata).to.deep.equal({ limit: "key", ...rate, retry_after_seconds: "4" });
    }
  });

  it("count keys, workspaces and the process apart, and a refused call in none.", () => {
    const one = { perSecond: 1, burst: 1 };
    const of = limits({
      perKey: one,
      perWorkspace: { perSecond: 1, burst: 2 },
      perProcess: { perSecond: 1, burst: 3 },
    });
    expect(outcome(of, caller("key_1"))).to.equal("counted");
    for (let n = 0; n < 10; n++) expect(outcome(of, caller("key_1"))).to.equal("key");
    expect(outcome(of, caller("key_2"))).to.equal("counted");
    expect(outcome(of, caller("key_3"))).to.equal("workspace");
    expect(outcome(of, caller("key_1", "other"))).to.equal("counted");
    expect(outcome(of, caller("key_2", "other"))).to.equal("process");
  });

  it("let a person at the dashboard through whatever others do.", () => {
    const of = limits({ perKey: { perSecond: 1, burst: 5 }, perWorkspace: { perSecond: 1, burst: 1 } });
    expect(outcome(of)).to.equal("counted");
    const person = { ...caller("key_9"), isSignIn: true };
    expect(outcome(of, person)).to.equal("counted");
    for (let n = 0; n < 4; n++) of.count(person);
    expect(outcome(of, person)).to.equal("key");
  });

  it("of a workspace hold beside those of the process, and only there.", () => {
    const own = { perKey: { perSecond: 1, burst: 1 }, perWorkspace: { perSecond: 1, burst: 2 } };
    const none = { perKey: null, perWorkspace: null };
    const of = limits({
      perKey: { perSecond: 1, burst: 3 },
      ownRates: (workspaceId) => (workspaceId === "default" ? own : none),
    });
    expect([1, 2].map(() => outcome(of, caller("key_1")))).to.deep.equal(["counted", "key"]);
    expect([2, 3].map((n) => outcome(of, caller(`key_${n}`)))).to.deep.equal(["counted", "workspace"]);
    const elsewhere = [1, 2, 3, 4].map(() => outcome(of, caller("key_1", "other")));
    expect(elsewhere).to.deep.equal(["counted", "counted", "counted", "key"]);
    for (let n = 0; n < 3; n++) expect(outcome(of, { ...caller("key_9"), isSignIn: true })).to.equal("counted");
  });

  it("of a workspace begin anew when they change, and else go on.", () => {
    let own = { perKey: { perSecond: 1, burst: 1 }, perWorkspace: null };
    const of = limits({ ownRates: () => own });
    expect([1, 2].map(() => outcome(of))).to.deep.equal(["counted", "key"]);
    own = { perKey: { perSecond: 1, burst: 1 }, perWorkspace: null };
    expect(outcome(of)).to.equal("key");
    own = { perKey: { perSecond: 1, burst: 2 }, perWorkspace: null };
    expect([1, 2, 3].map(() => outcome(of))).to.deep.equal(["counted", "counted", "key"]);
  });

  it("forget quiet keys, so that many keys fill no memory.", () => {
    const of = limits({ perKey: { perSecond: 0.001, burst: 1 } });
    for (let n = 0; n < 20_000; n++) of.count(caller(`key_${n}`));
    expect(outcome(of, caller("key_19999"))).to.equal("key");
    expect(outcome(of, caller("key_0"))).to.equal("counted");
  });
});

describe("a rate of calls on every wire", () => {
  let harness: Harness;
  const start = async (perKey = { perSecond: 0.001, burst: 1 }): Promise<void> => {
    const limits = new RateLimits({ perKey, perWorkspace: null, perProcess: null });
    harness = await startHarness({ pipeline: { countCall: limits.count } });
  };
  afterEach(() => harness.stop());

  for (const wire of WIRES) {
    it(`refuses a call above it over ${wire} with the reason and when to retry.`, async () => {
      await start();
      expect((await harness.intercept(wire, GOOD)).code).to.equal("OK");
      const { code, reason, metadata } = await harness.intercept(wire, GOOD);
      expect([code, reason, metadata.limit]).to.deep.equal(["RESOURCE_EXHAUSTED", "RATE_LIMITED", "key"]);
      expect(Number(metadata.retry_after_seconds)).to.be.within(1, 1_000);
      expect(harness.seen.length).to.equal(1);
    });
  }

  it("is one over all of them.", async () => {
    await start({ perSecond: 0.001, burst: WIRES.length });
    for (const wire of WIRES) expect((await harness.intercept(wire, GOOD)).code, wire).to.equal("OK");
    for (const wire of WIRES) expect((await harness.intercept(wire, GOOD)).reason, wire).to.equal("RATE_LIMITED");
  });

  it("refuses over REST with 429 and Retry-After, before the body is there.", async () => {
    await start();
    await harness.intercept("rest", GOOD);
    const headers = { "content-type": "application/json", "x-api-key": ADMIN_KEY, "content-length": "100" };
    const { status, retryAfter } = await new Promise<{ status?: number | undefined; retryAfter?: string | undefined }>(
      (resolve, reject) => {
        const sent = request(harness.url("/v1/enforce/intercept"), { method: "POST", headers, agent: false });
        sent.once("error", reject);
        sent.once("response", ({ statusCode, headers: answered }) => {
          resolve({ status: statusCode, retryAfter: answered["retry-after"] });
          sent.destroy();
        });
        // The headers alone: the body never comes.
        sent.flushHeaders();
      },
    );
    expect(status).to.equal(429);
    expect(Number(retryAfter)).to.be.greaterThan(0);
  });

  it("leaves health and metrics alone.", async () => {
    await start();
    await harness.intercept("rest", GOOD);
    for (const path of ["/healthz", "/readyz", "/metrics"]) {
      for (let n = 0; n < 3; n++) expect((await fetch(harness.url(path))).status, path).to.equal(200);
    }
  });
});

describe("a service with a rate of calls", () => {
  let database: TestDatabase;
  let service: ServedHere;
  let agentId: string;
  let calls = 0;

  before(async () => {
    database = await createTestDatabase();
    service = await serveHere({ databaseUrl: database.url, env: { ACP_RATE_LIMIT_WORKSPACE: "0.001:4" } });
    const { agent } = (await (await send("POST", "/v1/enforce/agents", { name: "payer" })).json()) as {
      agent: { agent_id: string };
    };
    agentId = agent.agent_id;
  });
  after(async () => {
    await service.stop();
    await database.drop();
  });

  function send(method: string, path: string, body?: object): Promise<Response> {
    calls += 1;
    const headers = { "x-api-key": service.adminKey, "content-type": "application/json", "x-agent-id": agentId ?? "" };
    return fetch(service.http + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  }

  it("counts each message of a stream, and refuses one above it without ending the stream.", async () => {
    const transport = createGrpcTransport({ baseUrl: `http://${service.grpc}` });
    async function* requests() {
      for (let n = 0; n < 4; n++) yield { intercept: { agentId, actionType: "pay", requestId: randomUUID() } };
    }
    const replies = createClient(EnforcementService, transport).interceptStream(requests(), {
      headers: { "x-api-key": service.adminKey },
    });
    const cases: (string | undefined)[] = [];
    for await (const { result } of replies) cases.push(result.case);
    // Of four calls one registered the agent, and one opened the stream.
    expect(calls).to.equal(1);
    expect(cases.sort()).to.deep.equal(["error", "error", "response", "response"]);
  });

  it("counts for the gateway, the hooks and the proxy too.", async () => {
    for (const path of ["/mcp/none", "/v1/hooks/codex", "/api/redact/default/openai/v1/chat/completions"]) {
      const text = await (await send("POST", path, {})).text();
      expect(text, path).to.match(/RATE_LIMITED|used up its rate/);
    }
  });
});
