import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import fc from "fast-check";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { canonicalJson, digestOf, type JsonValue } from "../../src/tree/canonical.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { actionRule, attempt, openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";

const ODD = ["\n", "\u2028", "\u007f", '"', "\\", "é", "e\u0301", "\u{1f600}", "\u{10ffff}", "\ufeff", "</script>"];
const text = fc
  .oneof(
    fc.string({ unit: "binary", maxLength: 12 }),
    fc.array(fc.constantFrom(...ODD), { maxLength: 6 }).map((parts) => parts.join("")),
  )
  // Requests with U+0000 are refused.
  .map((each) => each.replaceAll("\u0000", ""));
// Without backslashes in names: V8 (Node 24.21) compares an escaped name, as it is written, with names that it has seen. Once it
// has seen `\\"`, it reads the name `"\"\u0000"` as that.
const name = text.filter((each) => !each.includes("\\"));
const json: fc.Arbitrary<JsonValue> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom(null, true, false, 0, -0, 1e21, 1e-7, 5e-324, Number.MAX_VALUE, 2 ** 53, 0.1 + 0.2),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(name, tie("value"), { maxKeys: 4 }),
  ),
})).value as fc.Arbitrary<JsonValue>;

const id = text.map((part) => `x${part}`);
const actionTypes = fc.constantFrom("read", "pay", "ask", "Ünï.Cødé", " read ", "支払い.send", 'quo"te', "back\\slash");
const toolName = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9 ._:/@#$+-]{0,20}$/);
const metadata = fc
  .tuple(
    fc.dictionary(fc.oneof(name, fc.constantFrom("__proto__", "constructor", "toString")), json, { maxKeys: 5 }),
    fc.option(fc.dictionary(name, json, { maxKeys: 4 }), { nil: undefined }),
    fc.option(toolName, { nil: undefined }),
  )
  .map(([free, args, tool]) => {
    const { arguments: _, tool: __, mcp_server: ___, ...rest } = free;
    return { ...rest, ...(args === undefined ? {} : { arguments: args }), ...(tool === undefined ? {} : { tool }) };
  });
const action = fc
  .record(
    {
      actionType: actionTypes,
      actionContent: text,
      metadata,
      tool: toolName,
      sessionId: id,
      escalationId: id,
    },
    { requiredKeys: ["actionType", "actionContent"] },
  )
  .map(({ tool, ...rest }) => (rest.metadata?.tool === undefined && tool !== undefined ? { ...rest, tool } : rest));

describe("the receipt of a decision", () => {
  let workspace: TestWorkspace;
  let agentIds: string[];
  before(async () => {
    workspace = await openWorkspace();
    agentIds = [
      await workspace.agent({ name: 'odd "name" \u2026 \u{1f600}' }),
      await workspace.agent({ capabilities: ["read"] }),
    ];
    await workspace.mandate([actionRule(Decision.ESCALATE, "ask")], { name: 'asks "why" \u2026' });
    await workspace.mandate([{ ...velocityRule(5), description: "line\nfeed" }], { name: "limits" });
  });
  after(() => workspace.close());

  it("is canonical JSON that holds the action as it was sent, whatever was in it.", async () => {
    const check = async (attempted: typeof action extends fc.Arbitrary<infer T> ? T : never, who: number) => {
      const agentId = agentIds[who] as string;
      const { decisionId } = await workspace.intercept({ agentId, ...attempted } as never);
      const { body, canonicalBody } = await workspace.receipt(decisionId);
      expect(canonicalJson(JSON.parse(canonicalBody))).to.equal(canonicalBody);
      const { action_type, action_content, metadata } = body.action;
      expect({ action_type, action_content }).to.deep.equal({
        action_type: attempted.actionType,
        action_content: attempted.actionContent,
      });
      const sent = attempted.metadata as JsonObject | undefined;
      expect(metadata === undefined ? "" : canonicalJson(metadata)).to.equal(
        sent ? canonicalJson(sent as JsonValue) : "",
      );
    };
    await fc.assert(fc.asyncProperty(action, fc.nat(1), check), { numRuns: 250 });
    assertIntact(await readLog(workspace.url));
  });

  it("tells of two actions in one batch apart, and both name the root before the batch.", async () => {
    const [agentId] = agentIds as [string];
    /** Decides two actions that arrive together; they share a batch, unless deciding them takes too long for one. */
    const decidePair = async () => {
      const pair = ["one", "two"].map((actionContent) =>
        attempt(workspace.log, { agentId, actionType: "read", actionContent }),
      );
      const replies = await Promise.all(pair);
      const receipts = await Promise.all(replies.map(({ decisionId }) => workspace.receipt(decisionId)));
      return receipts.map(({ body }) => body);
    };
    let bodies = await decidePair();
    while (bodies[0]?.previous_size !== bodies[1]?.previous_size) bodies = await decidePair();
    expect(bodies.map(({ action: { action_content } }) => action_content)).to.deep.equal(["one", "two"]);
    expect(bodies[1]?.seq).to.equal((bodies[0]?.seq ?? 0) + 1);
    expect(bodies[1]).to.include({ previous_root: bodies[0]?.previous_root, previous_size: bodies[0]?.seq });
  });

  it("carries the digest that an approval is bound to when the action escalates, and shows it always.", async () => {
    const [agentId] = agentIds as [string];
    for (const actionType of ["ask", "read"]) {
      const asked = { agentId, actionType, actionContent: "x", metadata: { arguments: { b: 1, a: [] } } };
      const { decisionId } = await workspace.intercept(asked);
      const want = digestOf({
        agent_id: agentId,
        action_type: actionType,
        action_content: "x",
        tool: null,
        tool_version: null,
        metadata: { arguments: { a: [], b: 1 } },
        on_behalf_of: null,
        grant_id: null,
        intent_contract_id: null,
      });
      const { receipt } = await workspace.enforcement.getDecision({ decisionId });
      expect(receipt?.actionDigest).to.equal(want);
      expect((await workspace.receipt(decisionId)).body.action_digest).to.equal(
        actionType === "ask" ? want : undefined,
      );
    }
  });
});
