import { randomUUID } from "node:crypto";
import { fromBinary, fromJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import { AuthorityService } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import {
  EnforcementService,
  InterceptRequestSchema,
  ObservationSource,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ConditionsSchema, MandateService, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ToolService } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import {
  type ControlPlane,
  ControlPlaneRequestError,
  createControlPlane,
  type InterceptAction,
  type InterceptOptions,
} from "../../src/client/index.ts";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import type { TestService } from "../support/service.ts";
import { NOWHERE, rejection, startRuledService } from "./harness.ts";

interface Refusal {
  readonly description: string;
  readonly action: Partial<InterceptAction>;
  readonly want: { readonly code: string; readonly reason: string };
  readonly field?: string;
}

const REFUSALS: readonly Refusal[] = [
  {
    description: "an unknown agent",
    action: { agentId: "agt_unknown" },
    want: { code: "NOT_FOUND", reason: "AGENT_NOT_FOUND" },
  },
  {
    description: "an empty action type",
    action: { actionType: "" },
    want: { code: "INVALID_ARGUMENT", reason: "INVALID_FIELD" },
    field: "action_type",
  },
  {
    description: "a request id that is no UUID",
    action: { requestId: "seven" },
    want: { code: "INVALID_ARGUMENT", reason: "INVALID_FIELD" },
    field: "request_id",
  },
];

const UUID_4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** The cause that Node gives a failed `fetch`. */
const faultOf = (code: string): Error => Object.assign(new Error("the connection failed"), { code });

/** Fails the first `count` calls as a broken connection does; for the `"after"` kind the server got the call. */
function flakyFetch(count: number, when: "before" | "after"): { fetch: typeof fetch; bodies: Uint8Array[] } {
  const bodies: Uint8Array[] = [];
  const flaky = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    bodies.push(init?.body as Uint8Array);
    const fails = bodies.length <= count;
    if (fails && when === "before") throw new TypeError("fetch failed", { cause: faultOf("ECONNREFUSED") });
    const response = await fetch(input, init);
    if (!fails) return response;
    await response.arrayBuffer();
    throw new TypeError("fetch failed", { cause: faultOf("UND_ERR_SOCKET") });
  };
  return { fetch: flaky, bodies };
}

