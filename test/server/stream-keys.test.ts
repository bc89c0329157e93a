import { create, type DescMethodServerStreaming, type JsonObject, type Message } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { EnforcementService, type InterceptStreamResponse } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Caller } from "../../src/api/context.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import type { KeyEndEvent } from "../../src/server/open-streams.ts";
import type { PlainJson } from "../support/plain-json.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { startService, type TestService } from "../support/service.ts";
import { type Answer, openWires, type Wire, type Wires } from "../support/wires.ts";
import { callerFor, grpcConverse, startHarness, until } from "./harness.ts";

const { watchEscalations, waitEscalation } = EscalationService.method;
const { watchAgent } = AgentService.method;
/** Streams promise one second; the rest is for a busy machine. */
const SOON_MS = 3_000;

/** An open stream of one wire. */
interface Watched {
  readonly wire: string;
  readonly messages: PlainJson[];
  /** Resolves with how it ended; undefined for success. */
  readonly end: Promise<Answer | undefined>;
}

function watch(wire: Wire, method: DescMethodServerStreaming, request: JsonObject, key: string): Watched {
  const messages: PlainJson[] = [];
  const read = async (): Promise<Answer | undefined> => {
    try {
      for await (const message of wire.stream(method, request, { key })) messages.push(message);
      return undefined;
    } catch (error) {
      return error as Answer;
    }
  };
  return { wire: wire.name, messages, end: read() };
}

