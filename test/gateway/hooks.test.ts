import { expect } from "chai";
import { startService, type TestService } from "../support/service.ts";
import { until } from "./until.ts";

interface HookOutput {
  readonly permissionDecision?: string;
  readonly permissionDecisionReason?: string;
  readonly updatedInput?: object;
}

const RULES = [
  { type: "action", decision: "block", conditions: { match_action_types: ["claude-code.webfetch", "codex.webfetch"] } },
  { type: "action", decision: "escalate", conditions: { match_action_types: ["*.write"] } },
  {
    type: "metadata",
    tool: "claude-code.Bash",
    decision: "block",
    conditions: { operator: "AND", rules: [{ field: "command", operator: "contains", value: "rm -rf" }] },
  },
];

describe("the hooks of coding agents", () => {
  let service: TestService;
  before(async () => {
    service = await startService({ env: { ACP_PUBLIC_URL: "http://127.0.0.1:7080" } });
    for (const [index, rule] of RULES.entries()) {
      const patterns = rule.conditions.match_action_types?.map((pattern) => pattern.replace(/^\*\./, "claude-code."));
      const conditions = patterns === undefined ? rule.conditions : { match_action_types: patterns };
      await service.rest("POST /v1/enforce/mandates", { name: `m${index}`, rules: [{ ...rule, conditions }] });
    }
    await service.rest("POST /v1/enforce/mandates", {
      name: "codex writes",
      rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["codex.write"] } }],
    });
  });
  after(() => service?.stop());

  interface Asking {
    readonly agentId: string;
    ask(event: object | string, query?: string, headers?: Record<string, string>): Promise<Response>;
    output(event: object, query?: string): Promise<HookOutput | undefined>;
    pending(): Promise<string>;
  }

  /** A coding agent of its own, as its client calls the hook. */
  async function open(client: "claude-code" | "codex" = "claude-code"): Promise<Asking> {
    const agentId = await service.agent();
    const ask: Asking["ask"] = (event, query = "", headers = {}) =>
      fetch(`${service.http}/v1/hooks/${client}${query}`, {
        method: "POST",
        headers: {
          "x-api-key": service.adminKey,
          "x-agent-id": agentId,
          "content-type": "application/json",
          ...headers,
        },
        body: typeof event === "string" ? event : JSON.stringify(event),
      });
    return {
      agentId,
      ask,
      async output(event, query) {
        const response = await ask(event, query);
        expect(response.status).to.equal(200);
        return ((await response.json()) as { hookSpecificOutput?: HookOutput }).hookSpecificOutput;
      },
      async pending() {
        let id = "";
        await until(async () => {
          const path = `GET /v1/enforce/escalations?status=pending&agent_id=${agentId}`;
          const { escalations } = (await service.rest(path)) as unknown as {
            escalations: { escalation_id: string }[];
          };
          id = escalations[0]?.escalation_id ?? "";
          return id !== "";
        });
        return id;
      },
    };
  }

  const event = (tool: string, input: object = {}, more: object = {}) => ({
    session_id: "s-1",
    transcript_path: "/t",
    cwd: "/project",
    permission_mode: "default",
    hook_event_name: "PreToolUse",
    tool_name: tool,
    tool_input: input,
    tool_use_id: "toolu_1",
    ...more,
  });

  const resolve = (escalationId: string, body: object) =>
    service.rest(`POST /v1/enforce/escalations/${escalationId}/resolve`, body);

  it("allow a tool in the form of each client, and seal the decision.", async () => {
    const claude = await open();
    expect(await claude.output(event("Read", { file_path: "/a" }))).to.deep.equal({
      hookEventName: "PreToolUse",
      permissionDecision: "allow",
    });
    expect(await service.decisionIdsOf(claude.agentId)).to.have.length(1);
    // Codex refuses the word `allow` and goes on after an empty object.
    const codex = await (await open("codex")).ask(event("Bash", { command: "ls" }));
    expect([codex.status, await codex.text()]).to.deep.equal([200, "{}"]);
  });

  it("deny with reasons for the model.", async () => {
    for (const client of ["claude-code", "codex"] as const) {
      const output = await (await open(client)).output(event("WebFetch"));
      expect(output?.permissionDecision).to.equal("deny");
      expect(output?.permissionDecisionReason).to.contain("blocked this call of `WebFetch`");
    }
  });

  it("let rules read the input of a tool.", async () => {
    const { output } = await open();
    expect((await output(event("Bash", { command: "ls" })))?.permissionDecision).to.equal("allow");
    expect((await output(event("Bash", { command: "sudo rm -rf /" })))?.permissionDecision).to.equal("deny");
  });

  it("name a tool of an MCP server as the gateway does.", async () => {
    const { agentId, output } = await open();
    await output(event("mcp__bank__pay", { amount: 1 }));
    const { decisions } = (await service.rest(`GET /v1/enforce/decisions?agent_id=${agentId}`)) as unknown as {
      decisions: { action_type: string; tool: string }[];
    };
    expect(decisions[0]).to.include({ action_type: "bank.pay" });
  });

  it("hold a call until a person approves it, and run it once.", async () => {
    const { output, pending } = await open();
    const held = output(event("Write", { path: "/x" }), "?hold_seconds=30");
    await resolve(await pending(), { resolution: "approved" });
    expect((await held)?.permissionDecision).to.equal("allow");
    const again = await output(event("Write", { path: "/x" }), "?hold_seconds=0");
    expect(again?.permissionDecision).to.equal("deny");
    expect(again?.permissionDecisionReason).to.contain("waits for a person").and.to.contain("/escalations/esc_");
  });

  it("tell a model why a person rejected its call.", async () => {
    const { output, pending } = await open("codex");
    const held = output(event("Write", { path: "/y" }), "?hold_seconds=30");
    await resolve(await pending(), { resolution: "rejected", note: "not on Friday" });
    const said = await held;
    expect(said?.permissionDecision).to.equal("deny");
    expect(said?.permissionDecisionReason).to.contain("not on Friday");
  });

  it("run a call with the input that a person put in place of its own.", async () => {
    for (const client of ["claude-code", "codex"] as const) {
      const { output, pending } = await open(client);
      const held = output(event("Write", { path: "/etc/passwd" }), "?hold_seconds=30");
      await service.rest(`POST /v1/enforce/escalations/${await pending()}/edit`, { arguments: { path: "/tmp/x" } });
      const said = await held;
      expect(said?.permissionDecision).to.equal("allow");
      expect(said?.updatedInput).to.deep.equal({ path: "/tmp/x" });
    }
  });

  it("leave it to the person at the terminal only where that is asked for, and never in Codex.", async () => {
    const claude = await open();
    const asked = await claude.output(event("Write", { path: "/z" }), "?hold_seconds=0&when_pending=ask");
    expect(asked?.permissionDecision).to.equal("ask");
    const codex = await open("codex");
    const denied = await codex.output(event("Write"), "?hold_seconds=0&when_pending=ask");
    expect(denied?.permissionDecision).to.equal("deny");
    expect(denied?.permissionDecisionReason).to.contain("`when_pending`");
  });

  it("end a held call when its agent is revoked.", async () => {
    const { agentId, output, pending } = await open();
    const held = output(event("Write", { path: "/r" }), "?hold_seconds=30");
    await pending();
    await service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, {});
    const said = await held;
    expect(said?.permissionDecision).to.equal("deny");
    expect(said?.permissionDecisionReason).to.contain("no longer active");
  });

  const ODD: readonly [string, object | string, string, Record<string, string>, string][] = [
    ["a wrong key", event("Read"), "", { "x-api-key": "acp_wrong" }, "the key is unknown"],
    ["an unknown agent", event("Read"), "", { "x-agent-id": "agt_unknown" }, "agt_unknown"],
    ["no JSON", "{", "", {}, "body"],
    ["a list", "[]", "", {}, "object"],
    ["another event", event("Read", {}, { hook_event_name: "PostToolUse" }), "", {}, "`hook_event_name`"],
    ["no tool", { hook_event_name: "PreToolUse" }, "", {}, "`tool_name`"],
    ["a text as input", event("Read", "x" as unknown as object), "", {}, "`tool_input`"],
    ["an invisible character in the tool's name", event("Re\u200bad"), "", {}, "U+200B"],
    ["a hold without end", event("Read"), "?hold_seconds=9999", {}, "`hold_seconds`"],
    ["too large a body", event("Read", { text: "x".repeat(2_000_000) }), "", {}, "bytes"],
  ];
  for (const [what, body, query, headers, reason] of ODD) {
    it(`deny a call with ${what}, since a client runs the tool after an error.`, async () => {
      const { ask, agentId } = await open();
      const response = await ask(body, query, headers);
      const said = (await response.json()) as { hookSpecificOutput: HookOutput };
      expect(response.status).to.equal(200);
      expect(said.hookSpecificOutput.permissionDecision).to.equal("deny");
      expect(said.hookSpecificOutput.permissionDecisionReason).to.contain(reason);
      expect(await service.decisionIdsOf(agentId)).to.have.length(0);
    });
  }

  it("answer nothing but POST, and no other client.", async () => {
    const headers = { "x-api-key": service.adminKey };
    expect((await fetch(`${service.http}/v1/hooks/claude-code`, { headers })).status).to.equal(405);
    expect((await fetch(`${service.http}/v1/hooks/other`, { headers, method: "POST" })).status).to.equal(404);
    expect((await fetch(`${service.http}/api/v1/hooks/claude-code`, { headers })).status).to.equal(405);
  });
});
