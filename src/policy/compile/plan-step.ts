import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { ConditionsSchema, RuleSchema, RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../../gen/agentcontrol/v1/resources_pb.js";
import { toolKey, toolNameFault } from "../names.ts";
import type { EvaluationContext, ToolLookup } from "../types.ts";
import { CompileBudget, type RuleViolation } from "../violations.ts";
import { compileRule } from "./rules.ts";

/** Step of a plan as it is written. */
export interface PlanStepSource {
  readonly tool: string;
  /** Conditions of an `argument` rule in proto JSON. Default: any arguments. */
  readonly conditions?: JsonObject | undefined;
}

/** Step of a plan ready to be checked. */
export interface CompiledPlanStep {
  /** The tool, as `toolKey` writes it. */
  readonly tool: string;
  /** Tests whether the arguments of a call of the tool fulfil the conditions. A value that cannot be compared does not. */
  readonly admits: (context: EvaluationContext) => boolean;
}

/** Result of compiling one step of a plan. */
export type PlanStepResult =
  | { readonly kind: "compiled"; readonly step: CompiledPlanStep }
  | { readonly kind: "invalid"; readonly violations: readonly RuleViolation[] };

const ADMITS_ALL = (): boolean => true;

/**
 * Compiles a step of a plan: its conditions are those of an `argument` rule that allows. `index`: place in the plan, for violations;
 * `budget`: of the whole plan.
 */
export function compilePlanStep(
  { tool, conditions }: PlanStepSource,
  index: number,
  tools: ToolLookup,
  budget: CompileBudget = new CompileBudget(),
): PlanStepResult {
  const path = `steps[${index}]`;
  if (conditions === undefined) {
    const fault = toolNameFault(tool);
    if (fault === undefined) return { kind: "compiled", step: { tool: toolKey(tool), admits: ADMITS_ALL } };
    const message = `a tool's name ${fault}`;
    return { kind: "invalid", violations: [{ path: `${path}.tool`, reason: "TOOL_NAME_INVALID", message }] };
  }
  const rule = create(RuleSchema, {
    type: RuleType.ARGUMENT,
    tool,
    decision: Decision.ALLOW,
    conditions: fromJson(ConditionsSchema, conditions),
  });
  const result = compileRule(rule, index, tools, budget, path);
  if (result.kind === "invalid") return result;
  const { check } = result.rule;
  return { kind: "compiled", step: { tool: toolKey(tool), admits: (context) => check(context) !== undefined } };
}