describe("the key of an open stream", () => {
  let service: TestService;
  let replica: ServedHere;
  let wires: Wires;
  let agentId: string;

  before("starts two replicas on one database", async () => {
    service = await startService({ env: { ACP_STREAM_HEARTBEAT_MS: "100" } });
    const env = { ACP_ADMIN_KEY: service.adminKey, ACP_STREAM_HEARTBEAT_MS: "100" };
    replica = await serveHere({ databaseUrl: service.database.url, env });
    wires = openWires(replica);
  });
  after("stops them", async () => {
    wires?.close();
    await replica?.stop();
    await service?.stop();
  });
  beforeEach("registers an agent", async () => {
    agentId = await service.agent();
  });

  const newKey = async (fields: object): Promise<{ secret: string; keyId: string }> => {
    const { secret, key } = await service.rest("POST /v1/admin/keys", { name: "watcher", ...fields });
    return { secret: secret ?? "", keyId: (key as unknown as { key_id: string }).key_id };
  };
  const newCredential = async (fields: object = {}): Promise<{ secret: string; id: string }> => {
    const created = await service.rest("POST /v1/enforce/credentials", { agent_id: agentId, ...fields });
    const { credential_id: id } = created.credential as unknown as { credential_id: string };
    return { secret: created.secret ?? "", id };
  };
  const post = (path: string, body: object, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(service.http + path, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json", ...headers },
    });
  const onAllWires = (method: DescMethodServerStreaming, request: JsonObject, key: string): Watched[] =>
    wires.all.map((wire) => watch(wire, method, request, key));
  const areOpen = (watched: readonly Watched[]): Promise<void> =>
    until(() => watched.every(({ messages }) => messages.length > 0));

  async function expectEnded(watched: readonly Watched[]): Promise<void> {
    const since = performance.now();
    for (const { wire, end } of watched) {
      const answer = await end;
      expect([wire, answer?.code, answer?.reason]).to.deep.equal([wire, "UNAUTHENTICATED", "KEY_INVALID"]);
    }
    expect(performance.now() - since).to.be.below(SOON_MS);
  }

  it("ends a watch on every wire as soon as it is revoked on another replica.", async () => {
    const { secret, keyId } = await newKey({ role: "operator" });
    const watched = [
      ...onAllWires(watchEscalations, {}, secret),
      ...onAllWires(watchAgent, { agent_id: agentId }, secret),
    ];
    await areOpen(watched);
    await service.rest(`DELETE /v1/admin/keys/${keyId}`);
    await expectEnded(watched);
  });

  it("ends a watch on every wire when it expires.", async () => {
    const { secret } = await newKey({ role: "operator", ttl_seconds: 2 });
    const expiresAt = performance.now() + 2_000;
    const watched = onAllWires(watchEscalations, {}, secret);
    await areOpen(watched);
    for (const { end } of watched) await end;
    expect(performance.now() - expiresAt).to.be.within(-500, SOON_MS);
    await expectEnded(watched);
  });

  it("ends a watch when it is a sign-in that is ended on another replica, in one browser or in all.", async () => {
    for (const everywhere of [false, true]) {
      const signedIn = await post("/dashboard/sign-in", { key: service.adminKey });
      const [cookie = ""] = (signedIn.headers.get("set-cookie") ?? "").split(";");
      const secret = cookie.slice(cookie.indexOf("=") + 1);
      const watched = onAllWires(watchEscalations, {}, secret);
      await areOpen(watched);
      const { csrf_token: csrf } = (await signedIn.json()) as { csrf_token: string };
      const out = await post("/dashboard/sign-out", { everywhere }, { cookie, "x-csrf-token": csrf });
      expect(out.status).to.equal(200);
      await expectEnded(watched);
    }
  });

  it("ends a watch when it is a credential that is ended.", async () => {
    const { secret, id } = await newCredential();
    const watched = onAllWires(watchAgent, { agent_id: agentId }, secret);
    await areOpen(watched);
    await service.rest(`DELETE /v1/enforce/credentials/${id}`);
    await expectEnded(watched);
    for (const { messages } of watched)
      expect(messages).to.satisfy((all: { change: string }[]) => all.every(({ change }) => change !== "revoked"));
  });

  it("ends with its agent: a watch of the agent shows the revocation first.", async () => {
    const keys = [await newCredential(), await newKey({ role: "agent", agent_id: agentId })];
    const session = await service.rest("POST /v1/enforce/sessions", { agent_id: agentId, purpose: "test" });
    expect(session).to.have.property("session");
    const own = keys.flatMap(({ secret }) => onAllWires(watchAgent, { agent_id: agentId }, secret));
    const admins = onAllWires(watchAgent, { agent_id: agentId }, service.adminKey);
    await areOpen([...own, ...admins]);
    await service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, { reason: "test" });
    await expectEnded(own);
    for (const { wire, end } of admins) expect([wire, await end]).to.deep.equal([wire, undefined]);
    for (const { wire, messages } of [...own, ...admins]) {
      const kinds = (messages as { change: string }[])
        .map(({ change }) => change)
        .filter((kind) => kind !== "heartbeat");
      expect([wire, kinds]).to.deep.equal([wire, ["active", "revoked", "killed"]]);
    }
  });

  it("ends a wait for an escalation.", async () => {
    await service.rest("POST /v1/enforce/mandates", {
      name: `escalate for ${agentId}`,
      scope: "agent",
      agent_id: agentId,
      rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["*"] } }],
    });
    const asked = await service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type: "pay" });
    const { secret, keyId } = await newKey({ role: "agent", agent_id: agentId });
    const watched = onAllWires(waitEscalation, { escalation_id: asked.escalation_id ?? "" }, secret);
    await areOpen(watched);
    await service.rest(`DELETE /v1/admin/keys/${keyId}`);
    await expectEnded(watched);
  });

  describe("of InterceptStream", () => {
    /** Sends one action and gives the reply. */
    function converseWith(key: string) {
      const call = grpcConverse(wires.grpc, EnforcementService.method.interceptStream, { "x-api-key": key });
      call.on("error", () => undefined);
      let n = 0;
      const attempt = (): Promise<InterceptStreamResponse> => {
        const requestId = crypto.randomUUID();
        const intercept = { agentId, actionType: "read", requestId, actionContent: String(n++) };
        call.write(create(EnforcementService.method.interceptStream.input, { intercept }) as Message);
        return new Promise((resolve) => call.once("data", resolve));
      };
      return { attempt, close: () => call.cancel() };
    }
    const errorOf = ({ result }: InterceptStreamResponse) =>
      result.case === "error" ? result.value.reason : undefined;
    const decisionOf = ({ result }: InterceptStreamResponse) => (result.case === "response" ? result.value : undefined);

    it("is checked on each request, which is answered as Intercept answers it.", async () => {
      const { secret, keyId } = await newKey({ role: "agent", agent_id: agentId });
      const { attempt, close } = converseWith(secret);
      expect(decisionOf(await attempt())?.decision).to.equal(Decision.ALLOW);
      await service.rest(`DELETE /v1/admin/keys/${keyId}`);
      let last = await attempt();
      // The other replica hears of it within a second.
      for (const since = performance.now(); decisionOf(last) !== undefined; last = await attempt())
        expect(performance.now() - since).to.be.below(SOON_MS);
      expect(errorOf(last)).to.equal("KEY_INVALID");
      expect(errorOf(await attempt())).to.equal("KEY_INVALID");
      close();
    });

    it("gets sealed blocks once it is a credential that has ended.", async () => {
      const { secret, id } = await newCredential();
      const { attempt, close } = converseWith(secret);
      expect(decisionOf(await attempt())?.decision).to.equal(Decision.ALLOW);
      await service.rest(`DELETE /v1/enforce/credentials/${id}`);
      const refused = decisionOf(await attempt());
      expect([refused?.decision, refused?.decisionPath]).to.deep.equal([Decision.BLOCK, DecisionPath.CREDENTIAL]);
      close();
    });
  });
});

