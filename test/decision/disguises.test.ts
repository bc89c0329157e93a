import { fromJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionRule, failureOf, openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";

/** Spellings of `t6pay.x` that the plain one's rules cover. */
const SPELLINGS = ["T6PAY.X", "  t6pay.x ", "ｔ６ｐａｙ．ｘ", "t6𝐩𝐚𝐲.x", "t6pay\u00a0.x".replace("\u00a0", "")];
/** Spellings that are refused, and how the error names them. */
const DISGUISES: readonly (readonly [text: string, named: string])[] = [
  ["t6\u200bpay.x", "U+200B"],
  ["t6\u00adpay.x", "U+00AD"],
  ["t6\u2060pay.x", "U+2060"],
  ["t6pay.x\u0085", "U+0085"],
  ["t6p\u0430y.x", "U+0430"],
];
const MCP_NAMES = [
  "fs/write_file",
  "fs.write_file",
  "fs__write_file",
  "mcp__fs__write_file",
  "FS/WRITE_FILE",
  "MCP__FS__Write_File",
];

describe("a disguised name", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  before(async () => {
    workspace = await openWorkspace();
    agentId = await workspace.agent();
    await workspace.mandate([actionRule(Decision.BLOCK, "T6pay.*")]);
  });
  after(() => workspace.close());

  const fieldOf = async (call: Promise<unknown>): Promise<string> => {
    const { violations, message } = await failureOf(call);
    return `${violations.map(({ field }) => field).join()} ${message}`;
  };

  it("of an action type passes no mandate, denied type or limit.", async () => {
    const denied = await workspace.agent({ name: "denied" }, [], ["t6PAY.*"]);
    const limited = await workspace.agent();
    await workspace.mandate([velocityRule(1, { scope: Scope.AGENT, matchActionTypes: ["lim６t.x"] })]);
    for (const actionType of SPELLINGS) {
      expect((await workspace.intercept({ agentId, actionType })).decision, actionType).to.equal(Decision.BLOCK);
      const reply = await workspace.intercept({ agentId: denied, actionType });
      expect(reply.decisionPath, actionType).to.equal(DecisionPath.PERMISSIONS);
    }
    expect((await workspace.intercept({ agentId: limited, actionType: "LIM6T.x" })).decision).to.equal(Decision.ALLOW);
    expect((await workspace.intercept({ agentId: limited, actionType: "lim６t.x" })).decision).to.equal(Decision.BLOCK);
    for (const [actionType, named] of DISGUISES) {
      expect(await fieldOf(workspace.intercept({ agentId, actionType })))
        .to.include("action_type")
        .and.to.include(named);
    }
  });

  it("is refused wherever a pattern is stored, with the field and the character.", async () => {
    const other = await workspace.agent();
    for (const [text, named] of DISGUISES) {
      const stored: readonly (readonly [string, () => Promise<unknown>])[] = [
        ["capabilities[0]", () => workspace.agents.registerAgent({ name: "a", capabilities: [text] })],
        ["rules[0].conditions.match_action_types[0]", () => workspace.mandate([actionRule(Decision.BLOCK, text)])],
        [
          "tool",
          () =>
            workspace.authority.createMcpToolPolicy({ agentId, server: "fs", tool: text, decision: Decision.BLOCK }),
        ],
        [
          "server",
          () => workspace.authority.createMcpToolPolicy({ agentId, server: text, tool: "x", decision: Decision.BLOCK }),
        ],
        [
          "action_types[0]",
          () =>
            workspace.authority.createGrant({
              grantorAgentId: agentId,
              granteeAgentId: other,
              actionTypes: [text],
            }),
        ],
      ];
      for (const [field, call] of stored)
        expect(await fieldOf(call()))
          .to.include(field)
          .and.to.include(named);
    }
  });

  it("of a tool passes no rule on the tool, which is one whatever its case.", async () => {
    const inputSchema = { type: "object", properties: { amount: { type: "number" } } };
    await workspace.tools.registerTool({ name: "pay6", inputSchema });
    await workspace.mandate([{ ...actionRule(Decision.BLOCK, "*"), tool: "Pay6" }]);
    for (const named of [{ tool: "PAY6" }, { tool: " pay6 " }, { metadata: { tool: "PAY6" } }]) {
      const reply = await workspace.intercept({ agentId, actionType: "x", ...named });
      expect(reply.decision, JSON.stringify(named)).to.equal(Decision.BLOCK);
      const { receipt } = await workspace.enforcement.getDecision({ decisionId: reply.decisionId });
      expect(receipt?.action?.tool).to.equal("pay6");
      expect(receipt?.action?.toolVersion).to.equal(1);
    }
    expect((await workspace.intercept({ agentId, actionType: "PAY6" })).decision).to.equal(Decision.BLOCK);
    const again = await workspace.tools.registerTool({ name: "PAY6", inputSchema: { type: "object" } });
    expect(again.tool).to.include({ name: "pay6", version: 2 });
    expect((await workspace.tools.getTool({ name: "PaY6" })).versions.length).to.equal(2);
    for (const tool of ["pay6\u200b", "ｐay6", "p\u0430y6", ".", ".."]) {
      for (const [field, named] of [
        ["tool", { tool }],
        ["metadata.tool", { metadata: { tool } }],
      ] as const) {
        expect(await fieldOf(workspace.intercept({ agentId, actionType: "x", ...named }))).to.include(field);
      }
      expect(await fieldOf(workspace.tools.registerTool({ name: tool, inputSchema }))).to.include("name");
      expect(await fieldOf(workspace.mandate([{ ...actionRule(Decision.BLOCK, "*"), tool }]))).to.include(
        "rules[0].tool",
      );
    }
  });

  it("of a server's tool passes no MCP tool policy, in any form of its name.", async () => {
    const policy = { agentId, server: "Fs", tool: "Write_*", decision: Decision.BLOCK };
    await workspace.authority.createMcpToolPolicy(policy);
    const calls = [
      ...MCP_NAMES.map((tool) => ({ tool })),
      ...["write_file", ...MCP_NAMES].map((tool) => ({ tool, metadata: { mcp_server: " FS" } })),
      ...MCP_NAMES.map((tool) => ({ metadata: { tool } })),
      ...["other/write_file", "a.b__write_file"].map((tool) => ({ tool, metadata: { mcp_server: "fs" } })),
      ...["fs.other/write_file", "fs.fs.write_file", "fs. write_file"].map((tool) => ({ tool })),
      ...MCP_NAMES.map((actionType) => ({ actionType })),
      ...["write_file", "other/write_file"].map((actionType) => ({ actionType, metadata: { mcp_server: "fs" } })),
    ];
    for (const call of calls) {
      const reply = await workspace.intercept({ agentId, actionType: "mcp.call", ...call });
      expect(reply.decisionPath, JSON.stringify(call)).to.equal(DecisionPath.MCP_TOOL_POLICY);
    }
    for (const call of [
      { tool: "write_file" },
      { actionType: "write_file" },
      { actionType: "write_file", metadata: { mcp_server: "other" } },
      { actionType: "other.write_file" },
      { tool: "fsx/write_file" },
      { tool: "fs/read_file" },
      { tool: "afs__write_x" },
    ]) {
      expect((await workspace.intercept({ agentId, actionType: "mcp.call", ...call })).decision).to.equal(
        Decision.ALLOW,
      );
    }
    const other = await workspace.agent();
    await workspace.authority.createMcpToolPolicy({
      agentId: other,
      server: "*",
      tool: "rm",
      decision: Decision.BLOCK,
    });
    for (const tool of ["rm", "a/rm", "a.b.rm", "mcp__a__rm", "a__b__rm"]) {
      const reply = await workspace.intercept({ agentId: other, actionType: "mcp.call", tool });
      expect(reply.decisionPath, tool).to.equal(DecisionPath.MCP_TOOL_POLICY);
    }
    for (const [actionType, metadata, path] of [
      ["mcp__a__rm", {}, DecisionPath.MCP_TOOL_POLICY],
      ["rm", { mcp_server: "a" }, DecisionPath.MCP_TOOL_POLICY],
      ["rm", {}, DecisionPath.DEFAULT],
      ["a.rm", {}, DecisionPath.DEFAULT],
    ] as const) {
      const reply = await workspace.intercept({ agentId: other, actionType, metadata });
      expect(reply.decisionPath, actionType).to.equal(path);
    }
  });
});

