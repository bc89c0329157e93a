import { create, toJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import { ReceiptSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { DecisionRecordSchema } from "../../gen/agentcontrol/v1/resources_pb.js";
import { decisionRecordFrom, receiptMessageFrom } from "../../src/api/records.ts";
import { receiptSentences } from "../../src/explain/receipt.ts";
import { plainText } from "../../src/explain/sentence.ts";
import { decisionBodyFrom, receiptFrom } from "../../src/log/receipts.ts";
import { canonicalJson, type JsonObject } from "../../src/tree/canonical.ts";
import { assertAnswers } from "../../src/verify/contradictions.ts";
import { type LogEntry, parseEntry } from "../../src/verify/entry.ts";
import type { JsonRecord } from "../../src/verify/json.ts";
import { LogCheck } from "../../src/verify/log-check.ts";
import { writeLog } from "../cli/written-log.ts";
import { naiveLeaf } from "./naive-tree.ts";

const PLACED = {
  type: "decision",
  action: { agent_id: "agt_1", agent_name: "payer", action_type: "payment.send", action_content: "pay" },
  at: "2026-11-26T17:35:08.566Z",
  decision: "allow",
  decision_id: "dec_1",
  key_id: "key_1",
  policy_digest: "d",
  previous_root: "cm9vdA==",
  previous_size: 7,
  seq: 7,
  trust: { before: 50, after: 50.2 },
  workspace_id: "default",
};
const reason = { code: "ARGUMENT_MATCHED", message: "amount is above 300", mandate_name: "watch", rule: "rules[1]" };
const observed = { mandate_id: "mnd_4", version: 1, would_decide: "block" };
const budget = { pot: "p", currency: "EUR", limit: 9, total: 3, reserved: 3, captured: 0, remaining: 6 };

/** A decision as the first version sealed it. */
const FIRST = {
  ...PLACED,
  decision_path: "default",
  authorisation: {
    permissions: "admitted",
    collective_limits: [
      {
        count: 1,
        group: "agt_1",
        limit: 5,
        mandate_id: "mnd_1",
        members: 1,
        rule: "rules[0]",
        scope: "agent",
        window: 60,
      },
      {
        count: 2,
        group: "agt_2",
        limit: 5,
        mandate_id: "mnd_1",
        members: 1,
        rule: "rules[0]",
        scope: "agent",
        window: 60,
      },
      {
        count: 3,
        group: "dep_1+dep_2",
        limit: 5,
        mandate_id: "mnd_2",
        members: 4,
        rule: "rules[2]",
        scope: "department",
        window: 60,
      },
      {
        count: 4,
        group: "default",
        limit: 5,
        mandate_id: "mnd_3",
        members: 9,
        rule: "rules[0]",
        scope: "workspace",
        source: "mirror",
        window: 60,
      },
      { budget, group: "agt_1", mandate_id: "mnd_3", members: 1, rule: "rules[1]", scope: "agent", window: 60 },
    ],
  },
  observed: [{ ...observed, reasons: [{ ...reason, mandate_id: "mnd_4" }] }],
};

/** The same decision as it is sealed now. */
const NOW = {
  ...PLACED,
  v: 2,
  authorisation: {
    collective_limits: [
      { count: 1, limit: 5, mandate_id: "mnd_1", window: 60 },
      { count: 2, group: "agt_2", limit: 5, mandate_id: "mnd_1", window: 60 },
      { count: 3, group: "dep_1+dep_2", limit: 5, mandate_id: "mnd_2", members: 4, rule: "rules[2]", window: 60 },
      { count: 4, limit: 5, mandate_id: "mnd_3", members: 9, scope: "workspace", source: "mirror", window: 60 },
      { budget, mandate_id: "mnd_3", rule: "rules[1]", window: 60 },
    ],
  },
  observed: [{ ...observed, reasons: [reason] }],
};

const first = canonicalJson(FIRST as JsonObject);
const now = canonicalJson(NOW as JsonObject);
const later = canonicalJson({ ...NOW, v: 3 } as JsonObject);

function answerFrom(text: string): JsonRecord {
  const receipt = receiptFrom(text, naiveLeaf(text));
  const messages = {
    decision: toJson(DecisionRecordSchema, create(DecisionRecordSchema, decisionRecordFrom(receipt)), {
      useProtoFieldName: true,
    }),
    receipt: toJson(ReceiptSchema, create(ReceiptSchema, receiptMessageFrom(receipt, undefined)), {
      useProtoFieldName: true,
    }),
  };
  return messages as unknown as JsonRecord;
}

describe("the versions of a decision's body", () => {
  it("are read alike: every member of the first is there.", () => {
    const read = decisionBodyFrom(now);
    expect(read).to.deep.equal(decisionBodyFrom(first));
    expect(read.authorisation.collective_limits[3]).to.include({
      ...FIRST.authorisation.collective_limits[3],
      remaining: 1,
    });
  });

  it("are answered alike but for the sealed text and its hash.", () => {
    const [shown, before] = [now, first].map((text) => {
      const { receipt, ...answer } = answerFrom(text) as Record<string, JsonRecord>;
      const { canonical_body, leaf_hash, ...members } = receipt ?? {};
      return { ...answer, ...members };
    });
    expect(shown).to.deep.equal(before);
  });

  for (const [what, text] of [
    ["first", first],
    ["present", now],
  ] as const) {
    it(`agree with the service's answer about the ${what} one, and with no other.`, () => {
      const answer = answerFrom(text);
      const body = parseEntry(text, 7);
      assertAnswers(answer, body);
      const { authorisation } = answer.receipt as { authorisation: JsonRecord };
      const wrong = { ...authorisation, permissions: "not_evaluated" };
      const lie = { ...answer, receipt: { ...(answer.receipt as JsonRecord), authorisation: wrong } };
      expect(() => assertAnswers(lie, body)).to.throw("receipt.authorisation.permissions");
    });
  }

  it("are told in the same sentences.", () => {
    const [told, before] = [now, first].map((text) => receiptSentences(parseEntry(text, 7)).map(plainText));
    expect(told).to.deep.equal(before);
    expect(told?.join(" ")).to.include("no mandate matched");
  });

  it("are verified side by side in one log, and given to its readers whole.", async () => {
    const drafts = [first, now].map((text, at) => ({ ...JSON.parse(text), decision_id: `dec_${at}` }));
    const entries = writeLog(drafts).entries.map(
      ({ index, leaf_hash, body }): LogEntry => ({ index, leafHash: Buffer.from(leaf_hash, "base64"), body }),
    );
    const paths: unknown[] = [];
    async function* all() {
      yield* entries;
    }
    await new LogCheck(undefined).run(all(), ({ decision_path }) => paths.push(decision_path));
    expect(paths).to.deep.equal(["default", "default"]);
  });

  it("that are not known are refused by reader and verifier, with entry and version.", () => {
    const damaged = "entry 7 of the log of `default` has a body of version `3`";
    expect(() => decisionBodyFrom(later)).to.throw(damaged);
    expect(() => parseEntry(later, 7))
      .to.throw("entry 7 is of version `3`")
      .with.property("fault", "version");
    for (const v of [1, 0, null, "2", [2]]) {
      const text = canonicalJson({ ...NOW, v } as JsonObject);
      expect(() => decisionBodyFrom(text), `version ${v}`).to.throw("of version");
      expect(() => parseEntry(text, 7), `version ${v}`).to.throw("of version");
    }
  });
});
