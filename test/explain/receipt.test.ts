import { expect } from "chai";
import { reasonsIn, receiptSentences } from "../../src/explain/receipt.ts";
import { plainText } from "../../src/explain/sentence.ts";

const BODY = {
  decision: "block",
  decision_path: "policy",
  policy_name: "payments",
  action: { agent_id: "agt_1", agent_name: "payer", action_type: "payment.send", tool: "bank/pay" },
  reasons: [{ code: "LIMIT", message: "too much", mandate_id: "mnd_1", mandate_name: "payments", rule: "rules[0]" }],
  trust: { before: 50, after: 48 },
};
const LIMIT = { mandate_id: "mnd_1", rule: "rules[0]", scope: "agent", group: "agt_1", members: 1, window: 86_400 };
const BUDGET = { currency: "EUR", limit: 100, total: 100, reserved: 12.5, captured: 60, remaining: 0 };
const WITHOUT = { ...BODY, policy_name: "", reasons: [] };

/** Bodies, and the sentences that they are told in from the decision on. */
const CASES: readonly (readonly [what: string, body: object, sentences: readonly string[]])[] = [
  [
    "a rule",
    BODY,
    ["It was blocked by a rule of the mandate `payments` (mnd_1).", "The agent's trust went from 50 to 48."],
  ],
  [
    "limits that have room again",
    {
      ...BODY,
      reasons: [
        { ...BODY.reasons[0], resets_at: "2026-11-27T14:05:10.001Z" },
        { ...BODY.reasons[0], resets_at: "2026-11-27T14:05:09.000Z", decision: "escalate" },
        { code: "ACTION_MATCHED", decision: "allow" },
      ],
    },
    [
      "It was blocked by a rule of the mandate `payments` (mnd_1).",
      "Limits alone stood against it: one more action fits from 2026-11-27T14:05:10.001Z if nothing else happens.",
      "The agent's trust went from 50 to 48.",
    ],
  ],
  [
    "a limit beside a rule that always refuses",
    { ...BODY, reasons: [{ ...BODY.reasons[0], resets_at: "2026-11-27T14:05:10.001Z" }, { code: "ACTION_MATCHED" }] },
    ["It was blocked by a rule of the mandate `payments` (mnd_1).", "The agent's trust went from 50 to 48."],
  ],
  [
    "a budget that refused",
    {
      ...BODY,
      reasons: [
        {
          ...BODY.reasons[0],
          code: "BUDGET_EXCEEDED",
          remaining: 8.2,
          over: 91.8,
          resets_at: "2026-11-27T14:05:00.000Z",
        },
      ],
      authorisation: {
        collective_limits: [
          { ...LIMIT, budget: { ...BUDGET, total: 191.8, reserved: 131.8, remaining: 0 } },
          { ...LIMIT, rule: "rules[1]", budget: { ...BUDGET, total: 191.8, remaining: 0 } },
        ],
      },
    },
    [
      "It was blocked by a rule of the mandate `payments` (mnd_1).",
      "The budget of 100 EUR in 86400 s for agent `agt_1` would come to 191.80 EUR with it, which is more.",
      "Limits alone stood against it: the same action fits from 2026-11-27T14:05:00.000Z if nothing else happens.",
      "The agent's trust went from 50 to 48.",
    ],
  ],
  [
    "amounts that were reserved",
    {
      ...WITHOUT,
      decision: "allow",
      decision_path: "default",
      trust: { before: 50, after: 50 },
      reserved: [
        { pot: "p", millionths: 12_500_000, currency: "EUR" },
        { pot: "q", millionths: 12_500_000, currency: "EUR" },
      ],
      authorisation: {
        collective_limits: [
          { ...LIMIT, budget: { ...BUDGET, total: 72.5, remaining: 27.5 } },
          { ...LIMIT, scope: "workspace", group: "wsp_1", budget: { ...BUDGET, total: 100.25, remaining: 0 } },
          { ...LIMIT, count: 1, limit: 5 },
        ],
      },
    },
    [
      "It was allowed: no mandate matched, and the workspace allows by default.",
      "It reserved 12.50 EUR in 2 budgets until its outcome is known.",
      "The budget of 100 EUR in 86400 s for agent `agt_1` has 27.50 EUR left: 12.50 EUR are reserved and 60 EUR paid.",
      "The budget of 100 EUR in 86400 s for workspace `wsp_1` is exceeded with 100.25 EUR: 12.50 EUR are reserved and 60 EUR paid.",
      "The agent's trust stayed at 50.",
    ],
  ],
  [
    "amounts in budgets of an earlier version, of which nothing is told",
    {
      ...WITHOUT,
      decision: "allow",
      decision_path: "default",
      trust: { before: 50, after: 50 },
      reserved: [
        { pot: "p", millionths: 1 },
        { pot: "q", millionths: 2_000_000 },
      ],
    },
    [
      "It was allowed: no mandate matched, and the workspace allows by default.",
      "It reserved 0.000001 and 2 in 2 budgets until its outcome is known.",
      "The agent's trust stayed at 50.",
    ],
  ],
  [
    "a time that is none",
    { ...BODY, reasons: [{ ...BODY.reasons[0], resets_at: "soon" }] },
    ["It was blocked by a rule of the mandate `payments` (mnd_1).", "The agent's trust went from 50 to 48."],
  ],
  [
    "the default",
    { ...WITHOUT, decision: "allow", decision_path: "default", trust: { before: 50, after: 50 } },
    ["It was allowed: no mandate matched, and the workspace allows by default.", "The agent's trust stayed at 50."],
  ],
  [
    "a claim and a tracked outcome",
    {
      ...WITHOUT,
      decision: "allow",
      decision_path: "default",
      trust: { before: 50, after: 50 },
      claim_id: "c1",
      outcome_due_at: "2026-12-01T00:00:00.000Z",
    },
    [
      "It was allowed: no mandate matched, and the workspace allows by default.",
      "The caller claimed it as `c1`: nobody else may run it.",
      "Its outcome is unknown from 2026-12-01T00:00:00.000Z on, unless somebody reports it before.",
      "The agent's trust stayed at 50.",
    ],
  ],
  [
    "an escalation",
    {
      ...BODY,
      decision: "escalate",
      escalation_id: "esc_1",
      escalation_expires_at: "2026-12-01T00:00:00.000Z",
      presented_escalation_id: "esc_0",
    },
    [
      "It was escalated to a person by a rule of the mandate `payments` (mnd_1).",
      "It waits for a person in the escalation `esc_1`, until 2026-12-01T00:00:00.000Z.",
      "The caller presented `esc_0`, which did not change the decision.",
      "The agent's trust went from 50 to 48.",
    ],
  ],
  [
    "an approval of edited arguments",
    {
      ...WITHOUT,
      decision: "allow",
      decision_path: "approved",
      used_escalation_id: "esc_1",
      presented_escalation_id: "esc_1",
      edit_of: "esc_0",
    },
    [
      "It was allowed because a person had approved this very action, and the approval was still good.",
      "It used up the approval of `esc_1`.",
      "A person put these arguments in place of those of `esc_0`.",
      "The agent's trust went from 50 to 48.",
    ],
  ],
  [
    "a repeat after the end of a key",
    {
      ...WITHOUT,
      decision_path: "credential",
      replay_of: "dec_1",
      key_ended: true,
      trust: { before: 50, after: 50, capped: 20 },
    },
    [
      "It was blocked because the credential or token of the call has ended, or is not good for this action.",
      "The agent's trust stayed at 50.",
      "The token of the call caps trust: it was decided with 20.",
      "It refuses a repeat of `dec_1`, because something had ended since.",
      "The key of the call had ended: this counts in no limit.",
    ],
  ],
  [
    "named lists",
    {
      ...BODY,
      lists: [
        { name: "domains", digest: "ab12", matched: ["*.corp.example", "example.com"] },
        { name: "gone" },
        { name: "payees", digest: "cd34" },
      ],
    },
    [
      "It was blocked by a rule of the mandate `payments` (mnd_1).",
      "Its rules looked into the list `domains` with the digest `ab12`, in which the action matched `*.corp.example`, `example.com`.",
      "Its rules looked for the list `gone`, which did not exist.",
      "Its rules looked into the list `payees` with the digest `cd34`, and found nothing of the action in it.",
      "The agent's trust went from 50 to 48.",
    ],
  ],
  [
    "approvals that rules ask for",
    {
      ...BODY,
      decision: "escalate",
      escalation_id: "esc_1",
      approvals_needed: [
        { mandate_id: "mnd_1", rule: "rules[0]", groups: ["finance"], at_least: 2 },
        { mandate_id: "mnd_1", rule: "rules[1]", groups: ["board", "legal"], at_least: 1 },
        { mandate_id: "mnd_1", rule: "rules[2]", groups: [], at_least: 3 },
      ],
    },
    [
      "It was escalated to a person by a rule of the mandate `payments` (mnd_1).",
      "It waits for a person in the escalation `esc_1`.",
      "Its rules ask 2 of `finance`, 1 of `board` or `legal` and 3 of the operators to approve.",
      "The agent's trust went from 50 to 48.",
    ],
  ],
  [
    "a step and a decision of a later version",
    { ...WITHOUT, decision: "ponder", decision_path: "stars" },
    ["It was ponder.", "The agent's trust went from 50 to 48."],
  ],
];

