import { create, fromJson, type JsonObject, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { ReceiptSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { MandateMode, RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionRecordSchema, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionPartsFrom, decisionRecordFrom, receiptMessageFrom } from "../../src/api/records.ts";
import { actionDigest } from "../../src/decision/action-digest.ts";
import { readReceipt } from "../../src/log/read-receipts.ts";
import type { DecisionReceipt } from "../../src/log/receipts.ts";
import { canonicalJson } from "../../src/tree/canonical.ts";
import { leafHash } from "../../src/tree/merkle.ts";
import { attempt, openWorkspace, type TestWorkspace } from "../support/harness.ts";

const PARTS: readonly { description: string; given: JsonObject | undefined; want: readonly unknown[] }[] = [
  { description: "no metadata", given: undefined, want: [undefined, undefined] },
  { description: "empty metadata", given: {}, want: [undefined, undefined] },
  { description: "metadata that are the arguments", given: { amount: 5 }, want: [{ amount: 5 }, undefined] },
  {
    description: "arguments, a tool and more",
    given: { arguments: { amount: 5 }, tool: "send", trace: "t" },
    want: [{ amount: 5 }, { trace: "t" }],
  },
  { description: "arguments and nothing else", given: { arguments: { a: 1 } }, want: [{ a: 1 }, undefined] },
  { description: "empty arguments", given: { arguments: {}, x: 1 }, want: [undefined, { x: 1 }] },
  { description: "arguments that are no object", given: { arguments: [1] }, want: [{ arguments: [1] }, undefined] },
];

describe("actionPartsFrom", () => {
  for (const { description, given, want } of PARTS) {
    it(`splits ${description}.`, () => {
      const parts = actionPartsFrom(given);
      expect([parts.arguments, parts.metadata]).to.deep.equal(want);
    });
  }
});

describe("receipts", () => {
  let test: TestWorkspace;
  let agentId: string;
  before(async () => {
    test = await openWorkspace();
    const { agents, tools, mandates } = test;
    agentId = (await agents.registerAgent({ name: "payer" })).agent?.agentId ?? "";
    await tools.registerTool({
      name: "send",
      inputSchema: { type: "object", properties: { amount: { type: "number" } } },
    });
    const cap = (decision: Decision) => ({
      tool: "send",
      decision,
      conditions: { rules: [{ field: "amount", operator: ">", value: fromJson(ValueSchema, 100) }] },
    });
    const limit = {
      type: RuleType.SEQUENCE,
      decision: Decision.BLOCK,
      conditions: {
        mode: SequenceMode.VELOCITY,
        matchActionTypes: ["send"],
        maxCount: 10n,
        windowSeconds: 60n,
        scope: Scope.WORKSPACE,
      },
    };
    await mandates.createMandate({ name: "cap", rules: [cap(Decision.ESCALATE), limit] });
    await mandates.createMandate({ name: "dry", mode: MandateMode.OBSERVE, rules: [cap(Decision.BLOCK)] });
  });
  after(() => test.close());

  async function receiptOf(amount: number): Promise<DecisionReceipt> {
    const metadata = { arguments: { amount }, trace: "t-1" };
    const { decisionId } = await attempt(test.log, { agentId, actionType: "send", actionContent: "to Bob", metadata });
    return (await readReceipt(test.database.pool, "default", decisionId)) as DecisionReceipt;
  }

  it("say everything that an entry seals.", async () => {
    const receipt = await receiptOf(500);
    const message = create(ReceiptSchema, receiptMessageFrom(receipt, "d".repeat(64)));
    expect(message.canonicalBody).to.equal(receipt.canonicalBody);
    expect(Buffer.from(message.leafHash)).to.deep.equal(leafHash(message.canonicalBody));
    expect(message.index).to.equal(BigInt(receipt.body.seq));
    expect(message.action).to.include({
      actionType: "send",
      actionContent: "to Bob",
      agentId,
      tool: "send",
      toolVersion: 1,
    });
    expect(message.action?.arguments).to.deep.equal({ amount: 500 });
    expect(message.action?.metadata).to.deep.equal({ trace: "t-1" });
    expect(message.trust).to.include({ before: 50, after: 49.5 });
    expect(message.reasons[0]).to.include({ code: "CONDITION_HELD", mandateName: "cap", argument: "amount" });
    expect(message.reasons[0]?.wouldPass).to.include("100");
    expect(message.mandates.map(({ decision }) => decision)).to.deep.equal([Decision.ESCALATE]);
    expect(message.observed.map(({ wouldDecide }) => wouldDecide)).to.deep.equal([Decision.BLOCK]);
    expect(message.authorisation?.permissions).to.equal("admitted");
    expect(message.authorisation?.collectiveLimits[0]).to.include({
      scope: Scope.WORKSPACE,
      group: "default",
      count: 1n,
      limit: 10n,
      window: 60n,
      remaining: 9n,
      rule: "rules[1]",
    });
    expect(message.toolDigest).to.equal("d".repeat(64));
    expect(message.policyDigest).to.equal((await test.log.caughtUp()).policies.policySet().digest);
    expect([message.escalationId, message.onBehalfOf]).to.deep.equal([undefined, undefined]);
    expect([message.delegationChain, message.authority]).to.deep.equal([[], []]);
    expect(message.keyId).to.equal("key_test");
    expect(message.previousSize).to.equal(message.index);
    expect(Buffer.from(message.previousRoot).toString("base64")).to.equal(receipt.body.previous_root);
    // Throws for a value that the wire cannot carry.
    toJson(ReceiptSchema, message);
  });

  it("have the digest that an approval is bound to, whether the entry seals it or not.", async () => {
    const sealed = await receiptOf(500);
    const { action_digest, ...body } = sealed.body;
    expect(action_digest).to.match(/^[0-9a-f]{64}$/);
    expect(receiptMessageFrom(sealed, undefined).actionDigest).to.equal(action_digest);
    expect(receiptMessageFrom({ ...sealed, body }, undefined).actionDigest).to.equal(action_digest);
    const allowed = await receiptOf(7);
    expect(allowed.body.action_digest).to.equal(undefined);
    const tool = (await test.log.caughtUp()).policies.tools.get("send")?.schema;
    const metadata = { arguments: { amount: 7 }, trace: "t-1" };
    const action = {
      agentId,
      actionType: "send",
      actionContent: "to Bob",
      metadata,
      metadataText: canonicalJson(metadata),
    };
    const { digest } = actionDigest(action as never, "send", tool, []);
    expect(receiptMessageFrom(allowed, undefined).actionDigest).to.equal(digest);
  });

  it("give the decision as lists show it.", async () => {
    const receipt = await receiptOf(500);
    const record = create(DecisionRecordSchema, decisionRecordFrom(receipt));
    const { decision_id: decisionId, escalation_id: escalationId } = receipt.body;
    expect(record).to.include({ decisionId, escalationId, agentId, actionType: "send", policyName: "cap" });
    expect(record.seq).to.equal(BigInt(receipt.body.seq));
    const { agent_name: agentName, tool } = receipt.body.action;
    expect(record).to.include({ agentName, tool, reason: receipt.body.reasons[0]?.message });
    expect(record.decidedAt?.seconds).to.equal(BigInt(Math.floor(Date.parse(receipt.body.at) / 1000)));
  });
});
