import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { fieldsOf, openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { createKinds } from "./kinds.ts";

describe("authority that is refused", () => {
  let test: TestWorkspace;
  let lender: string;
  const KINDS = createKinds(() => ({ test, lender }));
  before(async () => {
    test = await openWorkspace();
    lender = await test.agent("lender");
  });
  after(() => test.close());

  const at = (ms: number) => timestampFromMs(ms);
  const window = { actionTypes: ["a"], durationSeconds: 60n };
  const CASES: readonly { description: string; kind: string; over: () => object; field: string }[] = [
    {
      description: "a star inside a pattern",
      kind: "Grant",
      over: () => ({ actionTypes: ["a*b"] }),
      field: "action_types[0]",
    },
    {
      description: "a blank pattern",
      kind: "TemporalWindow",
      over: () => ({ actionTypes: ["a", " "] }),
      field: "action_types[1]",
    },
    {
      description: "a control character",
      kind: "IntentContract",
      over: () => ({ allowedActionTypes: ["a\nb"] }),
      field: "allowed_action_types[0]",
    },
    {
      description: "no pattern",
      kind: "FederationToken",
      over: () => ({ allowedActionTypes: [] }),
      field: "allowed_action_types",
    },
    {
      description: "a blank tool",
      kind: "IntentContract",
      over: () => ({ allowedTools: [" "] }),
      field: "allowed_tools[0]",
    },
    {
      description: "a text that nothing can hash",
      kind: "Session",
      over: () => ({ purpose: "\ud800" }),
      field: "purpose",
    },
    { description: "U+0000", kind: "Credential", over: () => ({ name: "a\u0000" }), field: "name" },
    {
      description: "more uses than JSON can hold",
      kind: "Grant",
      over: () => ({ maxUses: 2n ** 53n }),
      field: "max_uses",
    },
    {
      description: "more actions than JSON can hold",
      kind: "IntentContract",
      over: () => ({ maxActions: 2n ** 60n }),
      field: "max_actions",
    },
    { description: "no uses at all", kind: "TemporalWindow", over: () => ({ maxUses: 0n }), field: "max_uses" },
    {
      description: "a life that is too short",
      kind: "Session",
      over: () => ({ ttlSeconds: 0n }),
      field: "ttl_seconds",
    },
    {
      description: "a life that is too long",
      kind: "FederationToken",
      over: () => ({ ttlSeconds: 31_536_001n }),
      field: "ttl_seconds",
    },
    {
      description: "trust between two steps",
      kind: "FederationToken",
      over: () => ({ maxTrustLevel: 50.05 }),
      field: "max_trust_level",
    },
    {
      description: "trust above 100",
      kind: "FederationToken",
      over: () => ({ maxTrustLevel: 100.1 }),
      field: "max_trust_level",
    },
    {
      description: "a token too long for a header",
      kind: "FederationToken",
      over: () => ({ allowedActionTypes: Array(40).fill("a".repeat(256)) }),
      field: "allowed_action_types",
    },
    {
      description: "a grant to oneself",
      kind: "Grant",
      over: () => ({ granteeAgentId: lender }),
      field: "grantee_agent_id",
    },
    {
      description: "a server with a star in it",
      kind: "McpToolPolicy",
      over: () => ({ server: "git*" }),
      field: "server",
    },
    { description: "a tool that no tool is named", kind: "McpToolPolicy", over: () => ({ tool: ".." }), field: "tool" },
    { description: "a tool with a star inside", kind: "McpToolPolicy", over: () => ({ tool: "a*b" }), field: "tool" },
    {
      description: "no decision",
      kind: "McpToolPolicy",
      over: () => ({ decision: Decision.UNSPECIFIED }),
      field: "decision",
    },
    {
      description: "a window that is over",
      kind: "TemporalWindow",
      over: () => ({ ...window, startsAt: at(Date.now() - 120_000) }),
      field: "starts_at",
    },
    {
      description: "a window beyond the year 9999",
      kind: "TemporalWindow",
      over: () => ({ ...window, startsAt: at(Date.UTC(9999, 11, 31, 23, 59, 59)) }),
      field: "starts_at",
    },
  ];
  for (const { description, kind, over, field } of CASES) {
    it(`of ${kind}: ${description}.`, async () => {
      const agentId = await test.agent("refused");
      const { seq } = await test.log.caughtUp();
      const call = KINDS.find(({ name }) => name === kind)?.create(agentId, over()) ?? Promise.resolve();
      expect(await fieldsOf(call)).to.deep.equal([field]);
      expect((await test.log.caughtUp()).seq).to.equal(seq);
    });
  }
});