describe("a receipt in sentences", () => {
  it("begins with who asked for what.", () => {
    const first = (body: object) => plainText(receiptSentences(body)[0] ?? []);
    const asked = "to do `payment.send` with the tool `bank/pay`.";
    expect(first(BODY)).to.equal(`Agent \`payer\` (agt_1) asked ${asked}`);
    expect(first({ ...BODY, on_behalf_of: "agt_2" })).to.equal(
      `Agent \`payer\` (agt_1) asked on behalf of agent \`agt_2\` ${asked}`,
    );
    expect(first({ action: { agent_id: "agt_1", action_type: "read" } })).to.equal("Agent `agt_1` asked to do `read`.");
  });

  for (const [what, body, sentences] of CASES) {
    it(`tells of ${what}.`, () => {
      expect(receiptSentences(body).slice(1).map(plainText)).to.deep.equal(sentences);
    });
  }

  it("repeats words that it does not know, even those that every object inherits.", () => {
    const told = receiptSentences({ ...WITHOUT, decision: "constructor", decision_path: "toString" }).map(plainText);
    expect(told[1]).to.equal("It was constructor.");
  });

  it("says of each name what it is, for pages that lead there.", () => {
    const parts = receiptSentences(BODY).flat();
    const named = parts.flatMap((part) => (typeof part === "string" || part.names === undefined ? [] : [part.names]));
    expect(named).to.deep.equal([
      { kind: "agent", id: "agt_1" },
      { kind: "tool", id: "bank/pay" },
      { kind: "mandate", id: "mnd_1" },
    ]);
  });

  it("has its reasons as they were sealed.", () => {
    expect(reasonsIn(BODY)).to.deep.equal([
      {
        code: "LIMIT",
        message: "too much",
        mandateId: "mnd_1",
        mandateName: "payments",
        rule: "rules[0]",
        argument: "",
        wouldPass: "",
      },
    ]);
    expect(reasonsIn({})).to.deep.equal([]);
  });
});
