import { expect } from "chai";
import {
  AgentBlockedError,
  type ControlPlane,
  ControlPlaneRequestError,
  createControlPlane,
  EscalationTimeoutError,
} from "../../src/client/index.ts";
import { until } from "../support/harness.ts";
import type { TestService } from "../support/service.ts";
import { morePieces, NOWHERE, rejection, startRuledService } from "./harness.ts";
import { type HttpProxy, type StreamHabit, startHttpProxy } from "./http-proxy.ts";

describe("waitForEscalation", () => {
  let service: TestService;
  let agentId: string;
  const proxies: HttpProxy[] = [];

  before("starts a server", async () => {
    service = await startRuledService({ ACP_STREAM_HEARTBEAT_MS: "100" });
    agentId = await service.agent();
  });
  after("stops the server", () => service?.stop());
  afterEach("closes the proxies", () => {
    for (const proxy of proxies.splice(0)) proxy.close();
  });

  const escalate = async (): Promise<string> => {
    const action = { actionType: "review.pay", actionContent: "", agentId };
    return (await service.admin.intercept(action)).escalationId ?? "";
  };

  const through = async (habit: StreamHabit): Promise<{ proxy: HttpProxy; controlPlane: ControlPlane }> => {
    const proxy = await startHttpProxy(service.http, habit);
    proxies.push(proxy);
    return { proxy, controlPlane: createControlPlane({ baseUrl: proxy.url, apiKey: service.adminKey }) };
  };

  for (const verdict of ["approved", "rejected"] as const) {
    it(`gives ${verdict} over the stream, heartbeats in between, without a look at the status`, async () => {
      const { proxy, controlPlane } = await through("passes");
      const escalationId = await escalate();
      const waiting = controlPlane.waitForEscalation(escalationId, { pollInterval: 30 });
      await morePieces(proxy, 3);
      await service.resolve(escalationId, verdict);
      expect(await waiting).to.equal(verdict);
      expect(proxy.countOf("GetEscalationStatus")).to.equal(0);
      expect(proxy.countOf("WaitEscalation")).to.equal(1);
    });

    it(`gives ${verdict} at once for an escalation that is resolved already`, async () => {
      const escalationId = await escalate();
      await service.resolve(escalationId, verdict);
      expect(await service.admin.waitForEscalation(escalationId)).to.equal(verdict);
    });
  }

  for (const habit of ["cuts", "holds back"] as const) {
    it(`polls when something on the way ${habit} streams`, async () => {
      const { proxy, controlPlane } = await through(habit);
      const escalationId = await escalate();
      const waiting = controlPlane.waitForEscalation(escalationId, { pollInterval: 0.05 });
      await until(() => proxy.countOf("GetEscalationStatus") >= 3);
      await service.resolve(escalationId, "approved");
      expect(await waiting).to.equal("approved");
    });
  }

  it("tries the stream again and stops polling once it is whole", async () => {
    const { proxy, controlPlane } = await through("cuts");
    const escalationId = await escalate();
    const waiting = controlPlane.waitForEscalation(escalationId, { pollInterval: 0.05 });
    await until(() => proxy.countOf("GetEscalationStatus") >= 3);
    proxy.habit = "passes";
    const streams = proxy.countOf("WaitEscalation");
    await until(() => proxy.countOf("WaitEscalation") > streams);
    await morePieces(proxy, 3);
    const polls = proxy.countOf("GetEscalationStatus");
    await morePieces(proxy, 3);
    expect(proxy.countOf("GetEscalationStatus")).to.equal(polls);
    await service.resolve(escalationId, "rejected");
    expect(await waiting).to.equal("rejected");
  });

  it("looks at the status at least once, however short the wait", async () => {
    const { controlPlane } = await through("holds back");
    const escalationId = await escalate();
    await service.resolve(escalationId, "approved");
    expect(await controlPlane.waitForEscalation(escalationId, { timeout: 2, pollInterval: 60 })).to.equal("approved");
  });

  it("outlives a control plane that is away for a while", async () => {
    let isAway = true;
    let attempts = 0;
    const flaky = ((input: string, init?: RequestInit) => {
      attempts += 1;
      return isAway ? Promise.reject(new TypeError("fetch failed")) : fetch(input, init);
    }) as typeof fetch;
    const { http, adminKey } = service;
    const controlPlane = createControlPlane({ baseUrl: http, apiKey: adminKey, fetch: flaky });
    const escalationId = await escalate();
    await service.resolve(escalationId, "approved");
    const waiting = controlPlane.waitForEscalation(escalationId, { pollInterval: 0.05 });
    await until(() => attempts >= 3);
    isAway = false;
    expect(await waiting).to.equal("approved");
  });

  it("throws EscalationTimeoutError, which is an AgentBlockedError, when nobody resolves in time", async () => {
    const escalationId = await escalate();
    const error = await rejection(service.admin.waitForEscalation(escalationId, { timeout: 0.2 }));
    expect(error).to.be.instanceOf(EscalationTimeoutError).and.instanceOf(AgentBlockedError);
    expect(error).to.include({ escalationId, timeout: 0.2, name: "EscalationTimeoutError" });
  });

  it("names the last fault when the time passed with the control plane away", async () => {
    const away = createControlPlane({ baseUrl: NOWHERE, apiKey: "none" });
    const error = await rejection(away.waitForEscalation("esc_any", { timeout: 0.3, pollInterval: 0.1 }));
    expect(error).to.be.instanceOf(EscalationTimeoutError);
    expect(error.cause).to.be.instanceOf(ControlPlaneRequestError).with.property("code", "UNAVAILABLE");
  });

  it("rejects at once for an escalation that does not exist", async () => {
    const error = await rejection(service.admin.waitForEscalation("esc_unknown"));
    expect(error).to.be.instanceOf(ControlPlaneRequestError).and.include({ reason: "ESCALATION_NOT_FOUND" });
  });

  it("rejects with the signal's reason when it is aborted before or while it waits", async () => {
    const escalationId = await escalate();
    const reason = new Error("the run was stopped");
    const aborted = service.admin.waitForEscalation(escalationId, { signal: AbortSignal.abort(reason) });
    expect(await rejection(aborted)).to.equal(reason);
    const leaving = new AbortController();
    const { proxy, controlPlane } = await through("passes");
    const waiting = rejection(controlPlane.waitForEscalation(escalationId, { signal: leaving.signal }));
    await morePieces(proxy, 1);
    leaving.abort(reason);
    expect(await waiting).to.equal(reason);
  });

  for (const options of [{ timeout: -1 }, { timeout: Number.NaN }, { pollInterval: 0 }]) {
    it(`refuses ${JSON.stringify(options)}`, async () => {
      const error = await rejection(service.admin.waitForEscalation("esc_any", options));
      expect(error).to.be.instanceOf(RangeError);
    });
  }
});
