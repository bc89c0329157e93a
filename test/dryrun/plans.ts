import type { JsonObject } from "@bufbuild/protobuf";
import { fromJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
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
  for (const { rules, priority } of randomMandates(below)) await workspace.mandate(rules, { priority });
}

/** Registers the tool of the plans. */
export async function registerTool(workspace: TestWorkspace): Promise<void> {
  await workspace.tools.registerTool({ name: "pay_invoice", inputSchema: TOOL });
}

type Rules = Parameters<TestWorkspace["mandate"]>[0];

/** Draws mandates of every type that needs no model. */
export function randomMandates(
  below: (bound: number) => number,
): { readonly rules: Rules; readonly priority: number }[] {
  const number = (value: number) => fromJson(ValueSchema, value);
  const decision = () => drawFrom(below, DECISIONS);
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
  ];
  return Array.from({ length: 2 + below(4) }, () => ({ rules: [drawFrom(below, rules)()], priority: below(3) }));
}

/** Draws a plan of some steps. */
export function randomPlan(below: (bound: number) => number, length: number): PlanStep[] {
  return Array.from({ length }, () => {
    const actionContent = drawFrom(below, ["", "a line", "the secret"]);
    if (below(3) > 0) return { actionType: drawFrom(below, TYPES), actionContent };
    const amount = drawFrom(below, [0, 100, 400, 401, 900, -5, "400"]);
    const metadata = below(5) === 0 ? {} : { arguments: { amount } };
    return { actionType: drawFrom(below, TYPES), actionContent, tool: "pay_invoice", metadata };
  });
}
