import { expect } from "chai";
import { type Explanation, Timeline } from "../../src/cli/timeline.ts";
import type { JsonRecord } from "../../src/verify/json.ts";

const id = (prefix: string, letter: string): string => `${prefix}_${letter.repeat(26)}`;
const [ACTOR, LENDER, OTHER] = [id("agt", "a"), id("agt", "b"), id("agt", "c")];
const [GRANT, CHILD, TOKEN, POLICY, MANDATE] = [
  id("grt", "a"),
  id("grt", "b"),
  id("fed", "a"),
  id("mtp", "a"),
  id("mnd", "a"),
];

const DECISION = {
  type: "decision",
  decision_id: id("dec", "a"),
  action: { agent_id: ACTOR, action_type: "pay", tool: "bank/pay", tool_version: 3, tool_digest: "d3" },
  authority: [CHILD, GRANT],
  key_id: TOKEN,
  on_behalf_of: LENDER,
  mandates: [{ mandate_id: MANDATE, version: 2, digest: "m2" }],
  lists: [{ name: "payees", digest: "p2", matched: ["acme"] }, { name: "gone" }],
  reasons: [{ code: "MCP_TOOL_POLICY", message: `MCP tool policy \`${POLICY}\` blocks tool \`bank/pay\`` }],
  trust: { before: 48, after: 46 },
};

const authority = (kind: string, made: string, more: object = {}) => ({
  type: "authority_created",
  authority: { id: made, kind, ...more },
});
const registered = (agentId: string) => ({
  type: "agent_registered",
  agent: {
    agent_id: agentId,
    name: "x",
    allowed_action_types: ["pay"],
    denied_action_types: ["wire"],
    trust_tenths: 500,
  },
});
const published = (version: number, digest: string) => ({
  type: "mandate_published",
  mandate: { mandate_id: MANDATE, version, digest, definition: { name: "limits" } },
});
const applied = (version: number, digest: string) => ({
  type: "pack_applied",
  pack: { name: "files", version: 7 },
  published: [
    { mandate_id: id("mnd", "z"), version, digest: "x", definition: { name: "unrelated" } },
    { mandate_id: MANDATE, version, digest, definition: { name: "limits" } },
  ],
});
const tool = (version: number, digest: string) => ({
  type: "tool_registered",
  tool: { name: "bank/pay", version, digest },
});

const listed = (name: string, digest: string | null) => ({
  type: "list_changed",
  list: { name, added: 3, removed: 1, size: digest === null ? 0 : 7, digest_after: digest },
});

/** Entries that explain the decision, and parts of the text about each. */
const EXPLAINING: readonly (readonly [entry: object, parts: readonly string[]])[] = [
  [registered(ACTOR), [ACTOR, "allowed: pay", "denied: wire", "trust 50"]],
  [registered(LENDER), [LENDER]],
  [tool(3, "d3"), ["`bank/pay` version 3"]],
  [
    listed("payees", "p2"),
    ["list `payees` changed (3 added, 1 removed, 7 values)", "to the digest that the decision used"],
  ],
  [listed("gone", null), ["list `gone` deleted, as the decision found it"]],
  [published(2, "m2"), [MANDATE, "version 2"]],
  [
    authority("grant", GRANT, { grantor_agent_id: LENDER, agent_id: OTHER, action_types: ["pay"] }),
    [`grant ${GRANT}`, `lent by ${LENDER}`, "for pay"],
  ],
  [
    authority("grant", CHILD, { grantor_agent_id: OTHER, agent_id: ACTOR, parent_grant_id: GRANT }),
    [`passing on ${GRANT}`],
  ],
  [
    authority("federation_token", TOKEN, { agent_id: ACTOR, expires_at_ms: 0 }),
    [`federation token ${TOKEN}`, "until 1970-01-01"],
  ],
  [
    authority("mcp_tool_policy", POLICY, { server: "bank", tool: "*", decision: "block" }),
    ["on server bank", "deciding block"],
  ],
  [
    { type: "agent_requirements_set", agent_id: LENDER, requires: ["session", "prompt"] },
    [`every action of agent ${LENDER} must have: session, prompt`],
  ],
  [{ type: "agent_deactivated", agent_id: LENDER }, [`agent ${LENDER} deactivated`]],
  [{ type: "authority_ended", ids: [GRANT, id("grt", "z")] }, [`${GRANT} ended`]],
  [
    { type: "agent_revoked", agent_id: OTHER, reason: "", revocation_id: "rev_1", ended: { grants_given: [CHILD] } },
    [`agent ${OTHER} revoked, and with it ${CHILD} (rev_1)`],
  ],
];

