import { expect } from "chai";
import fc from "fast-check";
import { actionDigest } from "../../src/decision/action-digest.ts";
import type { ToolSchema } from "../../src/policy/types.ts";
import { canonicalJson, digestOf, type JsonObject, type JsonValue } from "../../src/tree/canonical.ts";
import { actionOf } from "../support/harness.ts";

const NAMES = ["trace_id", "timestamp", "recipient", "arguments", "__proto__", "constructor", "é", ""] as const;

const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc.constantFrom('"', "\\", "\u2028", "\u0000", "😀"),
);
const optional = fc.option(text, { nil: undefined });
const metadata = fc
  .uniqueArray(fc.tuple(fc.constantFrom(...NAMES), fc.jsonValue({ maxDepth: 2 })), { selector: ([name]) => name })
  // Parsed, as what callers send is: `__proto__` is a member like any other.
  .map((members) => members.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(","))
  .map((members) => JSON.parse(`{${members}}`) as JsonObject)
  .filter((value) => isCanonical(value as JsonValue));

function isCanonical(value: JsonValue): boolean {
  try {
    canonicalJson(value);
    return true;
  } catch {
    return false;
  }
}

const action = fc.record({
  agentId: text,
  actionType: text,
  actionContent: text,
  metadata: fc.option(metadata, { nil: undefined }),
  onBehalfOf: optional,
  grantId: optional,
  intentContractId: optional,
});
const tool = fc.option(fc.record({ name: text, version: fc.nat() }), { nil: undefined });

describe("the action digest", () => {
  it("is the SHA-256 of the RFC 8785 form of what it is documented to cover.", () => {
    fc.assert(
      fc.property(action, optional, tool, fc.subarray([...NAMES]), (given, toolName, schema, ignores) => {
        const covered = given.metadata && JSON.parse(JSON.stringify(given.metadata));
        for (const name of ignores) if (covered !== undefined) delete covered[name];
        const want = digestOf({
          agent_id: given.agentId,
          action_type: given.actionType,
          action_content: given.actionContent,
          tool: toolName ?? null,
          tool_version: schema?.version ?? null,
          metadata: covered ?? null,
          on_behalf_of: given.onBehalfOf ?? null,
          grant_id: given.grantId ?? null,
          intent_contract_id: given.intentContractId ?? null,
        });
        const { grantId, intentContractId, ...rest } = given;
        const attempted = { ...actionOf(rest as never), grantId, intentContractId };
        const { digest, ignored } = actionDigest(attempted, toolName, schema as ToolSchema | undefined, ignores);
        expect(digest).to.equal(want);
        expect(ignored).to.deep.equal(ignores.filter((name) => Object.hasOwn(given.metadata ?? {}, name)));
      }),
      { numRuns: 500 },
    );
  });
});
