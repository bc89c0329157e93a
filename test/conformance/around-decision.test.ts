/* Attacks on what stands around a decision, on every wire: what was allowed once, ended keys, approvals, names and sources. */

import { randomUUID } from "node:crypto";
import { fromBinary, type JsonObject, type JsonValue, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { messageFromPlain, plainFromMessage } from "../support/plain-json.ts";
import { type Answer, metadataWith, rpcPath, WIRES, type Wire } from "../support/wires.ts";
import { methodOf, unaryMethodOf } from "./methods.ts";
import { openService, type SharedService } from "./service.ts";

const STREAM = EnforcementService.method.interceptStream;
/** Bytes that the trailers of gRPC may carry, so that every proxy lets them pass. */
const MAX_TRAILERS = 6_000;

/** What came of an intercept: a decision, or the fault. */
interface Decided {
  readonly decision?: string;
  readonly decision_path?: string;
  readonly decision_id?: string;
  readonly escalation_id?: string;
  readonly replayed?: boolean;
  readonly reasons?: readonly { readonly would_pass?: string | null }[];
  readonly reason?: string;
  readonly message?: string;
}

/** One wire with a workspace that all attacks on it share. */
class Scene {
  readonly #service: SharedService;
  readonly #wire: Wire;
  readonly #isStream: boolean;
  readonly key: string;

  private constructor(service: SharedService, name: string, key: string) {
    this.#service = service;
    this.#isStream = name === "stream";
    this.#wire = service.wires.all.find((wire) => wire.name === (this.#isStream ? "grpc" : name)) as Wire;
    this.key = key;
  }

  static async open(name: string): Promise<Scene> {
    const service = await openService();
    const scene = new Scene(service, name, (await service.workspace()).key);
    const amount = { type: "object", properties: { amount: { type: "number" }, count: { type: "integer" } } };
    await scene.do("ToolService.RegisterTool", { name: "pay", input_schema: amount });
    await scene.do("ToolService.RegisterTool", { name: "read", input_schema: { type: "object" } });
    const on = (field: string, operator: string, value: JsonValue, on_missing?: string): JsonObject => ({
      operator: "AND",
      rules: [{ field, operator, value, ...(on_missing !== undefined && { on_missing }) }],
    });
    const rules = [
      { type: "action", decision: "block", conditions: { match_action_types: ["pay.vendor"] } },
      { type: "action", decision: "escalate", conditions: { match_action_types: ["wire.*"] } },
      { tool: "pay", decision: "block", conditions: on("amount", ">", 500, "ignore") },
      { tool: "pay", decision: "block", conditions: on("count", "<", 5, "ignore") },
      { type: "metadata", decision: "block", conditions: on("risk", ">", 50) },
    ];
    await scene.do("MandateService.CreateMandate", { name: "house rules", rules });
    return scene;
  }

  call(method: string, request: JsonObject, key = this.key): Promise<Answer> {
    return this.#wire.unary(unaryMethodOf(method), request, { key });
  }

  /** Makes a call that succeeds; gives its answer. */
  async do(method: string, request: JsonObject, key = this.key): Promise<JsonObject> {
    const { code, message, body } = await this.call(method, request, key);
    expect(code, `${method}: ${message}`).to.equal("OK");
    return body as JsonObject;
  }

  /** Registers an agent with a mandate of its own, if there are rules; gives its id. */
  async agent(...rules: readonly JsonObject[]): Promise<string> {
    const { agent } = await this.do("AgentService.RegisterAgent", { name: `agent ${randomUUID()}` });
    const { agent_id } = agent as { agent_id: string };
    const mandate = { name: randomUUID(), scope: "agent", agent_id, rules: [...rules] };
    if (rules.length > 0) await this.do("MandateService.CreateMandate", mandate);
    return agent_id;
  }

  async trustOf(agentId: string): Promise<JsonValue | undefined> {
    const { agent } = await this.do("AgentService.GetAgent", { agent_id: agentId });
    return (agent as JsonObject).trust_level;
  }

  /** Makes a credential; gives its secret and its end. */
  async credential(agentId: string) {
    const { secret, credential } = await this.do("AuthorityService.CreateCredential", { agent_id: agentId });
    const { credential_id } = credential as { credential_id: string };
    return {
      secret: secret as string,
      end: () => this.do("AuthorityService.EndCredential", { credential_id }),
    };
  }

  async intercept(request: JsonObject, key = this.key): Promise<Decided> {
    if (this.#isStream) return this.#interceptOnStream({ request_id: randomUUID(), ...request }, key);
    const { code, reason = "", message, body } = await this.call("EnforcementService.Intercept", request, key);
    return code === "OK" ? (body as Decided) : { reason, message };
  }

  #interceptOnStream(intercept: JsonObject, key: string): Promise<Decided> {
    type Request = MessageShape<typeof STREAM.input>;
    const serialize = (request: Request) => Buffer.from(toBinary(STREAM.input, request));
    const deserialize = (bytes: Buffer) =>
      plainFromMessage(STREAM.output, fromBinary(STREAM.output, bytes)) as { response?: Decided; error?: Decided };
    const { grpc } = this.#service.wires;
    const call = grpc.makeBidiStreamRequest(rpcPath(STREAM), serialize, deserialize, metadataWith(key));
    return new Promise((resolve) => {
      call.on("data", ({ response, error }) => resolve(response ?? error ?? {}));
      call.on("error", ({ details }: ServiceError) => resolve({ reason: "STREAM", message: details }));
      call.write(messageFromPlain(STREAM.input, { intercept }) as Request);
      call.end();
    });
  }

  /** What the trailers of a gRPC call that fails carry, in bytes, with its message. */
  trailersOf(method: string, request: JsonObject): Promise<{ bytes: number; message: string }> {
    const desc = methodOf(method);
    const bytes = Buffer.from(toBinary(desc.input, messageFromPlain(desc.input, request)));
    const same = (each: Buffer): Buffer => each;
    return new Promise((resolve, reject) => {
      this.#service.wires.grpc.makeUnaryRequest(rpcPath(desc), same, same, bytes, metadataWith(this.key), (error) => {
        if (error === null) return reject(new Error("the call did not fail"));
        const details = error.metadata.get("grpc-status-details-bin")[0] as Buffer | undefined;
        const base64 = Math.ceil((details?.length ?? 0) / 3) * 4;
        return resolve({ bytes: base64 + Buffer.byteLength(error.details), message: error.details });
      });
    });
  }
}

