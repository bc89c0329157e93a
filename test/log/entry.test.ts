import { expect } from "chai";
import fc from "fast-check";
import { type DecisionPlace, decisionBody } from "../../src/log/entry.ts";
import { decisionBodyFrom } from "../../src/log/receipts.ts";
import type { GuardFinding, LimitState, PolicyResult } from "../../src/policy/types.ts";
import { type Action, DEFAULT_REASONS, type DecisionReason, type Outcome } from "../../src/state/types.ts";
import { canonicalJson, type JsonValue } from "../../src/tree/canonical.ts";

const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc.constantFrom('"', "\\", "\u2028", "\u0000", "é", "😀"),
);
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const list = <T>(arbitrary: fc.Arbitrary<T>) => fc.array(arbitrary, { maxLength: 3 });
const decision = fc.constantFrom("allow" as const, "block" as const, "escalate" as const);
const whole = fc.nat({ max: 2 ** 31 });

/** Keys whose order in a JavaScript object differs from RFC 8785, or that name its prototype. */
const key = fc.oneof(
  // V8 (Node 24.21) misreads a name of one escaped character once it has seen an object with that name.
  text.filter((each) => each.length !== 1 || JSON.stringify(each).length === 3),
  fc.constantFrom("10", "9", "1e3", "__proto__", "constructor", "toJSON", "", "é", "😀", "\ufb33"),
);
const metadata = fc
  .array(
    fc.tuple(
      key,
      fc.oneof(text, fc.double({ noNaN: true, noDefaultInfinity: true }), list(text), fc.dictionary(key, text)),
    ),
    { maxLength: 6 },
  )
  .map((members) => JSON.parse(`{${distinct(members).join(",")}}`) as Record<string, JsonValue>);

function distinct(members: readonly [string, unknown][]): string[] {
  return [...new Map(members)].map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
}

const reason = fc.record({
  code: text,
  message: text,
  mandateId: optional(text),
  mandateName: optional(text),
  rule: optional(text),
  argument: optional(text),
  wouldPass: optional(text),
  remaining: optional(fc.double({ min: 0, max: 1e15, noNaN: true })),
  resetsAtMs: optional(fc.nat(4e12)),
  decision: optional(decision),
}) as fc.Arbitrary<DecisionReason>;
const limit = fc.record({
  scope: fc.oneof(text, fc.constantFrom("agent", "department", "workspace")),
  group: fc.oneof(text, fc.constantFrom("agt_1", "agt_2", "dep_1", "dep_1+dep_2", "w")),
  members: fc.oneof(whole, fc.constant(1)),
  count: whole,
  limit: whole,
  window: whole,
  remaining: whole,
  source: fc.constantFrom("decision_log", "mirror"),
  mandateId: text,
  rule: fc.oneof(text, fc.constant("rules[0]")),
  resetsAtMs: optional(fc.nat(4e12)),
}) as fc.Arbitrary<LimitState>;
const answer = fc.oneof(
  fc.record({
    kind: fc.constant("verdict" as const),
    violates: fc.boolean(),
    confidence: fc.double({ min: 0, max: 1, noNaN: true }),
    latencyMs: whole,
    // A model may answer with half of a surrogate pair.
    ...{ reason: fc.oneof(text, fc.constant("\ud800")), model: fc.oneof(text, fc.constant("m\udc00")) },
  }),
  fc.record({ kind: fc.constant("unavailable" as const), cause: text, latencyMs: whole }),
);
const guard = fc.record({
  mandateId: text,
  version: whole,
  rule: text,
  answer,
}) as unknown as fc.Arbitrary<GuardFinding>;
const ruling = fc.record({
  mandate: fc.record({ id: text, version: whole, digest: text }),
  decision,
  reasons: list(reason),
});
const policy = fc.record({
  decision: optional(decision),
  reasons: list(reason),
  fired: list(ruling),
  observed: list(ruling),
  collectiveLimits: list(limit),
  guards: list(guard),
}) as unknown as fc.Arbitrary<PolicyResult>;