/** Entries that do not concern the decision. */
const UNRELATED: readonly object[] = [
  registered(OTHER),
  tool(2, "d2"),
  published(1, "m1"),
  authority("grant", id("grt", "z")),
  { type: "authority_ended", ids: [id("grt", "z")] },
  { type: "department_member_added", department_id: "dep_1", agent_id: OTHER },
  { type: "key_created", key: { key_id: id("key", "z"), name: "z" } },
  { type: "decision", decision_id: id("dec", "z"), action: { agent_id: OTHER }, trust: { after: 1 } },
  { type: "something_new" },
];

/** Explains the decision from the entries before and after it. */
function explain(before: readonly object[], after: readonly object[] = []): Explanation {
  const entries = [...before, DECISION, ...after].map(
    (entry, seq) => ({ at: "", by: "key_1", ...entry, seq }) as JsonRecord,
  );
  const timeline = new Timeline(entries[before.length] as JsonRecord);
  for (const entry of entries) timeline.add(entry);
  return timeline.explanation();
}

const texts = (items: readonly { readonly text: string }[]): string[] => items.map(({ text }) => text);

describe("the timeline of a decision", () => {
  const explanation = explain([...EXPLAINING.map(([entry]) => entry), ...UNRELATED]);

  for (const [at, [entry, parts]] of EXPLAINING.entries()) {
    it(`explains \`${(entry as { type: string }).type}\`: ${parts[0]}.`, () => {
      const item = explanation.before.find(({ index }) => index === at);
      for (const part of parts) expect(item?.text).to.include(part);
    });
  }

  it("explains a mandate by the change of a pack that published it, and by no other.", () => {
    const { before } = explain([applied(1, "m1"), applied(2, "m2")]);
    expect(texts(before)).to.deep.equal([
      `mandate ${MANDATE} (\`limits\`) version 2 published with version 7 of pack \`files\``,
    ]);
    expect(texts(explain([applied(2, "other")]).before).at(-1)).to.include("is NOT the digest in the decision (m2)");
  });

  it("tells who claimed its action and how it ended, and nothing of other decisions.", () => {
    const about = { decision_id: DECISION.decision_id };
    const { after } = explain(
      [],
      [
        { ...about, type: "claim", claim_id: "c1", by: undefined, claimed_by: "key_2" },
        { ...about, type: "outcome", status: "unknown", settles: false, by: undefined, reported_by: "timeout" },
        {
          ...about,
          type: "outcome",
          status: "failed",
          error: "no answer",
          settles: true,
          unknown_at: "x",
          reported_by: "key_3",
        },
        { type: "claim", decision_id: id("dec", "z"), claim_id: "c2" },
        { type: "outcome", decision_id: id("dec", "z"), status: "succeeded", settles: false },
      ],
    );
    expect(texts(after)).to.deep.equal([
      "its action claimed as c1",
      "nobody reported in time how it ended: its outcome is unknown",
      "its action reported as failed because `no answer`, which settles the unknown outcome",
    ]);
    expect(after.slice(0, 2).map(({ by }) => by)).to.deep.equal(["key_2", "timeout"]);
    const [reported] = explain(
      [],
      [{ ...about, type: "outcome", status: "succeeded", amount: 5, settles: false }],
    ).after;
    expect(reported?.text).to.equal("its action reported as succeeded with the amount 5");
    const held = [{ pot: "p", millionths: 1, held: true }];
    const { after: confirmed } = explain(
      [],
      [
        { ...about, type: "outcome", status: "failed", reserved: held, settles: false, reported_by: "key_2" },
        { ...about, type: "outcome", status: "succeeded", settles: true, reported_by: "key_3" },
      ],
    );
    expect(texts(confirmed)).to.deep.equal([
      "its action reported as failed, which awaits confirmation",
      "its action reported as succeeded, which settles what the agent reported",
    ]);
  });

  it("tells who got the result of an approved call later, and of no other decision.", () => {
    const decision = { ...DECISION, decision_id: id("dec", "x"), seq: 0, at: "", by: "key_1" };
    const given = (decision_id: string, result: string, seq: number) => ({
      type: "mcp_result_given",
      decision_id,
      result,
      seq,
      at: "",
      by: "key_1",
    });
    const timeline = new Timeline(decision as unknown as JsonRecord);
    for (const entry of [decision, given(id("dec", "y"), "kept", 1), given(decision.decision_id, "unknown", 2)]) {
      timeline.add(entry as unknown as JsonRecord);
    }
    expect(texts(timeline.explanation().after)).to.deep.equal([
      `an identical call of decision ${decision.decision_id} heard that its result is unknown`,
    ]);
  });

  it("tells how people edited and extended an escalation.", () => {
    const [own, next] = [id("esc", "a"), id("esc", "b")];
    const resolved = (escalation_id: string, resolution: string, more: object) => ({
      type: "escalation_resolved",
      escalation_id,
      resolution,
      note: "less",
      ...more,
    });
    const edit = { edited_digest: "d", replaced_by: next };
    const extended = { type: "escalation_extended", escalation_id: own, expires_at: "2026-12-01T00:00:00.000Z" };
    const escalating = { ...DECISION, escalation_id: own, escalation_expires_at: "" };
    const explainedBy = (decision: object, ...entries: object[]): string[] => {
      const all = [...entries, decision].map((entry, seq) => ({ at: "", by: "key_1", ...entry, seq }) as JsonRecord);
      const timeline = new Timeline(all.at(-1) as JsonRecord);
      for (const entry of all) timeline.add(entry);
      return texts(timeline.explanation().before);
    };
    expect(explainedBy(escalating, extended, resolved(own, "rejected", { edit }))).to.deep.equal([
      `escalation ${own} extended to 2026-12-01T00:00:00.000Z`,
      `escalation ${own} rejected, edited into ${next} with the note \`less\``,
    ]);
    const freed = resolved(own, "rejected", { edit: { edited_digest: "d" } });
    expect(explainedBy(escalating, freed)[0]).to.include(
      ", edited into an action that needs no approval with the note",
    );
    const using = { ...DECISION, used_escalation_id: next };
    const edited = {
      type: "decision",
      decision_id: id("dec", "y"),
      edit_of: own,
      escalation_id: next,
      escalation_expires_at: "t",
      action: { agent_id: OTHER },
      trust: { after: 1 },
    };
    expect(explainedBy(using, edited, resolved(next, "approved", { edited_from: own }))).to.deep.equal([
      `decision ${id("dec", "y")} escalated the edited action of ${own} as ${next}`,
      `escalation ${next} approved by an edit of ${own} with the note \`less\``,
    ]);
  });

  it("tells who approved an escalation together, by their names, and what each demand had.", () => {
    const own = id("esc", "a");
    const demand = (groups: string[], at_least: number) => ({ groups, at_least });
    const asking = {
      ...DECISION,
      decision: "escalate",
      escalation_id: own,
      escalation_expires_at: "t",
      approvals_needed: [demand(["finance"], 2)],
    };
    const { escalation_expires_at: _, ...again } = asking;
    const joining = { ...again, decision_id: id("dec", "y"), approvals_needed: [demand(["legal"], 1)] };
    const resolved = {
      type: "escalation_resolved",
      escalation_id: own,
      resolution: "approved",
      by: "key_ben",
      approvals: [
        { by: "key_ada", seq: 2, groups: ["finance"] },
        { by: "key_ben", groups: ["finance", "legal"] },
      ],
    };
    const given = { type: "escalation_approval_given", escalation_id: own, by: "key_ada", groups: ["finance"] };
    const all = [asking, joining, given, resolved].map((entry, seq) => ({ at: "", ...entry, seq }) as JsonRecord);
    const timeline = new Timeline(all[0] as JsonRecord);
    for (const entry of all) timeline.add(entry, entry.by === "key_ada" ? "Ada" : undefined);
    expect(texts(timeline.explanation().after)).to.deep.equal([
      `decision ${joining.decision_id} asked for ${own} again`,
      `escalation ${own} approved as one of several`,
      `escalation ${own} approved by \`Ada\` (\`finance\`) and \`key_ben\` (\`finance\`, \`legal\`): 2 of 2 of \`finance\`, 1 of 1 of \`legal\``,
    ]);
  });

  it("leaves out entries that do not concern it.", () => {
    expect(explanation.before).to.have.length(EXPLAINING.length);
    expect(explanation.unexplained).to.deep.equal([]);
  });

  it("shows the state that held, neither what it replaced nor what replaced it.", () => {
    const settings = (word: string) => ({
      type: "workspace_updated",
      workspace: { default_decision: word, initial_trust_tenths: 500 },
    });
    const earlier = {
      type: "decision",
      decision_id: id("dec", "y"),
      action: { agent_id: ACTOR },
      trust: { after: 48 },
      decision: "block",
    };
    const member = (type: string) => ({ type, department_id: "dep_1", agent_id: ACTOR });
    const { before, after } = explain(
      [settings("allow"), settings("block"), earlier, member("department_member_added")],
      [
        settings("escalate"),
        member("department_member_removed"),
        { ...earlier, decision_id: id("dec", "x") },
        published(3, "m3"),
      ],
    );
    expect(texts(before)).to.have.length(3);
    expect(before[0]?.text).to.include("decides block");
    expect(before[1]?.text).to.include("with trust 48");
    expect(before[2]?.text).to.include("joined department dep_1");
    expect(after).to.deep.equal([]);
  });

  it("lists the references of the decision that the log does not explain.", () => {
    const { before, unexplained } = explain([registered(ACTOR), published(2, "other")]);
    expect(texts(before).at(-1)).to.include("is NOT the digest in the decision (m2)");
    expect(unexplained.join("\n"))
      .to.include(LENDER)
      .and.to.include("version 3 of tool `bank/pay`")
      .and.to.include(GRANT)
      .and.to.include(POLICY)
      .and.not.include("version 2 of mandate");
  });
});