describe("contradictory sources", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  before(async () => {
    workspace = await openWorkspace();
    agentId = await workspace.agent();
    const properties = { amount: { type: "number" } };
    await workspace.tools.registerTool({
      name: "pay",
      inputSchema: { type: "object", properties, required: ["amount"] },
    });
    const rules = [{ field: "amount", operator: ">", value: 500 }];
    const rule = { tool: "pay", decision: "DECISION_BLOCK", conditions: { operator: "AND", rules } };
    await workspace.mandate([fromJson(RuleSchema, rule)]);
  });
  after(() => workspace.close());

  const decide = (metadata: object | undefined, tool: string | undefined = "pay") =>
    workspace.intercept({
      agentId,
      actionType: "x",
      ...(tool === undefined ? {} : { tool }),
      metadata: metadata as never,
    });

  it("are refused: two tools, and arguments, a tool or a server of another type.", async () => {
    const cases: readonly (readonly [string, object])[] = [
      ["metadata.tool", { tool: "read" }],
      ["metadata.tool", { tool: 5 }],
      ["metadata.tool", { tool: ["pay"] }],
      ["metadata.mcp_server", { mcp_server: ["fs"] }],
      ["metadata.arguments", { arguments: [{ amount: 900 }], amount: 1 }],
      ["metadata.arguments", { arguments: 5, amount: 1 }],
      ["metadata.arguments", { arguments: true, amount: 1 }],
      ["metadata.arguments", { arguments: "amount=900", amount: 1 }],
      ["metadata.arguments", { arguments: '[{"amount":900}]', amount: 1 }],
      ["metadata.arguments", { arguments: '"{\\"amount\\":900}"', amount: 1 }],
      ["metadata.arguments", { arguments: '{"amount":900,"amount":1}' }],
      ["metadata.arguments", { arguments: '{"amount":900,"\\u0061mount":1}' }],
      ["metadata.arguments", { arguments: '{"a":{"b":1,"b":2}}' }],
      ["metadata.arguments", { arguments: '{"amount":1e999}' }],
      ["metadata.arguments", { arguments: '{"note":"\\ud800","amount":1}' }],
      ["metadata.arguments", { arguments: `{"a":${"[".repeat(70)}${"]".repeat(70)}}` }],
      ["metadata.arguments", { arguments: "" }],
      ["metadata.arguments", { arguments: `{"a":[${"{},".repeat(300_000)}0]}` }],
      ["metadata.arguments", { arguments: `{"a":[${"0,".repeat(24_999)}0]}` }],
      ["metadata.arguments", { arguments: `{"a":[${"0,".repeat(14_999)}0]}`, b: Array(10_000).fill(0) }],
      ["metadata.arguments", { arguments: '"1 "'.repeat(225_000) }],
    ];
    for (const [field, metadata] of cases) {
      const { violations } = await failureOf(decide(metadata));
      expect(
        violations.map((each) => each.field),
        JSON.stringify(metadata),
      ).to.deep.equal([field]);
    }
  });

  it("are none where one is null, blank, or the same in another case.", async () => {
    for (const metadata of [
      { tool: "PAY", amount: 1 },
      { tool: null, amount: 1 },
      { tool: " ", amount: 1 },
    ]) {
      expect((await decide(metadata)).decision, JSON.stringify(metadata)).to.equal(Decision.ALLOW);
    }
    expect((await decide({ arguments: null, amount: 900 })).decision).to.equal(Decision.BLOCK);
  });

  it("take as many values in arguments as text as in an object.", async () => {
    const text = `{"a":[${"0,".repeat(24_995)}0],"amount":900}`;
    expect((await decide({ arguments: text })).decision).to.equal(Decision.BLOCK);
    const { message } = await failureOf(decide({ arguments: `{"a":[${"0,".repeat(25_000)}0]}` }));
    expect(message).to.contain("`metadata.arguments` must not hold more than 25,000 values");
  });

  it("are settled for arguments as text: rules, receipt and retry see the object.", async () => {
    const text = '{ "amount" : 900, "note": "a:b {\\"c\\":1}" }';
    const reply = await decide({ arguments: text, amount: 1 });
    expect(reply.decision).to.equal(Decision.BLOCK);
    const { receipt } = await workspace.enforcement.getDecision({ decisionId: reply.decisionId });
    expect(receipt?.action?.arguments).to.deep.equal({ amount: 900, note: 'a:b {"c":1}' });
    expect((await decide({ arguments: '{"amount":400}', amount: 900 })).decision).to.equal(Decision.ALLOW);
    const requestId = "6f1c2c3e-58a4-4c55-9a51-2b7f0f6f3c19";
    const request = { agentId, actionType: "x", tool: "pay", requestId };
    const first = await workspace.intercept({ ...request, metadata: { arguments: '{"amount":4}' } });
    const second = await workspace.intercept({ ...request, tool: "PAY", metadata: { arguments: { amount: 4 } } });
    expect(second).to.include({ decisionId: first.decisionId, replayed: true });
  });
});