const outcome = fc.record({
  agentName: text,
  decision,
  path: fc.oneof(text, fc.constant("default")),
  permissions: fc.oneof(text, fc.constant("admitted")),
  policyDigest: text,
  reasons: fc.oneof(list(reason), fc.constantFrom(...Object.values(DEFAULT_REASONS))),
  policy: optional(policy),
  policyName: optional(text),
  toolName: optional(text),
  tool: optional(fc.record({ version: whole })),
  actionDigest: optional(text),
  digestIgnores: list(text),
  trustBeforeTenths: fc.nat({ max: 1000 }),
  trustAfterTenths: fc.nat({ max: 1000 }),
  escalationId: optional(text),
  escalationExpiresAtMs: optional(fc.nat(4e12)),
  usedEscalationId: optional(text),
  authority: list(text),
  contracts: list(fc.record({ contractId: text, isInside: fc.boolean(), step: fc.option(whole, { nil: undefined }) })),
  reservations: list(fc.record({ pot: text, millionths: whole })),
  demands: list(fc.record({ mandate_id: text, rule: text, groups: list(text), at_least: whole, remind_at: text })),
}) as unknown as fc.Arbitrary<Outcome>;
const action = fc
  .record({
    decisionId: text,
    agentId: fc.oneof(text, fc.constant("agt_1")),
    actionType: text,
    actionContent: text,
    metadata: optional(metadata),
    sessionId: optional(text),
    onBehalfOf: optional(text),
    grantId: optional(text),
    intentContractId: optional(text),
    escalationId: optional(text),
    keyId: text,
  })
  .map((given) => ({
    ...given,
    metadataText: given.metadata === undefined ? "" : canonicalJson(given.metadata),
  })) as unknown as fc.Arbitrary<Action>;
const place: fc.Arbitrary<DecisionPlace> = fc.record({
  workspaceId: fc.oneof(text, fc.constantFrom("w", "agt_1", "dep_1")),
  seq: whole,
  atMs: fc.nat({ max: 4e12 }),
  previousRoot: text,
  previousSize: whole,
});

