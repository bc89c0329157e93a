import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect } from "chai";
import {
  AgentBlockedError,
  AgentStoppedError,
  AlreadyClaimedError,
  type ControlPlane,
  type ControlPlaneOptions,
  ControlPlaneRequestError,
  createControlPlane,
} from "../../src/client/index.ts";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { until } from "../support/harness.ts";
import type { TestService } from "../support/service.ts";
import type { ProcessOptions } from "./guarded-process.ts";
import { pendingEscalationOf, rejection, startRuledService } from "./harness.ts";

/** A decision as REST shows it, as far as these tests read it. */
interface Decided {
  readonly decision_id: string;
  readonly decision: string;
  readonly claim: { readonly claim_id: string } | null;
  readonly outcome: {
    readonly status: string;
    readonly amount: number | null;
    readonly error: string | null;
  } | null;
}

describe("a guarded function claims and reports", () => {
  let service: TestService;
  let agentId: string;
  before("starts a server", async () => {
    service = await startRuledService();
  });
  after("stops the server", () => service?.stop());
  beforeEach("registers an agent", async () => {
    agentId = await service.agent();
  });

  /** The agent's decisions, oldest first. */
  const decisions = async (): Promise<Decided[]> => {
    const answer = await service.rest(`GET /v1/enforce/decisions?agent_id=${agentId}`);
    return (answer as unknown as { decisions: Decided[] }).decisions.toReversed();
  };
  const lastOutcome = async () => {
    const outcome = (await decisions()).at(-1)?.outcome;
    if (outcome == null) return outcome;
    const { status, amount, error } = outcome;
    return { status, ...(amount !== null && { amount }), ...(error !== null && { error }) };
  };
  const reported = (status: string) => until(async () => (await lastOutcome())?.status === status);

  type Connect = (options?: Partial<ControlPlaneOptions>) => ControlPlane;
  const overHttp: Connect = (options) =>
    createControlPlane({ baseUrl: service.http, apiKey: service.adminKey, agentId, ...options });
  const wires: Readonly<Record<string, Connect>> = {
    Connect: overHttp,
    gRPC: (options) =>
      overHttp({
        transport: createGrpcTransport({ baseUrl: `http://${new URL(`http://${service.grpc}`).host}` }),
        ...options,
      }),
    "the intercept stream": ({ transport: _, ...options } = {}) => {
      const { http: baseUrl, grpc: grpcUrl, adminKey: apiKey } = service;
      const fetch: typeof globalThis.fetch = (input, init) => {
        if (/\/(Intercept|ClaimDecision|ReportOutcome)$/.test(String(input))) throw new Error("not over the stream");
        return globalThis.fetch(input, init);
      };
      return createNodeControlPlane({ baseUrl, grpcUrl, apiKey, agentId, fetch, ...options });
    },
  };

  for (const [wire, connect] of Object.entries(wires)) {
    describe(`over ${wire}`, () => {
      let controlPlane: ControlPlane;
      beforeEach("connects", () => {
        controlPlane = connect();
      });
      afterEach("closes", () => controlPlane.close());

      it("`succeeded` when it returns, with the amount that the options read from its result.", async () => {
        const pay = controlPlane.guard((amount: number) => Promise.resolve({ paid: amount / 2 }), {
          actionType: "pay",
          toArguments: (amount) => ({ amount }),
          amount: ({ paid }) => paid,
        });
        expect(await pay(12.5)).to.deep.equal({ paid: 6.25 });
        expect(await lastOutcome()).to.deep.equal({ status: "succeeded", amount: 6.25 });
        const [only] = await decisions();
        expect(only?.claim?.claim_id).to.match(/^[0-9a-f-]{36}$/);
        const read = controlPlane.guard(() => "a file", { actionType: "read" });
        expect(await read()).to.equal("a file");
        expect(await lastOutcome()).to.deep.equal({ status: "succeeded" });
      });

      it("`failed` when it throws, or returns what the options take for a failure, and nothing but the error's name.", async () => {
        const fault = new RangeError("the card 4111 1111 1111 1111 of ann@example.com is refused");
        const pay = controlPlane.guard(() => Promise.reject(fault), { actionType: "pay" });
        expect(await rejection(pay())).to.equal(fault);
        expect(await lastOutcome()).to.deep.equal({ status: "failed", error: "RangeError" });
        const options = { actionType: "pay", isFailure: ({ ok }: { ok: boolean }) => !ok, amount: () => 5 };
        expect(await controlPlane.guard(() => ({ ok: false }), options)()).to.deep.equal({ ok: false });
        expect(await lastOutcome()).to.deep.equal({ status: "failed" });
      });

      it("`cancelled` when it gives up at the caller's signal, and when the agent must stop.", async () => {
        const leaving = new AbortController();
        const running = Promise.withResolvers<void>();
        const work = controlPlane.guardWithSignal(
          (signal) => {
            running.resolve();
            return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
          },
          { actionType: "work", toArguments: () => ({}) },
        );
        const outcome = rejection(work.with({ signal: leaving.signal })());
        await running.promise;
        const reason = new Error("enough");
        leaving.abort(reason);
        expect(await outcome).to.equal(reason);
        await reported("cancelled");
        expect(await lastOutcome()).to.deep.equal({ status: "cancelled", error: "Error" });
        const stopping = rejection(work());
        await until(async () => (await decisions()).length === 2);
        await service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, {});
        expect(await stopping).to.be.instanceOf(AgentStoppedError);
        await reported("cancelled");
      });

      it("nothing after a time-out, since the action may have taken effect.", async () => {
        const faults = [
          AbortSignal.timeout(1),
          Object.assign(new Error("no answer"), { code: "ETIMEDOUT" }),
          new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "UND_ERR_HEADERS_TIMEOUT" }) }),
        ];
        for (const fault of faults) {
          const call = controlPlane.guard(
            async () => {
              if (fault instanceof Error) throw fault;
              await until(() => fault.aborted);
              throw fault.reason;
            },
            { actionType: "pay" },
          );
          await rejection(call());
          expect(await lastOutcome()).to.deep.equal({ status: "pending" });
        }
      });

      it("the run after an approval, which `:claim` claims.", async () => {
        const claims: string[] = [];
        const pay = controlPlane.guard(() => "paid", {
          actionType: "review.pay",
          onDecision: ({ claimed }) => claims.push(String(claimed)),
        });
        const outcome = pay();
        await service.resolve(await pendingEscalationOf(service.admin, agentId), "approved");
        expect(await outcome).to.equal("paid");
        expect(claims).to.deep.equal(["null", "null"]);
        const [asked, allowed] = await decisions();
        expect([asked?.claim, asked?.outcome, allowed?.outcome?.status]).to.deep.equal([null, null, "succeeded"]);
        expect(allowed?.claim?.claim_id).to.match(/^[0-9a-f-]{36}$/);
      });

      it("claims alone with `report: false`, also after an approval, and says so: no outcome is tracked.", async () => {
        for (const actionType of ["pay", "review.pay"]) {
          const outcome = controlPlane.guard(() => "paid", { actionType, report: false })();
          if (actionType !== "pay")
            await service.resolve(await pendingEscalationOf(service.admin, agentId), "approved");
          expect(await outcome).to.equal("paid");
          const last = (await decisions()).at(-1);
          expect([last?.decision, last?.claim === null, last?.outcome]).to.deep.equal(["allow", false, null]);
        }
      });

      it("once for two calls with the same request id: the other says who runs it.", async () => {
        let runs = 0;
        const others = [connect(), connect()];
        const requestId = randomUUID();
        const calls = [controlPlane, ...others].map((each) =>
          each.guard(() => ++runs, { actionType: "pay", requestId })(),
        );
        const settled = await Promise.allSettled(calls);
        for (const each of others) each.close();
        expect(runs).to.equal(1);
        const errors = settled.flatMap((each) => (each.status === "rejected" ? [each.reason as Error] : []));
        expect(errors).to.have.length(2);
        for (const error of errors) {
          expect(error).to.be.instanceOf(AlreadyClaimedError).and.instanceOf(AgentBlockedError);
          expect(error.message).to.match(/^`pay` does not run: decision `dec_\w+` is claimed by another call/);
          expect((error as AgentBlockedError).forModel).not.to.match(/dec_/);
        }
        expect(await lastOutcome()).to.deep.equal({ status: "succeeded" });
      });
    });
  }

  describe("and does not run, but reports `cancelled`,", () => {
    it("if a hook throws, the arguments change or the caller leaves after the claim.", async () => {
      const leaving = new AbortController();
      const args = { amount: 1 };
      const breaking = [
        () => Promise.reject(new Error("the audit is away")),
        () => void Object.assign(args, { amount: 2 }),
        () => leaving.abort(new Error("rather not")),
      ];
      for (const [index, onDecision] of breaking.entries()) {
        const runs: unknown[] = [];
        const pay = overHttp().guard((given: typeof args) => runs.push(given), { actionType: "pay", onDecision });
        await rejection(pay.with(index === 2 ? { signal: leaving.signal } : {})(args));
        await reported("cancelled");
        expect(await lastOutcome()).to.deep.equal({ status: "cancelled", error: "did not run" });
        expect(runs).to.deep.equal([]);
      }
    });

    it("if the caller leaves while the claim is answered.", async () => {
      for (const method of ["Intercept", "ClaimDecision"]) {
        const leaving = new AbortController();
        const fetch: typeof globalThis.fetch = async (input, init) => {
          const response = await globalThis.fetch(input, init);
          const isIt = String(input).endsWith(`/${method}`) && (await decisions()).at(-1)?.claim !== null;
          if (isIt) leaving.abort(new Error("rather not"));
          return response;
        };
        let runs = 0;
        const actionType = method === "Intercept" ? "pay" : "review.pay";
        const call = overHttp({ fetch }).guard(() => ++runs, { actionType, signal: leaving.signal })();
        const refused = rejection(call);
        if (method !== "Intercept")
          await service.resolve(await pendingEscalationOf(service.admin, agentId), "approved");
        expect((await refused).message).to.equal("rather not");
        await reported("cancelled");
        expect(runs).to.equal(0);
      }
    });
  });

  describe("and runs nothing", () => {
    /** A client whose claims of their own fail; the hook sees whether one was sent. */
    const failing = (fault: Error, sent: string[] = []): ControlPlane => {
      const fetch: typeof globalThis.fetch = (input, init) => {
        if (!String(input).endsWith("/ClaimDecision")) return globalThis.fetch(input, init);
        sent.push(String(input));
        return Promise.reject(new TypeError("fetch failed", { cause: fault }));
      };
      return overHttp({ fetch, timeoutMs: 300 });
    };

    it("if the claim has no answer, whatever `onUnreachable` says.", async () => {
      const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED", syscall: "connect" });
      for (const fault of [refused, Object.assign(new Error("cut"), { code: "UND_ERR_SOCKET" })]) {
        agentId = await service.agent();
        const sent: string[] = [];
        let runs = 0;
        const options = { actionType: "review.pay", onUnreachable: "allow", onUnchecked: () => void ++runs } as const;
        const outcome = rejection(failing(fault, sent).guard(() => ++runs, options)());
        await service.resolve(await pendingEscalationOf(service.admin, agentId), "approved");
        const error = await outcome;
        expect(error).to.be.instanceOf(AgentBlockedError).with.property("decision", null);
        expect(error.message).to.match(/^`review\.pay` does not run: its claim has no answer: /);
        expect(error.cause).to.be.instanceOf(ControlPlaneRequestError);
        expect(runs).to.equal(0);
        expect(sent.length).to.be.above(1);
      }
    });

    it("if an earlier call may have claimed the action, and no connection can be made.", async () => {
      const fetch = () =>
        Promise.reject(
          new TypeError("fetch failed", {
            cause: Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED", syscall: "connect" }),
          }),
        );
      const away = overHttp({ fetch, timeoutMs: 200 });
      let runs = 0;
      const pay = away.guard(() => ++runs, { actionType: "pay", onUnreachable: "allow", abortWhenRevoked: false });
      for (const given of [{ requestId: randomUUID() }, { escalationId: "esc_1" }])
        expect(await rejection(pay.with(given)())).to.be.instanceOf(AgentBlockedError);
      expect(runs).to.equal(0);
      expect(await pay()).to.equal(1);
    });

    it("if the agent is revoked between allow and claim.", async () => {
      let runs = 0;
      const onDecision = async ({ decision }: { decision: string }) => {
        if (decision === "allow") await service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, {});
      };
      const outcome = rejection(overHttp().guard(() => ++runs, { actionType: "review.pay", onDecision })());
      await service.resolve(await pendingEscalationOf(service.admin, agentId), "approved");
      const error = (await outcome) as AgentBlockedError;
      expect(error).to.be.instanceOf(AgentBlockedError).with.property("decision", "block");
      expect(error.message).to.match(/does not run: decision `dec_\w+` may not be run: .*revoked/);
      expect(error.forModel)
        .to.match(/revoked/)
        .and.not.match(/dec_/);
      expect(runs).to.equal(0);
      expect((await decisions()).at(-1)).to.deep.include({ decision: "allow", claim: null });
    });

    it("if a service that knows no claims allows the action.", async () => {
      const controlPlane: ControlPlane = Object.create(overHttp());
      const { intercept } = controlPlane;
      controlPlane.intercept = (action, options) => intercept({ ...action, claimId: undefined }, options);
      controlPlane.claim = () => Promise.reject(new ControlPlaneRequestError("UNIMPLEMENTED", "HTTP 404"));
      const { guard } = await import("../../src/client/guard.ts");
      let runs = 0;
      expect(await rejection(guard(controlPlane, () => ++runs, { actionType: "pay" })())).to.include({
        code: "UNIMPLEMENTED",
      });
      expect(runs).to.equal(0);
    });
  });

  describe("and tells once of a report", () => {
    const warned = (fetch?: typeof globalThis.fetch) => {
      const warnings: string[] = [];
      const controlPlane = overHttp({
        onWarning: (text) => void warnings.push(text),
        timeoutMs: 400,
        ...(fetch && { fetch }),
      });
      return { controlPlane, warnings };
    };

    it("that cannot be delivered, after it was tried again; the result stays the tool's.", async () => {
      let tries = 0;
      const { controlPlane, warnings } = warned((input, init) => {
        if (!String(input).endsWith("/ReportOutcome")) return fetch(input, init);
        tries += 1;
        throw new TypeError("fetch failed", { cause: Object.assign(new Error("cut"), { code: "UND_ERR_SOCKET" }) });
      });
      expect(await controlPlane.guard(() => "paid", { actionType: "pay" })()).to.equal("paid");
      const fault = new Error("own fault");
      expect(await rejection(controlPlane.guard(() => Promise.reject(fault), { actionType: "pay" })())).to.equal(fault);
      expect(tries).to.be.above(3);
      expect(warnings).to.have.length(2);
      expect(warnings[0]).to.match(/^the outcome `succeeded` of `pay` \(decision `dec_\w+`\) is not reported: /);
      expect(warnings[1]).to.match(/^the outcome `failed` of /);
      expect(await lastOutcome()).to.deep.equal({ status: "pending" });
    });

    it("that another one forestalled.", async () => {
      const { controlPlane, warnings } = warned();
      const settle = async () => {
        const [only] = await decisions();
        await service.rest(`POST /v1/enforce/decisions/${only?.decision_id}/outcome`, { status: "failed" });
        return "paid";
      };
      expect(await controlPlane.guard(settle, { actionType: "pay" })()).to.equal("paid");
      expect(warnings).to.have.length(1);
      expect(warnings[0]).to.contain("was reported before as `failed`; the first report stands");
    });

    it("whose amount is none or is refused, and reports without it; a hook that throws changes nothing.", async () => {
      const amounts: readonly (() => number | undefined)[] = [
        () => Number.NaN,
        () => -1,
        () => 0.12345678,
        () => 1e12,
        () => "7" as unknown as number,
        () => {
          throw new Error("no amount");
        },
      ];
      for (const amount of amounts) {
        const { controlPlane, warnings } = warned();
        expect(await controlPlane.guard(() => "paid", { actionType: "pay", amount })()).to.equal("paid");
        expect(await lastOutcome()).to.deep.equal({ status: "succeeded" });
        expect(warnings).to.have.length(1);
      }
      const onWarning = () => {
        throw new Error("nobody listens");
      };
      const pay = overHttp({ onWarning }).guard(() => "paid", { actionType: "pay", amount: () => Number.NaN });
      expect(await pay()).to.equal("paid");
    });
  });

  it("an error's name only if it is one.", async () => {
    const secret = "Bearer sk-1234567890 of https://user:password@bank.example";
    const faults: readonly unknown[] = [
      Object.assign(new Error("x"), { name: secret }),
      Object.assign(new Error("x"), { name: "A".repeat(2_000) }),
      Object.assign(new Error("x"), { name: { toString: () => secret } }),
      secret,
      undefined,
    ];
    const told: (string | undefined)[] = [];
    for (const fault of faults) {
      await overHttp()
        .guard(() => Promise.reject(fault), { actionType: "pay" })()
        .catch(() => undefined);
      told.push((await lastOutcome())?.error);
    }
    expect(told).to.deep.equal(["Error", "Error", "Error", "string", "undefined"]);
  });

  it("a function that goes on after its agent was stopped when it ends.", async () => {
    const [running, end] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
    const work = overHttp().guard(
      () => {
        running.resolve();
        return end.promise;
      },
      { actionType: "work" },
    );
    const outcome = rejection(work());
    await running.promise;
    await service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, {});
    expect(await outcome).to.be.instanceOf(AgentStoppedError);
    expect(await lastOutcome()).to.deep.equal({ status: "pending" });
    end.resolve("done after all");
    await reported("succeeded");
  });

  describe("and as a process of its own", () => {
    let folder: string;
    let file: string;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), "acp-guarded-"));
    });
    after(() => rm(folder, { recursive: true, force: true }));
    beforeEach(() => {
      file = join(folder, randomUUID());
    });

    const runs = (): number => (existsSync(file) ? readFileSync(file, "utf8").split("\n").length - 1 : 0);
    /** Starts the process; resolves with its first line, with which it ends or stays somewhere. */
    const started = async (options: Pick<ProcessOptions, "requestId" | "staysAt" | "grpcUrl">) => {
      const given: ProcessOptions = { baseUrl: service.http, apiKey: service.adminKey, agentId, file, ...options };
      const program = join(import.meta.dirname, "guarded-process.ts");
      const child = spawn(process.execPath, [program, JSON.stringify(given)], { stdio: ["ignore", "pipe", "inherit"] });
      const ended = new Promise((resolve) => child.once("exit", resolve));
      const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
      const { value } = (await lines.next()) as { value?: string };
      const kill = async () => {
        child.kill("SIGKILL");
        await ended;
      };
      return { line: value, kill, ended };
    };

    for (const wire of ["HTTP", "the intercept stream"]) {
      const address = () => (wire === "HTTP" ? {} : { grpcUrl: service.grpc });

      it(`over ${wire} runs at most once wherever it is killed: never again with the same request id.`, async () => {
        for (const staysAt of ["decided", "ran"] as const) {
          agentId = await service.agent();
          file = join(folder, randomUUID());
          const requestId = randomUUID();
          const first = await started({ requestId, staysAt, ...address() });
          expect(first.line).to.equal(staysAt);
          await first.kill();
          expect(runs()).to.equal(staysAt === "ran" ? 1 : 0);
          const second = await started({ requestId, ...address() });
          await second.ended;
          expect(second.line).to.equal("AlreadyClaimedError");
          expect(runs()).to.equal(staysAt === "ran" ? 1 : 0);
          expect(await lastOutcome()).to.deep.equal({ status: "pending" });
        }
      });

      it(`over ${wire} runs once where several start with one request id.`, async () => {
        const requestId = randomUUID();
        const all = await Promise.all([1, 2, 3].map(() => started({ requestId, ...address() })));
        await Promise.all(all.map(({ ended }) => ended));
        expect(all.map(({ line }) => line).sort()).to.deep.equal([
          "AlreadyClaimedError",
          "AlreadyClaimedError",
          "paid",
        ]);
        expect(runs()).to.equal(1);
        expect(await lastOutcome()).to.deep.equal({ status: "succeeded" });
      });
    }
  });
});