describe("a tool that is not registered", () => {
  it("is decided by the workspace's setting, and then by the mandates.", async () => {
    const workspace = await openWorkspace();
    try {
      const agentId = await workspace.agent();
      const { workspaceId } = workspace;
      await workspace.tools.registerTool({ name: "known", inputSchema: { type: "object" } });
      const decide = (tool?: string) =>
        workspace.intercept({ agentId, actionType: "x", ...(tool === undefined ? {} : { tool }) });
      for (const setting of [Decision.ALLOW, Decision.ESCALATE, Decision.BLOCK]) {
        const updated = await workspace.admin.updateWorkspace({ workspaceId, unknownTools: setting });
        expect(updated.workspace?.unknownTools).to.equal(setting);
        const reply = await decide("strange");
        expect(reply.decision).to.equal(setting);
        if (setting !== Decision.ALLOW) {
          expect(reply.decisionPath).to.equal(DecisionPath.UNKNOWN_TOOL);
          expect(reply.reasons[0]?.code).to.equal("TOOL_UNKNOWN");
        }
        expect((await decide("KNOWN")).decision).to.equal(Decision.ALLOW);
        expect((await decide()).decision).to.equal(Decision.ALLOW);
      }
      const fresh = await workspace.replica();
      expect((await fresh.enforcement.intercept({ agentId, actionType: "x", tool: "strange" })).decision).to.equal(
        Decision.BLOCK,
      );
    } finally {
      await workspace.close();
    }
  });
});
