import { createHmac, randomUUID } from "node:crypto";
import { expect } from "chai";
import { ownedBy } from "../support/owned-key.ts";
import { startService, type TestService } from "../support/service.ts";
import { decisionsOf, settledOutcome } from "./outcomes.ts";
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
  { type: "action", decision: "allow", conditions: { match_action_types: ["claude-code.glob", "codex.glob"] } },
  {
    type: "metadata",
    decision: "block",
    conditions: {
      operator: "OR",
      rules: [
        { field: "agent_type", operator: "==", value: "reviewer" },
        { field: "agent_id", operator: "==", value: "sub-7" },
      ],
    },
  },
];
const NONCE = "0123456789abcdef".repeat(4);

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

  it("say nothing where no rule covers a call, so that the person's own prompt holds, and seal the decision.", async () => {
    for (const client of ["claude-code", "codex"] as const) {
      const { agentId, ask } = await open(client);
      const response = await ask(event("Read", { file_path: "/a" }));
      expect([response.status, await response.text()]).to.deep.equal([200, "{}"]);
      expect(await service.decisionIdsOf(agentId)).to.have.length(1);
    }
  });

  it("allow a tool that a rule allows, in the form of each client.", async () => {
    const claude = await open();
    expect(await claude.output(event("Glob"))).to.deep.equal({
      hookEventName: "PreToolUse",
      permissionDecision: "allow",
    });
    // Codex refuses the word `allow` and goes on after an empty object.
    expect(await (await (await open("codex")).ask(event("Glob"))).text()).to.equal("{}");
  });

  it("let rules read which subagent calls a tool.", async () => {
    for (const client of ["claude-code", "codex"] as const) {
      const { output } = await open(client);
      const denied = await output(event("Read", {}, { agent_id: "sub-1", agent_type: "reviewer" }));
      expect(denied?.permissionDecision).to.equal("deny");
      expect((await output(event("Read", {}, { agent_id: "sub-7" })))?.permissionDecision).to.equal("deny");
      expect(await output(event("Read", {}, { agent_id: "sub-1", agent_type: "writer" }))).to.equal(undefined);
    }
  });

  const signatureOf = (key: string, nonce: string, body: string) =>
    createHmac("sha256", key).update(nonce).update(body).digest("hex");

  it("sign an answer with the key of the call, over nonce and body, with the decision beside the output.", async () => {
    for (const headers of [{}, { "x-api-key": "", authorization: `Bearer ${service.adminKey}` }]) {
      const { agentId, ask } = await open();
      const response = await ask(event("Glob"), "", { "x-hook-nonce": NONCE, ...headers });
      const body = await response.text();
      expect(response.headers.get("x-hook-signature")).to.equal(signatureOf(service.adminKey, NONCE, body));
      const { output, decision } = JSON.parse(body);
      expect(output.hookSpecificOutput.permissionDecision).to.equal("allow");
      expect(decision).to.deep.include({ agent_id: agentId, decision: "allow", decision_path: "policy" });
      expect([decision.decision_id]).to.deep.equal(await service.decisionIdsOf(agentId));
    }
  });

  it("sign a fault of a caller that they know.", async () => {
    const { ask } = await open();
    const response = await ask("{", "", { "x-hook-nonce": NONCE });
    const body = await response.text();
    expect(response.headers.get("x-hook-signature")).to.equal(signatureOf(service.adminKey, NONCE, body));
    expect(JSON.parse(body)).to.have.nested.property("output.hookSpecificOutput.permissionDecision", "deny");
    expect(JSON.parse(body)).not.to.have.property("decision");
  });

  it("sign nothing with a key that they do not know, nor over a nonce of another form.", async () => {
    const { ask, agentId } = await open();
    const cases: readonly [Record<string, string>, (status: number) => boolean][] = [
      [{ "x-hook-nonce": NONCE, "x-api-key": "acp_wrong" }, (status) => status === 401 || status === 403],
      [{ "x-hook-nonce": NONCE, "x-api-key": "" }, (status) => status === 401 || status === 403],
      [{ "x-hook-nonce": NONCE.slice(1) }, (status) => status === 400],
      [{ "x-hook-nonce": `${NONCE}0` }, (status) => status === 400],
      [{ "x-hook-nonce": NONCE.toUpperCase() }, (status) => status === 400],
      [{ "x-hook-nonce": "" }, (status) => status === 400],
    ];
    for (const [headers, isExpected] of cases) {
      const response = await ask(event("Glob"), "", headers);
      expect(response.status, JSON.stringify(headers)).to.satisfy(isExpected);
      expect(response.headers.get("x-hook-signature")).to.equal(null);
    }
    expect(await service.decisionIdsOf(agentId)).to.have.length(0);
  });

  it("deny with reasons for the model.", async () => {
    for (const client of ["claude-code", "codex"] as const) {
      const output = await (await open(client)).output(event("WebFetch"));
      expect(output?.permissionDecision).to.equal("deny");
      expect(output?.permissionDecisionReason).to.contain("blocked this call of `WebFetch`");
    }
  });

  it("tell the model when a limit lets its call pass.", async () => {
    const { output, agentId } = await open();
    const conditions = { mode: "velocity", match_action_types: ["claude-code.grep"], max_count: 1, window_seconds: 60 };
    const rules = [{ type: "sequence", decision: "block", conditions }];
    await service.rest("POST /v1/enforce/mandates", { name: "few", scope: "agent", agent_id: agentId, rules });
    expect(await output(event("Grep"))).to.equal(undefined);
    const denied = await output(event("Grep"));
    expect(denied?.permissionDecisionReason).to.match(
      /2 matching actions in 60 s are more than 1\nYou may try it again after (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC\.$/,
    );
  });

  it("let rules read the input of a tool.", async () => {
    const { output } = await open();
    expect(await output(event("Bash", { command: "ls" }))).to.equal(undefined);
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

  it("wait for a second person to approve an edit where four eyes are wanted, and tell a model what waits.", async () => {
    await service.rest("PATCH /v1/admin/workspaces/default", { four_eyes: true });
    const [ann, bob] = [await ownedBy("Ann", service), await ownedBy("Bob", service)];
    const { output, pending } = await open();
    const edited = async (path: string): Promise<string> => {
      const { replacement } = await ann(`POST /v1/enforce/escalations/${await pending()}/edit`, {
        arguments: { path },
      });
      return String((replacement as unknown as { escalation_id: string }).escalation_id);
    };
    const held = output(event("Write", { path: "/etc/passwd" }), "?hold_seconds=30");
    await bob(`POST /v1/enforce/escalations/${await edited("/tmp/x")}/resolve`, { resolution: "approved" });
    expect(await held).to.deep.include({ permissionDecision: "allow", updatedInput: { path: "/tmp/x" } });
    const left = output(event("Write", { path: "/etc/shadow" }), "?hold_seconds=3");
    const waitsFor = await edited("/tmp/y");
    const said = (await left)?.permissionDecisionReason ?? "";
    expect(said).to.contain(waitsFor).and.to.contain('the arguments {"path":"/tmp/y"}');
    await bob(`POST /v1/enforce/escalations/${waitsFor}/resolve`, { resolution: "approved" });
    const again = await output(event("Write", { path: "/tmp/y" }), "?hold_seconds=3");
    expect(again?.permissionDecision).to.equal("allow");
    await service.rest("PATCH /v1/admin/workspaces/default", { four_eyes: false });
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

  /** Calls a tool whose end is reported, and gives the event after it. */
  const called = async ({ output }: Asking, more: object = {}, query = "?outcome=reported"): Promise<string> => {
    const toolUseId = `toolu_${randomUUID()}`;
    expect(await output(event("Read", {}, { tool_use_id: toolUseId, ...more }), query)).to.equal(undefined);
    return toolUseId;
  };
  const ended = (toolUseId: string, more: object = {}) =>
    event("Read", {}, { hook_event_name: "PostToolUse", tool_use_id: toolUseId, tool_response: "text", ...more });

  const ENDS: readonly [string, object, string, string | null][] = [
    ["an event after the tool", {}, "succeeded", null],
    ["a result of an MCP server", { tool_response: { content: [], isError: false } }, "succeeded", null],
    ["an error of an MCP server", { tool_response: { content: [], isError: true } }, "failed", "the tool failed"],
    [
      "the event of a failure",
      { hook_event_name: "PostToolUseFailure", error: "no such file: /srv/ada/secret", is_interrupt: false },
      "failed",
      "the tool failed",
    ],
  ];
  for (const client of ["claude-code", "codex"] as const) {
    for (const [what, more, status, error] of ENDS) {
      it(`report a call as ${status} after ${what} of ${client}, once and as the agent's own word.`, async () => {
        const asking = await open(client);
        const toolUseId = await called(asking);
        const [pending] = await decisionsOf(service, asking.agentId);
        expect(pending?.outcome?.status).to.equal("pending");
        expect(pending?.claim?.claim_id).to.be.a("string");
        for (const event of [ended(toolUseId, more), ended(toolUseId, { hook_event_name: "PostToolUseFailure" })]) {
          const response = await asking.ask(event);
          expect([response.status, await response.text()]).to.deep.equal([200, "{}"]);
        }
        const outcome = await settledOutcome(service, asking.agentId);
        expect(outcome?.status).to.equal(status);
        expect(outcome?.reported_by).to.match(/^key_/);
        expect(outcome?.error ?? "")
          .to.contain(error ?? "")
          .and.not.to.contain("secret");
        expect(await service.decisionIdsOf(asking.agentId)).to.have.length(1);
      });
    }
  }

  it("leave the outcome of an interrupted tool open, as it may have run in part.", async () => {
    const asking = await open();
    const interrupted = await called(asking);
    const failed = { hook_event_name: "PostToolUseFailure", is_interrupt: true };
    expect((await asking.ask(ended(interrupted, failed))).status).to.equal(200);
    await asking.ask(ended(await called(asking)));
    expect((await settledOutcome(service, asking.agentId))?.status).to.equal("succeeded");
    const outcomes = (await decisionsOf(service, asking.agentId)).map(({ outcome }) => outcome?.status);
    expect(outcomes).to.deep.equal(["pending", "succeeded"]);
  });

  it("track nothing for a client that does not report, and cancel at once what is decided on trial.", async () => {
    const asking = await open();
    await called(asking, {}, "");
    await called(asking, { tool_use_id: undefined });
    await called(asking, {}, "?outcome=cancelled");
    const told = await decisionsOf(service, asking.agentId);
    expect(told.map(({ outcome, claim }) => [outcome, claim !== null])).to.deep.equal([
      [null, true],
      [null, true],
      [null, true],
    ]);
    await service.rest("PATCH /v1/admin/workspaces/default", { outcomes: "all" });
    try {
      await called(asking, {}, "?outcome=cancelled");
      expect((await settledOutcome(service, asking.agentId))?.status).to.equal("cancelled");
      // A tool whose hook does not say that it reports may still be reported.
      await asking.ask(ended(await called(asking, {}, "")));
      expect((await settledOutcome(service, asking.agentId))?.status).to.equal("succeeded");
    } finally {
      await service.rest("PATCH /v1/admin/workspaces/default", { outcomes: "tracked" });
    }
  });

  it("report the end of a call to its own agent, session and client alone.", async () => {
    const asking = await open();
    const toolUseId = await called(asking);
    const stranger = await open();
    const other = await open("codex");
    await stranger.ask(ended(toolUseId));
    await asking.ask(ended(toolUseId, { session_id: "s-2" }));
    await other.ask(ended(toolUseId), "", { "x-agent-id": asking.agentId });
    await asking.ask(ended(`${toolUseId}2`));
    await asking.ask(ended(await called(asking)));
    expect((await settledOutcome(service, asking.agentId))?.status).to.equal("succeeded");
    expect((await decisionsOf(service, asking.agentId))[0]?.outcome?.status).to.equal("pending");
  });

  it("report every decision on one call, where two hooks are installed.", async () => {
    const asking = await open();
    const toolUseId = await called(asking);
    await called(asking, { tool_use_id: toolUseId });
    await asking.ask(ended(toolUseId));
    await until(async () =>
      (await decisionsOf(service, asking.agentId)).every((each) => each.outcome?.status !== "pending"),
    );
    const outcomes = (await decisionsOf(service, asking.agentId)).map(({ outcome }) => outcome?.status);
    expect(outcomes).to.deep.equal(["succeeded", "succeeded"]);
  });

  it("answer an event after a tool with an error status, which denies nothing, if it cannot be reported.", async () => {
    const { ask } = await open();
    for (const wrong of [{ tool_use_id: undefined }, { tool_use_id: "x".repeat(2_000) }, { session_id: 7 }]) {
      const response = await ask(ended("toolu_1", wrong), "", { "x-hook-nonce": NONCE });
      expect(response.status).to.equal(400);
      expect(await response.text())
        .to.contain("tool_use_id")
        .and.not.to.contain("permissionDecision");
    }
    const signed = await ask(ended("toolu_1"), "", { "x-hook-nonce": NONCE });
    const body = await signed.text();
    expect(JSON.parse(body)).to.deep.equal({ output: {} });
    expect(signed.headers.get("x-hook-signature")).to.equal(signatureOf(service.adminKey, NONCE, body));
  });

  const ODD: readonly [string, object | string, string, Record<string, string>, string][] = [
    ["a wrong key", event("Read"), "", { "x-api-key": "acp_wrong" }, "the key is unknown"],
    ["an unknown agent", event("Read"), "", { "x-agent-id": "agt_unknown" }, "agt_unknown"],
    ["no JSON", "{", "", {}, "body"],
    ["a list", "[]", "", {}, "object"],
    ["another event", event("Read", {}, { hook_event_name: "PostToolBatch" }), "", {}, "`hook_event_name`"],
    ["no tool", { hook_event_name: "PreToolUse" }, "", {}, "`tool_name`"],
    ["a text as input", event("Read", "x" as unknown as object), "", {}, "`tool_input`"],
    ["an invisible character in the tool's name", event("Re\u200bad"), "", {}, "U+200B"],
    ["a space before the tool's name", event(" Read"), "", {}, "`tool_name`"],
    ["a space before the name of a server's tool", event("mcp__bank__ pay"), "", {}, "`tool_name`"],
    ["half a surrogate pair", event("Read", { text: "\ud800" }), "", {}, "`tool_input.text` must not hold half"],
    [
      "U+0000",
      event("Read", { texts: ["a", "b\u0000"] }),
      "",
      {},
      "`tool_input.texts[1]` must not hold the character U+0000",
    ],
    ["U+0000 in a name", event("Read", { "a\u0000": 1 }), "", {}, "U+0000"],
    ["more values than a request may hold", event("Read", { list: Array(25_000).fill(0) }), "", {}, "25,000 values"],
    ["a hold without end", event("Read"), "?hold_seconds=9999", {}, "`hold_seconds`"],
    ["an outcome that is none", event("Read"), "?outcome=succeeded", {}, "`outcome`"],
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
