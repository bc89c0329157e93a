import { type Conditions, type Rule, RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision as DecisionEnum, Scope } from "../../../gen/agentcontrol/v1/resources_pb.js";
import type { CompiledBudget } from "../budget.ts";
import type { ListLookup } from "../lists/named-list.ts";
import { toolKey } from "../names.ts";
import type { ProvenanceSpec } from "../provenance/check.ts";
import type { FindingCode } from "../reason-codes.ts";
import type {
  CompiledRule,
  CompiledVelocity,
  Decision,
  Finding,
  OrderedSpec,
  ScopeWord,
  SemanticSpec,
  ToolLookup,
  ToolSchema,
} from "../types.ts";
import type { Violations } from "../violations.ts";

/** A rule while it is compiled, with everything settled about it so far. */
export interface RuleDraft {
  readonly rule: Rule;
  readonly type: RuleType;
  /** `rules[0]`. */
  readonly path: string;
  readonly decision: Decision;
  /** The registered tool that the rule names. */
  readonly tool: ToolSchema | undefined;
  /** The registered tools. */
  readonly tools: ToolLookup;
  readonly conditions: Conditions;
  readonly violations: Violations;
  /** The named lists that conditions may compare with. */
  readonly lists: ListLookup;
}

/** Result of compiling a rule's type-specific part: the check, and the inputs that the check needs. */
export interface RuleBody {
  readonly check: CompiledRule["check"];
  /** Default: the rule has no list of conditions. */
  readonly judges?: CompiledRule["judges"];
  readonly velocity?: CompiledVelocity;
  readonly budget?: CompiledBudget;
  readonly ordered?: OrderedSpec;
  readonly semantic?: SemanticSpec;
  readonly provenance?: ProvenanceSpec;
  /** Subschemas that it checks. Default 0. */
  readonly schemaSize?: number;
  /** The action types that the rule covers, normalised; default: its `match_action_types`. */
  readonly actionTypes?: readonly string[];
}

/** Compiles the type-specific part of a rule. Notes violations and returns undefined if it cannot. */
export type RuleBodyCompiler = (draft: RuleDraft) => RuleBody | undefined;

/** The rule types as they are written. */
export const RULE_TYPE_NAMES: ReadonlyMap<RuleType, string> = new Map([
  [RuleType.ARGUMENT, "argument"],
  [RuleType.METADATA, "metadata"],
  [RuleType.ACTION, "action"],
  [RuleType.CONTENT, "content"],
  [RuleType.SEQUENCE, "sequence"],
  [RuleType.TRUST, "trust"],
  [RuleType.SCHEDULE, "schedule"],
  [RuleType.SCHEMA, "schema"],
  [RuleType.SEMANTIC, "semantic"],
  [RuleType.PROVENANCE, "provenance"],
]);

const DECISIONS: ReadonlyMap<DecisionEnum, Decision> = new Map([
  [DecisionEnum.ALLOW, "allow"],
  [DecisionEnum.BLOCK, "block"],
  [DecisionEnum.ESCALATE, "escalate"],
]);

const SCOPES: ReadonlyMap<Scope, ScopeWord> = new Map([
  [Scope.AGENT, "agent"],
  [Scope.DEPARTMENT, "department"],
  [Scope.WORKSPACE, "workspace"],
]);

/** Maps a decision of the interface to its word; undefined if it is unspecified. */
export function decisionFromEnum(decision: DecisionEnum): Decision | undefined {
  return DECISIONS.get(decision);
}

/** Maps a scope of the interface to its word; undefined if it is unspecified. */
export function scopeFromEnum(scope: Scope): ScopeWord | undefined {
  return SCOPES.get(scope);
}

/** Returns the tool that a rule names; undefined if the name is missing or blank. */
export function toolNameOf(rule: Rule): string | undefined {
  const name = rule.tool?.trim();
  return name === "" ? undefined : name;
}

/** Returns the key of the tool that a rule names, under which its calls are found; undefined for a rule without a tool. */
export function toolKeyOf(rule: Rule): string | undefined {
  const name = toolNameOf(rule);
  return name === undefined ? undefined : toolKey(name);
}

/** Returns the keys of the tools whose calls alone a rule covers; empty for a rule that covers every action. */
export function coveredTools(rule: Rule): readonly string[] {
  const own = toolKeyOf(rule);
  return own === undefined ? summedTools(rule) : [own];
}

/** Returns the keys of the tools that a rule names, as its own or in a budget. */
export function namedTools(rule: Rule): readonly string[] {
  const own = toolKeyOf(rule);
  return own === undefined ? summedTools(rule) : [own, ...summedTools(rule)];
}

function summedTools({ conditions }: Rule): readonly string[] {
  const names = (conditions?.sums ?? []).map(({ tool }) => tool.trim()).filter((name) => name !== "");
  return [...new Set(names.map(toolKey))];
}

/** Prefixes a sentence about a rule with the rule's own description, if it has one. */
export function describe({ description }: Rule, text: string): string {
  return description === undefined || description.trim() === "" ? text : `${description.trim()}: ${text}`;
}

/** Builds the finding of a rule that fired as a whole, not because of one condition. */
export function ruleFinding(
  { rule, path }: Pick<RuleDraft, "rule" | "path">,
  code: FindingCode,
  text: string,
): Finding {
  return { code, message: describe(rule, text), rule: path };
}