describe("the entry of a decision", () => {
  const assertCanonical = (body: string): void => {
    expect(body).to.equal(canonicalJson(JSON.parse(body) as JsonValue));
  };

  it("is canonical JSON, whichever of its members are present", () => {
    fc.assert(
      fc.property(action, outcome, place, (...given) => assertCanonical(decisionBody(...given))),
      { numRuns: 500 },
    );
  });

  it("is canonical JSON with every member, and omits those that are empty or follow from others", () => {
    const at = { workspaceId: "w", seq: 7, atMs: 1_700_000_000_000, previousRoot: "cm9vdA==", previousSize: 5 };
    const bare = {
      decisionId: "dec_1",
      agentId: "agt_1",
      actionType: "Pay",
      actionContent: "",
      metadataText: "",
      keyId: "key_1",
    } as Action;
    const byDefault = {
      agentName: "a",
      decision: "allow",
      path: "default",
      demands: [],
      reasons: DEFAULT_REASONS.allow,
      permissions: "admitted",
      policyDigest: "d",
      trustBeforeTenths: 500,
      trustAfterTenths: 502,
      authority: [],
      contracts: [],
      reservations: [],
      digestIgnores: [],
    } as unknown as Outcome;
    const least = decisionBody(bare, byDefault, at);
    assertCanonical(least);
    expect(Object.keys(JSON.parse(least) as object)).to.deep.equal([
      "action",
      "at",
      "decision",
      "decision_id",
      "key_id",
      "policy_digest",
      "previous_root",
      "previous_size",
      "seq",
      "trust",
      "type",
      "v",
      "workspace_id",
    ]);

    const why = {
      code: "C",
      message: "m",
      mandateId: "m1",
      mandateName: "n",
      rule: "rules[0]",
      argument: "a",
      wouldPass: "w",
    };
    const counted = { scope: "workspace", group: "w", members: 1, count: 2, limit: 3, window: 60, remaining: 1 };
    const budget = { currency: "EUR", limit: 10, total: 8.2, reserved: 8.2, captured: 0, remaining: 1.8 };
    const found = { mandate: { id: "m1", version: 1, digest: "d" }, decision: "block", reasons: [why] };
    const full = decisionBody(
      {
        ...bare,
        metadataText: canonicalJson(JSON.parse('{"9":1,"10":2,"__proto__":{"é":"😀"}}') as JsonValue),
        sessionId: "s",
        onBehalfOf: "agt_2",
        grantId: "g",
        intentContractId: "i",
        escalationId: "esc_1",
      },
      {
        ...byDefault,
        reasons: [why],
        policyName: "p",
        toolName: "t",
        tool: { version: 3 },
        actionDigest: "x",
        digestIgnores: ["d"],
        escalationId: "esc_2",
        escalationExpiresAtMs: 5,
        usedEscalationId: "esc_1",
        authority: ["g", "w"],
        contracts: [{ contractId: "i", isInside: true, step: 2 }],
        reservations: [{ pot: "p1", millionths: 8_200_000 }],
        demands: [{ mandate_id: "m1", rule: "rules[0]", groups: ["finance"], at_least: 2 }],
        policy: {
          decision: "block",
          reasons: [why],
          fired: [found],
          observed: [found],
          collectiveLimits: [
            { ...counted, source: "mirror", mandateId: "m1", rule: "rules[0]" },
            { ...counted, source: "decision_log", mandateId: "m1", rule: "rules[1]", budget },
          ],
          guards: [
            {
              mandateId: "m1",
              version: 1,
              rule: "rules[1]",
              answer: { kind: "unavailable", cause: "c", latencyMs: 1 },
            },
          ],
        },
      } as unknown as Outcome,
      at,
    );
    assertCanonical(full);
    expect(full).to.include('"metadata":{"10":2,"9":1,"__proto__":{"é":"😀"}}');
    const body = JSON.parse(full) as Record<string, unknown>;
    expect(body).to.include.keys(
      "approvals_needed",
      "authority",
      "guards",
      "mandates",
      "observed",
      "reasons",
      "used_escalation_id",
    );
    expect(body.authorisation).to.have.nested.property("collective_limits[0].source", "mirror");
    expect(body.authorisation).to.have.deep.nested.property("collective_limits[1].budget", budget);
    expect(body.authorisation).not.to.have.nested.property("collective_limits[1].count");
    expect(body.authorisation).not.to.have.nested.property("collective_limits[0].group");
    expect(body).not.to.have.nested.property("observed[0].reasons[0].mandate_id");
    expect(body).to.have.nested.property("reasons[0].mandate_id", "m1");
    expect(body.contracts).to.deep.equal([{ intent_contract_id: "i", step: 2 }]);
    expect(body.reserved).to.deep.equal([{ millionths: 8_200_000, pot: "p1" }]);
  });

  it("gives every member back that it leaves out.", () => {
    fc.assert(
      fc.property(action, outcome, place, (...given) => {
        const [, { path, permissions, policy }] = given;
        const { decision_path, authorisation, observed } = decisionBodyFrom(decisionBody(...given));
        expect({ decision_path, permissions: authorisation.permissions }).to.deep.equal({
          decision_path: path,
          permissions,
        });
        const limits = authorisation.collective_limits.map(({ scope, group, members, rule, source }) => {
          return { scope, group, members, rule, source };
        });
        expect(limits).to.deep.equal(
          (policy?.collectiveLimits ?? []).map(({ scope, group, members, rule, source }) => {
            return { scope, group, members, rule, source };
          }),
        );
        const named = observed.flatMap((each) => each.reasons.map(({ mandate_id }) => mandate_id));
        expect(named).to.deep.equal(
          (policy?.observed ?? []).flatMap((each) => each.reasons.map(() => each.mandate.id)),
        );
      }),
      { numRuns: 500 },
    );
  });
});