/** Checks that each request of a list gets a decision. */
async function expectAll(scene: Scene, decision: string, requests: readonly JsonObject[]): Promise<void> {
  const answers = await Promise.all(requests.map((request) => scene.intercept(request)));
  const said = answers.map((answer, at) => [JSON.stringify(requests[at]), answer.decision ?? answer.message]);
  expect(said).to.deep.equal(requests.map((request) => [JSON.stringify(request), decision]));
}

/** Checks that each request is refused because of a field, with a message that says `what`. */
async function expectRefused(scene: Scene, requests: readonly (readonly [JsonObject, RegExp])[]): Promise<void> {
  for (const [request, what] of requests) {
    const { decision, reason, message } = await scene.intercept(request);
    expect([decision, reason], JSON.stringify(request)).to.deep.equal([undefined, "INVALID_FIELD"]);
    expect(message).to.match(what);
  }
}

/** The points, each with an attack on it. `calls` are made beside intercepts, which a stream of intercepts cannot. */
const POINTS: readonly (readonly [point: string, attack: (scene: Scene) => Promise<void>, calls?: boolean])[] = [
  [
    "a repeated request_id is blocked once its agent is revoked",
    async (scene) => {
      const request = { agent_id: await scene.agent(), action_type: "mail.send", request_id: randomUUID() };
      const first = await scene.intercept(request);
      const again = await scene.intercept(request);
      await scene.do("RevocationService.RevokeAgent", { agent_id: request.agent_id });
      const after = await scene.intercept(request);
      expect([after.decision, after.decision_path]).to.deep.equal(["block", "revoked"]);
      expect(after.decision_id).not.to.equal(first.decision_id);
      expect([first.decision, again.decision, again.replayed]).to.deep.equal(["allow", "allow", true]);
      expect(again.decision_id).to.equal(first.decision_id);
    },
  ],
  [
    "a repeated request_id is blocked once its credential has ended",
    async (scene) => {
      const agent_id = await scene.agent();
      const { secret, end } = await scene.credential(agent_id);
      const request = { agent_id, action_type: "mail.send", request_id: randomUUID() };
      expect((await scene.intercept(request, secret)).decision).to.equal("allow");
      await end();
      const after = await scene.intercept(request, secret);
      expect([after.decision, after.decision_path]).to.deep.equal(["block", "credential"]);
    },
  ],
  [
    "a call under an ended credential costs no trust and counts in no limit",
    async (scene) => {
      const conditions = {
        mode: "velocity",
        match_action_types: ["limited.*"],
        max_count: 1,
        window_seconds: 3_600,
        scope: "agent",
      };
      const agent_id = await scene.agent({ type: "sequence", decision: "block", conditions });
      const { secret, end } = await scene.credential(agent_id);
      await end();
      const before = await scene.trustOf(agent_id);
      const request = { agent_id, action_type: "limited.send" };
      for (const _ of [1, 2, 3]) expect((await scene.intercept(request, secret)).decision_path).to.equal("credential");
      expect(await scene.trustOf(agent_id)).to.equal(before);
      expect((await scene.intercept(request)).decision).to.equal("allow");
      expect((await scene.intercept(request)).decision).to.equal("block");
    },
  ],
  [
    "an approval is for the metadata that was approved, traces apart",
    async (scene) => {
      const metadata = { to: "ACME", amount: 5, arguments: { lines: [1, 2] } };
      const action = { agent_id: await scene.agent(), action_type: "wire.out", metadata };
      const { escalation_id = "" } = await scene.intercept(action);
      await scene.do("EscalationService.ResolveEscalation", { escalation_id, resolution: "approved" });
      for (const more of [{ to: "EVIL" }, { amount: 6 }, { cc: "EVIL" }, { arguments: { lines: [2, 1] } }]) {
        const changed = { ...action, escalation_id, metadata: { ...metadata, ...more } };
        expect((await scene.intercept(changed)).decision, JSON.stringify(more)).to.equal("escalate");
      }
      const traced = { ...action, escalation_id, metadata: { ...metadata, traceparent: "00-1" } };
      expect((await scene.intercept(traced)).decision_path).to.equal("approved");
      expect((await scene.intercept(traced)).decision).to.equal("escalate");
    },
  ],
  [
    "a disguised action type is the plain one, or refused by its character",
    async (scene) => {
      const agent_id = await scene.agent();
      const of = (action_type: string): JsonObject => ({ agent_id, action_type });
      await expectAll(scene, "block", ["PAY.Vendor", "ｐａｙ．ｖｅｎｄｏｒ", " pay.vendor\t", "𝐩ay.vendor"].map(of));
      await expectRefused(scene, [
        [of("pay.ven\u200bdor"), /^`(intercept\.)?action_type` .*U\+200B/],
        [of("p\u0430y.vendor"), /^`(intercept\.)?action_type` .*U\+0430/],
        [of("pay\u202e.vendor"), /^`(intercept\.)?action_type` .*U\+202E/],
      ]);
    },
  ],
  [
    "a disguised tool is the plain one, or refused by its character",
    async (scene) => {
      const own = { agent_id: await scene.agent(), action_type: "call" };
      const args = { arguments: { amount: 900 } };
      const of = (tool: string): JsonObject => ({ ...own, tool, metadata: args });
      const within = (tool: string): JsonObject => ({ ...own, metadata: { ...args, tool } });
      await expectAll(scene, "block", [of("PAY"), of(" pay "), within("Pay")]);
      await expectAll(scene, "block", [{ ...own, action_type: "PAY", metadata: args }]);
      await expectRefused(scene, [
        [of("p\u200bay"), /^`(intercept\.)?tool` .*U\+200B/],
        [of("ｐａｙ"), /^`(intercept\.)?tool` .*U\+FF50/],
        [of("p\u0430y"), /^`(intercept\.)?tool` .*U\+0430/],
        [within("pay\u200b"), /^`(intercept\.)?metadata\.tool` .*U\+200B/],
      ]);
    },
  ],
  [
    "a policy for a server's tool covers every form of its name",
    async (scene) => {
      const agent_id = await scene.agent();
      const policy = { agent_id, server: "fs", tool: "write_*", decision: "block" };
      await scene.do("AuthorityService.CreateMcpToolPolicy", policy);
      const of = (tool: string, metadata: JsonObject = {}): JsonObject => ({
        agent_id,
        action_type: "call",
        tool,
        metadata,
      });
      const forms = ["fs.write_file", "mcp__fs__write_file", "fs__write_file", "fs/write_file", "FS/WRITE_FILE"];
      const servers = ["fs", "FS", " fs "].map((mcp_server) => of("write_file", { mcp_server }));
      const prefixed = [of("other/write_file", { mcp_server: "fs" }), of("fs.other/write_file")];
      await expectAll(scene, "block", [...forms.map((tool) => of(tool)), ...servers, ...prefixed]);
      await expectAll(
        scene,
        "block",
        forms.map((action_type) => ({ agent_id, action_type })),
      );
      await expectAll(scene, "allow", [of("write_file"), of("fs.read_file"), of("xfs.write_file")]);
      await expectAll(scene, "allow", [{ agent_id, action_type: "write_file" }]);
    },
  ],
  [
    "of two sources of a fact neither hides the other",
    async (scene) => {
      const agent_id = await scene.agent();
      const of = (metadata: JsonObject): JsonObject => ({ agent_id, action_type: "report", metadata });
      await expectAll(scene, "block", [
        of({ risk: 60, arguments: { risk: 1 } }),
        of({ risk: 1, arguments: { risk: 60 } }),
        of({ risk: 60, arguments: '{"risk":1}' }),
      ]);
      await expectAll(scene, "allow", [of({ risk: 50, arguments: { risk: 1 } })]);
    },
  ],
  [
    "everyone in a chain of grants restricts, and a revoked principal lends nothing",
    async (scene) => {
      const noMail = { type: "action", decision: "block", conditions: { match_action_types: ["mail.all"] } };
      const [first, middle, actor] = [await scene.agent(), await scene.agent(noMail), await scene.agent()];
      const lend = async (grantor_agent_id: string, grantee_agent_id: string, parent_grant_id?: string) => {
        const grant = { grantor_agent_id, grantee_agent_id, action_types: ["mail.*"] };
        const given = parent_grant_id === undefined ? grant : { ...grant, parent_grant_id };
        const made = (await scene.do("AuthorityService.CreateGrant", given)).grant as { grant_id: string };
        return made.grant_id;
      };
      await lend(middle, actor, await lend(first, middle));
      const other = await scene.agent();
      const alone = { agent_id: actor, action_type: "mail.send", grant_id: await lend(other, actor) };
      const of = (action_type: string): JsonObject => ({ agent_id: actor, action_type, on_behalf_of: first });
      await expectAll(scene, "allow", [alone, of("mail.send")]);
      await expectAll(scene, "block", [of("mail.all"), of("file.read")]);
      for (const agent_id of [first, other]) await scene.do("RevocationService.RevokeAgent", { agent_id });
      for (const request of [alone, of("mail.send")]) {
        const { decision, decision_path } = await scene.intercept(request);
        expect([decision, decision_path]).to.deep.equal(["block", "revoked"]);
      }
    },
  ],
  [
    "a rule that blocks still blocks once it no longer compiles",
    async (scene) => {
      const name = `t-${randomUUID()}`;
      const register = (properties: JsonObject) =>
        scene.do("ToolService.RegisterTool", { name, input_schema: { type: "object", properties } });
      await register({ sum: { type: "number" } });
      const rule = (decision: string) => ({
        tool: name,
        decision,
        conditions: { operator: "AND", rules: [{ field: "sum", operator: ">", value: 5 }] },
      });
      const [blocked, asked] = [await scene.agent(rule("block")), await scene.agent(rule("allow"))];
      await register({ total: { type: "number" } });
      const of = (agent_id: string): JsonObject => ({ agent_id, action_type: "call", tool: name });
      await expectAll(scene, "block", [of(blocked)]);
      await expectAll(scene, "escalate", [of(asked)]);
    },
  ],
  [
    "an action that is asked for again while it is pending joins its escalation, which one approval ends",
    async (scene) => {
      const action = { agent_id: await scene.agent(), action_type: "wire.again", metadata: { to: "ACME" } };
      const { escalation_id = "" } = await scene.intercept(action);
      expect((await scene.intercept(action)).escalation_id).to.equal(escalation_id);
      await scene.do("EscalationService.WithdrawEscalation", { escalation_id });
      const { escalation } = await scene.do("EscalationService.GetEscalation", { escalation_id });
      expect(escalation).to.include({ status: "pending", asked: 1 });
      await scene.do("EscalationService.ResolveEscalation", { escalation_id, resolution: "approved" });
      expect((await scene.intercept({ ...action, escalation_id })).decision_path).to.equal("approved");
      expect((await scene.intercept({ ...action, escalation_id })).decision).to.equal("escalate");
    },
  ],
  [
    "what would have passed does pass",
    async (scene) => {
      const own = { agent_id: await scene.agent(), action_type: "call", tool: "pay" };
      const of = (args: JsonObject): JsonObject => ({ ...own, metadata: { arguments: args } });
      const { reasons = [] } = await scene.intercept(of({ amount: 900, count: 7 }));
      expect(reasons.map(({ would_pass }) => would_pass)).to.deep.equal(["would allow at amount <= 500"]);
      await expectAll(scene, "allow", [of({ amount: 500, count: 7 })]);
      const both = await scene.intercept(of({ amount: 900, count: 1 }));
      expect(both.reasons?.map(({ would_pass }) => would_pass)).to.deep.equal([null, null]);
    },
  ],
  [
    "a request whose sources of the tool or the server differ is refused",
    async (scene) => {
      const own = { agent_id: await scene.agent(), action_type: "call" };
      await expectRefused(scene, [
        [{ ...own, tool: "read", metadata: { tool: "pay" } }, /metadata\.tool` names another tool/],
        [{ ...own, tool: "pay", metadata: { tool: "read" } }, /metadata\.tool` names another tool/],
        [{ ...own, tool: "pay", metadata: { tool: ["pay"] } }, /metadata\.tool` must be text/],
        [{ ...own, metadata: { mcp_server: ["fs"] } }, /metadata\.mcp_server` must be text/],
      ]);
      const names = /`tool` names `read`, but the action type is the name of the registered tool `pay`; name one tool/;
      const inMetadata = /`metadata\.tool` names `read`, but the action type is the name of the registered tool `pay`/;
      await expectRefused(scene, [
        [{ ...own, action_type: "pay", tool: "read" }, names],
        [{ ...own, action_type: " ＰAY ", tool: "read" }, names],
        [{ ...own, action_type: "Pay", metadata: { tool: "read" } }, inMetadata],
      ]);
      await expectAll(scene, "allow", [{ ...own, action_type: "read.more", tool: "pay", metadata: { amount: 1 } }]);
      await expectAll(scene, "allow", [{ ...own, action_type: "PAY", tool: "Pay", metadata: { amount: 1 } }]);
      await expectAll(scene, "allow", [{ ...own, tool: "read", metadata: { tool: "READ" } }]);
      await expectAll(scene, "allow", [{ ...own, tool: "read", metadata: { tool: null } }]);
    },
  ],
  [
    "arguments that come as text are read, and those of another form refused",
    async (scene) => {
      const own = { agent_id: await scene.agent(), action_type: "call", tool: "pay" };
      const of = (args: JsonValue): JsonObject => ({ ...own, metadata: { amount: 1, arguments: args } });
      await expectAll(scene, "block", [of('{"amount":900}'), of(' {"\\u0061mount":900}')]);
      await expectAll(scene, "allow", [of('{"amount":500}')]);
      await expectRefused(
        scene,
        [[{ amount: 900 }], '[{"amount":900}]', '{"amount":1,"amount":900}', "{", 5, true].map((args) => [
          of(args as JsonValue),
          /metadata\.arguments` /,
        ]),
      );
    },
  ],
  [
    "a number in quotes counts as the number and as the text",
    async (scene) => {
      const own = { agent_id: await scene.agent(), action_type: "report" };
      const of = (risk: JsonValue): JsonObject => ({ ...own, metadata: { risk } });
      await expectAll(scene, "block", ["900", "1e3", " 60 ", "6", "many", ""].map(of));
      await expectAll(scene, "allow", [of(50), of("40")]);
    },
  ],
  [
    "a missing fact holds for a rule that says so",
    async (scene) => {
      const conditions = {
        operator: "AND",
        rules: [{ field: "score", operator: ">", value: 50, on_missing: "violate" }],
      };
      const agent_id = await scene.agent({ type: "metadata", decision: "block", conditions });
      const of = (metadata: JsonObject): JsonObject => ({ agent_id, action_type: "report", metadata });
      await expectAll(scene, "block", [of({}), of({ score: null }), of({ Score: 1 }), of({ score: 60 })]);
      await expectAll(scene, "allow", [of({ score: 50 })]);
    },
  ],
  [
    "an integer beyond 2^53 holds for a rule that blocks",
    async (scene) => {
      const own = { agent_id: await scene.agent(), action_type: "call", tool: "pay" };
      const of = (count: number): JsonObject => ({ ...own, metadata: { arguments: { count } } });
      await expectAll(scene, "block", [of(2 ** 53), of(2 ** 53 + 2), of(1e21), of(4)]);
      await expectAll(scene, "allow", [of(2 ** 53 - 1), of(5)]);
    },
  ],
  [
    "a rule on an integer beyond 2^53 is not stored",
    async (scene) => {
      const conditions = { operator: "AND", rules: [{ field: "count", operator: ">", value: 2 ** 53 }] };
      const rules = [{ tool: "pay", decision: "block", conditions }];
      const { reason, violations } = await scene.call("MandateService.CreateMandate", { name: randomUUID(), rules });
      expect([reason, violations[0]?.reason]).to.deep.equal(["MANDATE_INVALID", "VALUE_TYPE"]);
    },
    true,
  ],
  [
    "a schema with `$async` is not stored",
    async (scene) => {
      for (const input_schema of [{ type: "object", $async: true }, { allOf: [{ $async: true }] }]) {
        const answer = await scene.call("ToolService.RegisterTool", { name: "late", input_schema });
        expect(answer.reason, JSON.stringify(input_schema)).to.equal("SCHEMA_INVALID");
        expect(answer.violations.map(({ reason }) => reason)).to.deep.equal(["AJV_KEYWORD"]);
      }
    },
    true,
  ],
  [
    "a mandate with many faults says how many more there are where they do not fit",
    async (scene) => {
      const rule = {
        type: "action",
        decision: "block",
        conditions: { match_action_types: ["*a*b*c*d*", "*e*f*g*h*"] },
      };
      const request = { name: "faulty", rules: Array<JsonObject>(50).fill(rule) };
      const { code, message, violations } = await scene.call("MandateService.CreateMandate", request);
      expect(code).to.equal("INVALID_ARGUMENT");
      const trailers = await scene.trailersOf("MandateService.CreateMandate", request);
      expect(trailers.bytes).to.be.at.most(MAX_TRAILERS);
      const [, more = ""] = /(\d+) more violations are left out/.exec(trailers.message) ?? [];
      expect(Number(more), trailers.message).to.be.within(1, 99);
      const said = /(\d+) more violations are left out/.exec(message)?.[1] ?? "0";
      expect(violations.length + Number(said)).to.equal(100);
    },
    true,
  ],
  [
    "a field that is missing is named with what it needs",
    async (scene) => {
      const agent_id = await scene.agent();
      await expectRefused(scene, [
        [{ agent_id }, /^`(intercept\.)?action_type` is required/],
        [{ action_type: "call" }, /^`(intercept\.)?agent_id` is required/],
      ]);
    },
  ],
];

for (const name of [...WIRES, "stream"]) {
  describe(`around the decision, over ${name === "stream" ? "InterceptStream" : name}`, () => {
    let scene: Scene;
    before("opens a workspace", async () => {
      scene = await Scene.open(name);
    });

    for (const [point, attack, isBesideIntercepts = false] of POINTS) {
      if (isBesideIntercepts && name === "stream") continue;
      it(`${point}.`, () => attack(scene));
    }
  });
}
