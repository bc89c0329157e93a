import type { Conditions, Rule, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { CompiledRule, CompiledVelocity, Decision, OrderedSpec, SemanticSpec, ToolSchema } from "./types.ts";
import type { Violations } from "./violations.ts";

/** A rule while it is compiled, with what is settled about it already. */
export interface RuleDraft {
  readonly rule: Rule;
  readonly type: RuleType;
  /** `rules[0]`. */
  readonly path: string;
  readonly decision: Decision;
  /** The registered tool that the rule names. */
  readonly tool: ToolSchema | undefined;
  readonly conditions: Conditions;
  readonly violations: Violations;
}

/** What the compiler of a rule type gives: the check, and what the rule has to be given for it. */
export interface RuleBody {
  readonly check: CompiledRule["check"];
  readonly velocity?: CompiledVelocity;
  readonly ordered?: OrderedSpec;
  readonly semantic?: SemanticSpec;
  /** The action types that the rule covers, normalised; default: its `match_action_types`. */
  readonly actionTypes?: readonly string[];
}

/** Compiles the part of a rule that is particular to its type; notes violations and gives undefined when it cannot. */
export type RuleBodyCompiler = (draft: RuleDraft) => RuleBody | undefined;