describe("intercept", () => {
  let service: TestService;
  let agentId: string;

  before("starts a server", async () => {
    service = await startRuledService();
    agentId = await service.agent();
  });
  after("stops the server", () => service?.stop());

  const wires: readonly [string, () => ControlPlane][] = [
    ["over HTTP", () => createControlPlane({ baseUrl: `${service.http}/`, apiKey: service.adminKey })],
    [
      "over a gRPC stream",
      () => {
        const { http, grpc, adminKey } = service;
        return createNodeControlPlane({ baseUrl: http, grpcUrl: grpc, apiKey: adminKey });
      },
    ],
  ];

  for (const [wire, connect] of wires) {
    describe(wire, () => {
      let controlPlane: ControlPlane;

      before("connects", () => {
        controlPlane = connect();
      });
      after("closes", () => controlPlane.close());

      const intercept = (action: Partial<InterceptAction> = {}, options?: InterceptOptions) =>
        controlPlane.intercept({ actionType: "read", actionContent: "a file", agentId, ...action }, options);

      it("gives every field of the result", async () => {
        const own = await service.agent();
        const allowed = await intercept({ agentId: own });
        expect(allowed).to.include({ decision: "allow", trustScore: 50, escalationId: null, policyName: null });
        expect(allowed.decisionPath).to.equal("default");
        expect(allowed.decisionId).to.match(/^dec_/);
        expect(Number.isInteger(allowed.latencyMs)).to.equal(true);
        const escalated = await intercept({ agentId: own, actionType: "review.pay" });
        expect(escalated).to.include({ decision: "escalate", trustScore: 50.2, policyName: "house rules" });
        expect(escalated.escalationId).to.match(/^esc_/);
        const blocked = await intercept({ agentId: own, actionType: "danger.x" });
        expect(blocked).to.include({ decision: "block", trustScore: 49.7, escalationId: null, decisionPath: "policy" });
        expect(blocked.reasons[0]).to.include({ code: "ACTION_MATCHED", argument: null, rule: "rules[0]" });
      });

      it("gives the kind of a value that comes from nowhere trusted", async () => {
        const own = await service.agent();
        const tool = `send_${own}`;
        const inputSchema = { type: "object", properties: { to: { type: "string" } } };
        await controlPlane.client(ToolService).registerTool({ name: tool, inputSchema });
        const conditions = fromJson(ConditionsSchema, {
          arguments: [{ path: "to", kind: "VALUE_KIND_DESTINATION" }],
          trusted: ["prompt"],
        });
        const rules = [{ type: RuleType.PROVENANCE, tool, decision: Decision.ESCALATE, conditions }];
        await controlPlane.client(MandateService).createMandate({ name: tool, rules });
        const { session } = await controlPlane.client(AuthorityService).createSession({ agentId: own });
        const sessionId = session?.sessionId ?? "";
        const prompt = { sessionId, source: ObservationSource.PROMPT, content: "Write to ann@x.example" };
        await controlPlane.client(EnforcementService).observe(prompt);
        const metadata = { arguments: { to: "eve@x.example" } };
        const asked = await intercept({ agentId: own, actionType: "mail.send", tool, sessionId, metadata });
        expect(asked.decision).to.equal("escalate");
        expect(asked.reasons[0]).to.include({ argument: "to", valueKind: "destination" });
        const known = { ...metadata, arguments: { to: "ann@x.example" } };
        const allowed = await intercept({ agentId: own, actionType: "mail.send", tool, sessionId, metadata: known });
        expect(allowed.reasons[0]).to.include({ argument: null, valueKind: null });
      });

      it("gives the first decision again for the same request id", async () => {
        const requestId = randomUUID();
        const first = await intercept({ requestId });
        const again = await intercept({ requestId });
        expect(again.decisionId).to.equal(first.decisionId);
        const other = (await rejection(intercept({ requestId, actionType: "write" }))) as ControlPlaneRequestError;
        expect(other).to.include({ code: "ALREADY_EXISTS", reason: "REQUEST_ID_REUSED" });
      });

      it("sends a new request id with each call", async () => {
        const [first, second] = await Promise.all([intercept(), intercept()]);
        expect(first?.decisionId).not.to.equal(second?.decisionId);
      });

      for (const { description, action, want, field } of REFUSALS) {
        it(`says what is wrong with ${description}`, async () => {
          const error = (await rejection(intercept(action))) as ControlPlaneRequestError;
          expect(error).to.be.instanceOf(ControlPlaneRequestError).and.include(want);
          expect(error.message)
            .to.match(/^[^\n]+$/)
            .and.not.match(/^\[/);
          if (wire === "over HTTP" && field !== undefined) expect(error.violations[0]?.field).to.equal(field);
        });
      }

      it("rejects with the signal's reason when it is aborted before or while it waits", async () => {
        const reason = new Error("changed my mind");
        expect(await rejection(intercept({}, { signal: AbortSignal.abort(reason) }))).to.equal(reason);
        const leaving = new AbortController();
        const outcome = rejection(intercept({}, { signal: leaving.signal }));
        leaving.abort(reason);
        expect(await outcome).to.equal(reason);
      });

      it("refuses metadata that is no JSON before anything is sent", async () => {
        const circular: Record<string, unknown> = {};
        circular.self = circular;
        expect(await rejection(intercept({ metadata: circular }))).to.be.instanceOf(TypeError);
      });
    });
  }

  it("says which key is refused, on both wires", async () => {
    const { http, grpc } = service;
    for (const grpcUrl of [undefined, grpc]) {
      const stranger = createNodeControlPlane({ baseUrl: http, grpcUrl, apiKey: "unknown-key-of-nobody" });
      const error = await rejection(stranger.intercept({ actionType: "read", actionContent: "", agentId }));
      expect(error)
        .to.be.instanceOf(ControlPlaneRequestError)
        .and.include({ code: "UNAUTHENTICATED", reason: "KEY_INVALID" });
      stranger.close();
    }
  });

  for (const when of ["before", "after"] as const) {
    it(`asks again with the same request id when the connection breaks ${when} the server got the call`, async () => {
      const own = await service.agent();
      const { fetch, bodies } = flakyFetch(2, when);
      const { http, adminKey } = service;
      const controlPlane = createControlPlane({ baseUrl: http, apiKey: adminKey, fetch });
      const { decisionId } = await controlPlane.intercept({ actionType: "read", actionContent: "", agentId: own });
      expect(bodies).to.have.length(3);
      expect(new Set(bodies.map((body) => Buffer.from(body).toString("hex"))).size).to.equal(1);
      expect(await service.decisionIdsOf(own)).to.deep.equal([decisionId]);
    });
  }

  it("makes a new random request id on an insecure origin too, which has no `crypto.randomUUID`", async () => {
    const { fetch, bodies } = flakyFetch(0, "before");
    const { http, adminKey } = service;
    const controlPlane = createControlPlane({ baseUrl: http, apiKey: adminKey, fetch });
    Object.defineProperty(crypto, "randomUUID", { value: undefined, configurable: true });
    try {
      for (let call = 0; call < 50; call++)
        await controlPlane.intercept({ actionType: "read", actionContent: "", agentId });
    } finally {
      Reflect.deleteProperty(crypto, "randomUUID");
    }
    const ids = bodies.map((body) => fromBinary(InterceptRequestSchema, body).requestId ?? "");
    expect(ids.filter((id) => !UUID_4.test(id))).to.deep.equal([]);
    expect(new Set(ids).size).to.equal(50);
  });

  it("gives up with the cause when the control plane stays away", async () => {
    const away = createControlPlane({ baseUrl: NOWHERE, apiKey: "none", timeoutMs: 200 });
    const error = await rejection(away.intercept({ actionType: "read", actionContent: "", agentId }));
    expect(error).to.be.instanceOf(ControlPlaneRequestError).and.include({ code: "UNAVAILABLE", reason: null });
    expect(error.message).to.match(/^the control plane did not answer: /);
  });

  it("names the time-out when the control plane is silent", async () => {
    const silent = (_: unknown, init?: RequestInit): Promise<Response> =>
      new Promise((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
    const controlPlane = createControlPlane({ baseUrl: NOWHERE, apiKey: "none", fetch: silent as typeof fetch });
    const action = { actionType: "read", actionContent: "", agentId };
    const error = await rejection(controlPlane.intercept(action, { timeoutMs: 100 }));
    expect(error).to.be.instanceOf(ControlPlaneRequestError).with.property("code", "DEADLINE_EXCEEDED");
  });
});
