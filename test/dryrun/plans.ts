import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { MandateMode, RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionRule, type TestWorkspace, velocityRule } from "../support/harness.ts";

/** One step of a plan: the fields of an intercept without the agent. */
export interface PlanStep {
  readonly actionType: string;
  readonly actionContent: string;
  readonly tool?: string;
  readonly metadata?: JsonObject;
}

const TYPES = ["pay", "pay.out", "file.read", "http.post", "mail.send"];
const PURPOSES = ["rent", "gift"];
const MINUTE_MS = 60_000;
const DECISIONS = [Decision.BLOCK, Decision.ESCALATE, Decision.ALLOW];
const SCOPES = [Scope.AGENT, Scope.DEPARTMENT, Scope.WORKSPACE];
const TOOL = {
  type: "object",
  properties: { amount: { type: "number", minimum: 0, maximum: 100_000 }, currency: { type: "string" } },
  required: ["amount"],
};

/** Draws one of some values. */
export const drawFrom = <T>(below: (bound: number) => number, values: readonly T[]): T =>
  values[below(values.length)] as T;

/** Registers the tool `pay_invoice` and publishes random mandates of every type that needs no model. */
export async function publishRandomly(workspace: TestWorkspace, below: (bound: number) => number): Promise<void> {
  await registerTool(workspace);
  for (const { rules, ...more } of randomMandates(below, workspace.clock.now())) await workspace.mandate(rules, more);
}

/** Registers the tool of the plans. */
export async function registerTool(workspace: TestWorkspace): Promise<void> {
  await workspace.tools.registerTool({ name: "pay_invoice", inputSchema: TOOL });
}

type Rules = Parameters<TestWorkspace["mandate"]>[0];

/** A mandate of a test. */
export interface RandomMandate {
  readonly rules: Rules;
  readonly priority: number;
  readonly mode: MandateMode;
}

/** Draws mandates of every type that needs no model. Schedules begin or end within an hour of a time, but not within ten minutes. */
export function randomMandates(below: (bound: number) => number, nowMs: number): RandomMandate[] {
  const number = (value: number) => fromJson(ValueSchema, value);
  const decision = () => drawFrom(below, DECISIONS);
  const timeOfDay = (ms: number) => new Date(ms).toISOString().slice(11, 16);
  const rules = [
    () => velocityRule(1 + below(4), { scope: drawFrom(below, SCOPES) }, decision()),
    () => velocityRule(1 + below(3), { matchActionTypes: ["*"], countDecisions: [Decision.ALLOW] }, decision()),
    () => ({
      type: RuleType.ARGUMENT,
      tool: "pay_invoice",
      decision: decision(),
      conditions: {
        rules: [{ field: "amount", operator: drawFrom(below, [">", "<", "=="]), value: number(below(9) * 100) }],
      },
    }),
    () => ({
      type: RuleType.SEQUENCE,
      decision: decision(),
      conditions: {
        mode: SequenceMode.ORDERED,
        steps: ["file.*", "http.*"],
        windowSeconds: 600n,
        scope: drawFrom(below, SCOPES),
      },
    }),
    () => ({ type: RuleType.TRUST, decision: decision(), conditions: { below: 40 + below(15) } }),
    () => ({ type: RuleType.CONTENT, decision: decision(), conditions: { patterns: ["secret|token"] } }),
    () => ({ type: RuleType.SCHEMA, tool: "pay_invoice", decision: Decision.BLOCK, conditions: {} }),
    () => actionRule(decision(), drawFrom(below, TYPES)),
    () => ({
      type: RuleType.METADATA,
      decision: decision(),
      conditions: {
        operator: drawFrom(below, ["AND", "OR"]),
        rules: [
          { field: "amount", operator: drawFrom(below, [">", "!=", "exists"]), value: number(below(9) * 100) },
          { field: "purpose", operator: "==", value: fromJson(ValueSchema, drawFrom(below, PURPOSES)) },
        ].map(({ value, ...rule }) => (rule.operator === "exists" ? rule : { ...rule, value })),
      },
    }),
    () => ({
      type: RuleType.SCHEDULE,
      decision: decision(),
      conditions: {
        timeZone: "UTC",
        from: timeOfDay(nowMs - (10 + below(50)) * MINUTE_MS),
        to: timeOfDay(nowMs + (10 + below(50)) * MINUTE_MS),
        outside: below(2) === 0,
      },
    }),
    () => ({ type: RuleType.ACTION, decision: decision(), when: randomWhen(below, nowMs) }),
    () => ({ ...actionRule(decision(), drawFrom(below, TYPES)), when: randomWhen(below, nowMs) }),
    () => ({ ...velocityRule(1 + below(3), {}, decision()), when: randomWhen(below, nowMs) }),
  ];
  return Array.from({ length: 2 + below(4) }, () => ({
    rules: Array.from({ length: 1 + below(2) }, () => drawFrom(below, rules)()),
    priority: below(3),
    mode: below(6) === 0 ? MandateMode.OBSERVE : MandateMode.ENFORCE,
  }));
}

/** Draws an expression over everything that the steps of a plan have, and over the time, as schedules do. */
function randomWhen(below: (bound: number) => number, nowMs: number): string {
  const time = new Date(nowMs + (below(2) === 0 ? -1 : 1) * (10 + below(50)) * MINUTE_MS).toISOString();
  return drawFrom(below, [
    `args.amount > ${below(9) * 100}`,
    `has(args.amount) && args.amount != ${below(9) * 100}`,
    'metadata.purpose == "rent"',
    'has(metadata.purpose) && fold(metadata.purpose) in ["gift"]',
    `agent.trust < ${45 + below(10)}`,
    "size(agent.departments) > 0",
    `now > timestamp("${time}")`,
    'action.content.contains("secret") || action.type.startsWith("mail")',
    "tool.registered && args.amount < 500",
  ]);
}

/** Draws a plan of some steps. */
export function randomPlan(below: (bound: number) => number, length: number): PlanStep[] {
  return Array.from({ length }, () => {
    const actionContent = drawFrom(below, ["", "a line", "the secret"]);
    if (below(3) > 0) return { actionType: drawFrom(below, TYPES), actionContent };
    const amount = drawFrom(below, [0, 100, 400, 401, 900, -5, "400"]);
    const purpose = drawFrom(below, PURPOSES);
    const metadata = below(5) === 0 ? { purpose } : { arguments: { amount }, purpose };
    return { actionType: drawFrom(below, TYPES), actionContent, tool: "pay_invoice", metadata };
  });
}