describe("the key of an open stream, without news of it", () => {
  const request = watchEscalations;

  /** A server whose only key changes with `holder`, and whose streams wait for ever. */
  async function start(holder: () => Caller | undefined, recheckMs?: number) {
    let onEnded: ((ended: KeyEndEvent) => void) | undefined;
    let subscriptions = 0;
    const harness = await startHarness({
      escalations: {
        async *watchEscalations(_request, { signal }) {
          yield { cursor: "1" };
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
        },
      },
      pipeline: {
        authenticate: (key) => (key === "test" ? holder() : callerFor(key)),
        watchKeys: async (_workspaceId, listener) => {
          onEnded = listener;
          subscriptions += 1;
          return () => {
            subscriptions -= 1;
          };
        },
        ...(recheckMs === undefined ? {} : { recheckMs }),
      },
    });
    const wires = openWires({ http: harness.url(""), grpc: `127.0.0.1:${harness.grpcPort}` });
    return {
      harness,
      all: () => wires.all.map((wire) => watch(wire, request, {}, "test")),
      end: (ended: KeyEndEvent) => onEnded?.(ended),
      subscriptions: () => subscriptions,
      async stop() {
        wires.close();
        await harness.stop();
      },
    };
  }
  const operator: Caller = { keyId: "key_1", workspaceId: "default", role: Role.OPERATOR, agentId: null };

  for (const [what, changed] of [
    ["has another role", { ...operator, role: Role.AGENT }],
    ["may still watch, with another role", { ...operator, role: Role.AUDITOR }],
    ["opens another workspace", { ...operator, workspaceId: "other" }],
    ["is bound to an agent", { ...operator, agentId: "agt_1" }],
    ["is unknown", undefined],
  ] as const) {
    it(`ends a stream on every wire at the next check once it ${what}.`, async () => {
      let holder: Caller | undefined = operator;
      const server = await start(() => holder, 20);
      const watched = server.all();
      await until(() => watched.every(({ messages }) => messages.length === 1));
      holder = changed;
      for (const { wire, end } of watched) expect([wire, (await end)?.reason]).to.deep.equal([wire, "KEY_INVALID"]);
      await until(() => server.subscriptions() === 0);
      await server.stop();
    });
  }

  it("keeps a stream open that another key's end does not concern, and while the store is away.", async () => {
    let holder: () => Caller | undefined = () => operator;
    const server = await start(() => holder(), 20);
    const watched = server.all();
    await until(() => watched.every(({ messages }) => messages.length === 1));
    expect(server.subscriptions()).to.equal(1);
    server.end({ keyIds: ["key_2"], agentId: "agt_2" });
    let lookUps = 0;
    holder = () => {
      lookUps += 1;
      throw new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, "the store is away");
    };
    await until(() => lookUps >= watched.length);
    let isOver = false;
    void Promise.race(watched.map(({ end }) => end)).then(() => {
      isOver = true;
    });
    holder = () => operator;
    await new Promise((resolve) => setImmediate(resolve));
    expect(isOver).to.equal(false);
    await server.stop();
  });

  for (const [what, most, keyOf] of [
    ["key", 4_000, () => "key_1"],
    ["workspace", 10_000, (count: number) => `key_${count}`],
  ] as const) {
    it(`bounds open streams: of one ${what} ${most} are open, and the next is refused until one ends.`, async () => {
      let count = 0;
      const server = await start(() => ({ ...operator, keyId: keyOf(count) }), 60_000);
      const { pipeline } = server.harness;
      const leave: (() => void)[] = [];
      // A bidirectional stream, whose key is not looked up again.
      const open = () =>
        pipeline.admit(EnforcementService.method.interceptStream, {
          wire: "rest",
          receivedAt: performance.now(),
          requestId: "test",
          header: (name) => (name === "x-api-key" ? "test" : undefined),
          timeoutMs: () => undefined,
          onLeave: (listener) =>
            void leave.push(() => listener(() => new ControlPlaneError(ErrorReason.CANCELLED, "left"))),
        });
      for (; count < most; count++) await open();
      const refusal = await open().catch((error: ControlPlaneError) => error);
      expect(refusal).to.include({
        message: `the ${what} holds ${most} open streams in this process, and its share is ${most} at the moment; close some, or connect to another process, or retry in 10 s`,
      });
      leave[0]?.();
      await open();
      await server.stop();
    });
  }
});
