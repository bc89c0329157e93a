import { randomUUID } from "node:crypto";
import { create, fromBinary, type JsonObject, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import { EnforcementService, InterceptStreamResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { messageFromPlain, plainFromMessage } from "../support/plain-json.ts";
import { metadataWith, rpcPath, type Wire } from "../support/wires.ts";
import { type CaseRun, createCaseRun } from "./case-run.ts";
import { openService, type SharedService } from "./service.ts";

const METHOD = EnforcementService.method.interceptStream;

type Request = MessageShape<typeof METHOD.input>;

const messageFrom = (plain: JsonObject | undefined): Request =>
  plain === undefined ? create(METHOD.input) : (messageFromPlain(METHOD.input, plain) as Request);

interface Reply extends JsonObject {
  readonly request_id: string;
  readonly response: JsonObject | null;
  readonly error: JsonObject | null;
}

interface Ended {
  readonly replies: readonly Reply[];
  /** The gRPC code that the stream ended with. */
  readonly code: number;
}

/** Sends requests over one stream and reads the replies to its end. Undefined stands for a request without an action. */
function exchange(
  service: SharedService,
  key: string | null,
  requests: readonly (JsonObject | undefined)[],
): Promise<Ended> {
  const serialize = (request: Request) => Buffer.from(toBinary(METHOD.input, request));
  const deserialize = (bytes: Buffer) =>
    plainFromMessage(InterceptStreamResponseSchema, fromBinary(InterceptStreamResponseSchema, bytes)) as Reply;
  const call = service.wires.grpc.makeBidiStreamRequest(rpcPath(METHOD), serialize, deserialize, metadataWith(key));
  const replies: Reply[] = [];
  call.on("data", (reply: Reply) => replies.push(reply));
  // The code of a stream that fails comes with its status as well.
  call.on("error", () => undefined);
  const ended = new Promise<Ended>((resolve) => call.on("status", ({ code }) => resolve({ replies, code })));
  for (const request of requests) call.write(messageFrom(request));
  call.end();
  return ended;
}

async function createGrpcScene(service: SharedService): Promise<CaseRun> {
  return createCaseRun(service, service.wires.all.find(({ name }) => name === "grpc") as Wire);
}

const sorted = (replies: readonly Reply[]): Reply[] =>
  [...replies].sort((a, b) => (a.request_id < b.request_id ? -1 : 1));

describe("EnforcementService.InterceptStream over gRPC", () => {
  it("decides many actions, each reply under the id of its request", async () => {
    const service = await openService();
    const caseRun = await createGrpcScene(service);
    await caseRun.prepare(["agent", "blocking"]);
    const actions = ["mail.send", "danger.zone", "mail.read"].map((action_type) => ({
      action_type,
      agent_id: caseRun.fill("{{agent.agent.agent_id}}"),
      request_id: randomUUID(),
    }));
    const { replies, code } = await exchange(
      service,
      await caseRun.keyOf({}),
      actions.map((intercept) => ({ intercept })),
    );
    expect(code).to.equal(0);
    const decisions = actions.map(
      ({ request_id: id }) => replies.find(({ request_id }) => request_id === id)?.response?.decision,
    );
    expect(decisions).to.deep.equal(["allow", "block", "allow"]);
  });

  it("answers a request that fails with its error and goes on", async () => {
    const service = await openService();
    const caseRun = await createGrpcScene(service);
    await caseRun.prepare(["agent"]);
    const agent_id = caseRun.fill("{{agent.agent.agent_id}}");
    const ids = [1, 2, 3, 4, 5, 6].map((digit) => `00000000-0000-4000-8000-00000000000${digit}`);
    const before = await caseRun.mark();
    const { replies, code } = await exchange(service, await caseRun.keyOf({}), [
      { intercept: { agent_id: "agt_none", action_type: "a", request_id: ids[0] as string } },
      { intercept: { agent_id, action_type: "", request_id: ids[1] as string } },
      { intercept: { agent_id, action_type: "a\nb", request_id: ids[2] as string } },
      { intercept: { agent_id, action_type: "a", escalation_id: "\u0000", request_id: ids[3] as string } },
      { intercept: { agent_id, action_type: "a", action_content: "\u0000", request_id: ids[4] as string } },
      { intercept: { agent_id, action_type: "a", metadata: { to: ["\u0000"] }, request_id: ids[5] as string } },
      { intercept: { agent_id, action_type: "a" } },
      undefined,
    ]);
    expect(code).to.equal(0);
    const errors = sorted(replies).map(({ request_id, error }) => [request_id, error?.code, error?.reason]);
    expect(errors).to.deep.equal([
      ["", 3, "INVALID_FIELD"],
      ["", 3, "INVALID_FIELD"],
      [ids[0], 5, "AGENT_NOT_FOUND"],
      [ids[1], 3, "INVALID_FIELD"],
      [ids[2], 3, "INVALID_FIELD"],
      [ids[3], 3, "INVALID_FIELD"],
      [ids[4], 3, "INVALID_FIELD"],
      [ids[5], 3, "INVALID_FIELD"],
    ]);
    expect(await caseRun.mark()).to.equal(before);
  });

  it("claims and reports beside decisions, each reply under the id of its request", async () => {
    const service = await openService();
    const caseRun = await createGrpcScene(service);
    await caseRun.prepare(["agent", "allowed", "blocking", "blocked"]);
    const [allowed, blocked] = [caseRun.fill("{{allowed.decision_id}}"), caseRun.fill("{{blocked.decision_id}}")];
    const ids = [1, 2, 3, 4, 5, 6].map((digit) => `00000000-0000-4000-8000-00000000000${digit}`);
    const claim = { decision_id: allowed, claim_id: randomUUID() };
    const report = { decision_id: allowed, status: "succeeded", amount: 2 };
    const first = await exchange(service, await caseRun.keyOf({}), [{ claim, request_id: ids[0] as string }]);
    expect(first.replies[0]).to.deep.include({ request_id: ids[0], response: null, error: null });
    expect(first.replies[0]?.claim).to.deep.include({ claimed: true, report_outcome: true });
    const { replies, code } = await exchange(service, await caseRun.keyOf({}), [
      { report, request_id: ids[1] as string },
      { claim: { ...claim, claim_id: randomUUID() }, request_id: ids[2] as string },
      { report: { ...report, decision_id: blocked }, request_id: ids[3] as string },
      { report: { ...report, status: "unknown" }, request_id: ids[4] as string },
      {
        intercept: {
          agent_id: caseRun.fill("{{agent.agent.agent_id}}"),
          action_type: "a",
          request_id: ids[5] as string,
        },
      },
    ]);
    expect(code).to.equal(0);
    const [reported, other, refused, invalid, decided] = sorted(replies);
    expect((reported?.report as JsonObject | undefined)?.outcome).to.deep.include({ status: "succeeded", amount: 2 });
    expect([other, refused, invalid].map((reply) => reply?.error?.reason)).to.deep.equal([
      "ALREADY_CLAIMED",
      "NOT_ALLOWED",
      "INVALID_FIELD",
    ]);
    expect(decided?.response?.decision).to.equal("allow");
  });

  it("refuses requests that are none, several at once, or without an id of their reply", async () => {
    const service = await openService();
    const caseRun = await createGrpcScene(service);
    await caseRun.prepare(["agent", "allowed"]);
    const decision_id = caseRun.fill("{{allowed.decision_id}}");
    const [claim, report] = [
      { decision_id, claim_id: randomUUID() },
      { decision_id, status: "succeeded" },
    ];
    const intercept = {
      agent_id: caseRun.fill("{{agent.agent.agent_id}}"),
      action_type: "a",
      request_id: randomUUID(),
    };
    const request_id = randomUUID();
    const before = await caseRun.mark();
    const { replies, code } = await exchange(service, await caseRun.keyOf({}), [
      { claim },
      { report },
      { claim, report, request_id },
      { intercept, claim, request_id },
      { intercept, request_id },
      { claim, request_id: "1" },
      { request_id },
    ]);
    expect(code).to.equal(0);
    expect(replies.map(({ error }) => error?.reason)).to.deep.equal(Array.from({ length: 7 }, () => "INVALID_FIELD"));
    expect(await caseRun.mark()).to.equal(before);
  });

  it("answers a retry with the first decision, over whichever wire it came", async () => {
    const service = await openService();
    const caseRun = await createGrpcScene(service);
    await caseRun.prepare(["agent", "first_try"]);
    const intercept = {
      agent_id: "{{agent.agent.agent_id}}",
      action_type: "mail.send",
      action_content: "hello",
      request_id: "6f1c2c3e-58a4-4c55-9a51-2b7f0f6f3c11",
    };
    const before = await caseRun.mark();
    const { replies } = await exchange(service, await caseRun.keyOf({}), [{ intercept: caseRun.fill(intercept) }]);
    expect(replies[0]?.response?.decision_id).to.equal(caseRun.fill("{{first_try.decision_id}}"));
    expect(await caseRun.mark()).to.equal(before);
  });

  it("is not open to who has no key or reads only", async () => {
    const service = await openService();
    const caseRun = await createGrpcScene(service);
    await caseRun.prepare(["auditor"]);
    expect((await exchange(service, null, [])).code).to.equal(16);
    expect((await exchange(service, caseRun.fill("{{auditor.secret}}"), [])).code).to.equal(7);
  });
});
