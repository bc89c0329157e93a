import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { DryRunService } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { agentctl } from "../cli/harness.ts";
import { type GatewayService, startGateway } from "../gateway/harness.ts";
import { decisionIn, openRaw } from "../gateway/raw-client.ts";
import { type RecordingServer, startRecordingServer } from "../gateway/recording-server.ts";
import { serveHere } from "../support/served-here.ts";
import { openWires, type Wires } from "../support/wires.ts";

/** Names that every object inherits, so that code which looks them up carelessly finds something else or nothing. */
const NAMES = ["__proto__", "constructor", "toString"];
/** An object with one member of its own, whatever its name is. */
const named = (name: string, value: JsonValue): JsonObject =>
  JSON.parse(`{${JSON.stringify(name)}:${JSON.stringify(value)}}`);

interface Answer {
  readonly decision: string;
  readonly decision_id: string;
  readonly escalation_id: string | null;
  readonly reasons: readonly { readonly code: string; readonly argument: string | null }[];
}

describe("arguments that are called as something every object inherits", () => {
  let gateway: GatewayService;
  let upstream: RecordingServer;
  let wires: Wires;

  before(async () => {
    gateway = await startGateway({ env: { ACP_MCP_HOLD_MS: "200" } });
    wires = openWires(gateway);
    upstream = await startRecordingServer(true);
    upstream.tools = NAMES.map((name, index) => ({
      name: `pay${index}`,
      inputSchema: { type: "object", properties: named(name, { type: "number", maximum: 5000 }) },
    }));
    upstream.answer = () => ({ result: { resultType: "complete", content: [] } });
    await gateway.add("bank", { url: upstream.url });
    const bank = await openRaw(gateway, "bank", "stateless", gateway.agentId);
    expect((await bank.ask("tools/list")).text).to.contain('"pay2"');
    for (const [index, name] of NAMES.entries()) {
      const input_schema = { type: "object", properties: named(name, { type: "number", maximum: 5000 }) };
      const { tool: made } = (await gateway.rest("POST /v1/enforce/tools", {
        name: `pay${index}`,
        input_schema,
      })) as unknown as {
        tool: { arguments: { path: string; maximum: number }[]; input_schema: JsonObject };
      };
      expect(made.arguments.map(({ path, maximum }) => [path, maximum])).to.deep.equal([[name, 5000]]);
      expect(JSON.stringify(made.input_schema)).to.equal(JSON.stringify(input_schema));
      for (const called of [`pay${index}`, `bank.pay${index}`]) {
        await gateway.rest("POST /v1/enforce/mandates", {
          name: called,
          rules: [
            { type: "schema", tool: called, decision: "block" },
            condition(called, { field: name, operator: ">", value: 100 }),
          ],
        });
      }
      await gateway.rest("POST /v1/enforce/mandates", {
        name: `untyped ${index}`,
        rules: [condition("untyped", { field: name, operator: "==", value: 77 })],
      });
    }
  });
  after(async () => {
    wires?.close();
    await upstream?.close();
    await gateway?.stop();
  });

  const condition = (called: string, ...rules: readonly object[]): object => ({
    tool: called,
    decision: "escalate",
    conditions: { operator: "AND", rules },
  });
  const actionWith = (called: string, metadata: JsonObject): JsonObject => ({
    agent_id: gateway.agentId,
    action_type: "payment.send",
    tool: called,
    metadata,
  });
  const { intercept, getDecision } = EnforcementService.method;

  it("are checked by schemas and rules, over every wire and in every form.", async () => {
    for (const [index, name] of NAMES.entries()) {
      for (const [value, want, code] of [
        [99, "allow", undefined],
        [101, "escalate", "CONDITION_HELD"],
        [9000, "block", "ARGUMENTS_INVALID"],
        ["x", "block", "ARGUMENTS_INVALID"],
      ] as const) {
        const args = named(name, value);
        for (const metadata of [{ arguments: args }, { arguments: JSON.stringify(args) }, args]) {
          for (const wire of wires.all) {
            const where = `${wire.name} ${JSON.stringify(metadata)}`;
            const answer = await wire.unary(intercept, actionWith(`pay${index}`, metadata as JsonObject), {
              key: gateway.adminKey,
            });
            const { decision, decision_id, reasons } = answer.body as unknown as Answer;
            expect(decision, `${where} ${JSON.stringify(answer)}`).to.equal(want);
            if (code !== undefined)
              expect(
                reasons.map((reason) => reason.argument),
                where,
              ).to.include(name);
            const kept = await wire.unary(getDecision, { decision_id }, { key: gateway.adminKey });
            const { receipt } = kept.body as unknown as {
              receipt: { action: { arguments: JsonObject }; canonical_body: string };
            };
            expect(receipt.canonical_body, where).to.contain(`"${name}":${JSON.stringify(value)}`);
            expect(JSON.stringify(receipt.action.arguments), where).to.equal(JSON.stringify(args));
          }
        }
      }
      const untyped = await gateway.rest(
        "POST /v1/enforce/intercept",
        actionWith("untyped", { arguments: named(name, 77) }),
      );
      expect((untyped as unknown as Answer).decision).to.equal("escalate");
    }
  });

  it("are part of what a person approves.", async () => {
    for (const [index, name] of NAMES.entries()) {
      const ask = async (value: number, more: object = {}): Promise<Answer> => {
        const action = { ...actionWith(`pay${index}`, { arguments: named(name, value) }), ...more };
        return (await gateway.rest("POST /v1/enforce/intercept", action)) as unknown as Answer;
      };
      const { escalation_id } = await ask(1001);
      await gateway.resolve(String(escalation_id), "approved");
      expect((await ask(1002, { escalation_id })).decision).to.equal("escalate");
      expect((await ask(1001, { escalation_id })).decision).to.equal("allow");
      const edited = await ask(1003);
      const answer = (await gateway.rest(`POST /v1/enforce/escalations/${edited.escalation_id}/edit`, {
        arguments: named(name, 50),
      })) as unknown as { replacement: { arguments: JsonObject } | null; decision?: string };
      expect(JSON.stringify(answer)).to.contain(`"${name}":50`);
    }
  });

  it("are the same after a start, in dry runs, in generated tests and for the verifier.", async () => {
    const env = { ACP_ADMIN_KEY: gateway.adminKey, ACP_SIGNING_KEY: `${gateway.dataDir}/signing-key.pem` };
    const later = await serveHere({ databaseUrl: gateway.database.url, env });
    const wiresOfLater = openWires(later);
    try {
      for (const [index, name] of NAMES.entries()) {
        const action = actionWith(`pay${index}`, { arguments: named(name, 9000) });
        for (const wire of wiresOfLater.all) {
          const { body } = await wire.unary(intercept, action, { key: gateway.adminKey });
          expect((body as unknown as Answer).decision, wire.name).to.equal("block");
          const probe = await wire.unary(DryRunService.method.probe, action, { key: gateway.adminKey });
          const { decision, nearest_allow } = (
            probe.body as unknown as { probe: { decision: string; nearest_allow: object[] } }
          ).probe;
          expect([decision, JSON.stringify(nearest_allow)].join(), wire.name)
            .to.contain("block")
            .and.contain(`"${name}"`);
        }
      }
      const { mandates } = (await gateway.rest("GET /v1/enforce/mandates")) as unknown as {
        mandates: { mandate_id: string }[];
      };
      for (const { mandate_id } of mandates) {
        await gateway.rest(`POST /v1/enforce/mandates/${mandate_id}/tests`);
        const run = (await gateway.rest(`POST /v1/enforce/mandates/${mandate_id}/tests:run`)) as unknown as Record<
          string,
          number
        >;
        expect(run.failed, JSON.stringify(run)).to.equal(0);
        expect(run.passed).to.be.above(5);
      }
      const verified = await agentctl(["vault", "verify", "--url", later.http], { AGENTCTL_KEY: gateway.adminKey });
      expect(verified.code, verified.stdout + verified.stderr).to.equal(0);
    } finally {
      wiresOfLater.close();
      await later.stop();
    }
  });

  it("are checked by the MCP gateway and the hooks, and reach the tool as they were decided.", async () => {
    const client = await openRaw(gateway, "bank", "stateless", gateway.agentId);
    for (const [index, name] of NAMES.entries()) {
      upstream.messages.length = 0;
      const call = (value: number) => client.ask("tools/call", { name: `pay${index}`, arguments: named(name, value) });
      await call(99);
      expect(JSON.stringify(upstream.messages.at(-1)?.params)).to.contain(`"arguments":{"${name}":99}`);
      expect(decisionIn(await call(101))?.decision, name).to.equal("escalate");
      expect(decisionIn(await call(9000))?.decision, name).to.equal("block");
      expect(upstream.messages).to.have.length(1);
    }
    await gateway.rest("POST /v1/enforce/mandates", {
      name: "hooks",
      rules: NAMES.map((field) => ({
        ...condition("claude-code.Bash", { field, operator: ">", value: 100 }),
        decision: "block",
      })),
    });
    for (const name of NAMES) {
      const event = { hook_event_name: "PreToolUse", tool_name: "Bash", tool_input: named(name, 9000) };
      const answer = await fetch(`${gateway.http}/v1/hooks/claude-code`, {
        method: "POST",
        headers: { ...gateway.headers, "content-type": "application/json" },
        body: JSON.stringify(event),
      });
      expect(await answer.text(), name).to.contain('"deny"');
    }
  });
});
