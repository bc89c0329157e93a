import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Rule, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { FieldViolation } from "../errors.ts";
import type { CompiledVelocity, CounterReading, CounterSpec, LimitState } from "./counter-types.ts";
import type { GuardAnswer, GuardFinding, SemanticSpec } from "./semantic-types.ts";
import type { OrderedSpec } from "./sequence-types.ts";
import type { RuleViolationReason } from "./violation-reasons.ts";

export type {
  CompiledVelocity,
  CounterReading,
  CounterSpec,
  FieldViolation,
  GuardAnswer,
  GuardFinding,
  LimitState,
  OrderedSpec,
  SemanticSpec,
};

/** What the control plane says about an action, as a word. */
export type Decision = "allow" | "block" | "escalate";

/** Whose actions a mandate or a counter covers, as a word. */
export type ScopeWord = "agent" | "department" | "workspace";

/** A JSON Schema type. `number` admits integers too. */
export type JsonType = "array" | "boolean" | "integer" | "null" | "number" | "object" | "string";

/** One argument path of a tool, as its schema declares it. */
export interface FlattenedArgument {
  /** Dotted; `[]` reaches every element of an array (`lines[].amount`); an odd name is quoted (`["a.b"]`). */
  readonly path: string;
  /** The JSON types the value may have, sorted. All of them when the schema says nothing. */
  readonly types: readonly JsonType[];
  /** True if the argument and every parent of it must be there in a call that fits the schema. */
  readonly required: boolean;
  /** The values that are allowed; empty when any is. */
  readonly enum: readonly JsonValue[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  /** The pattern of a string as the schema writes it; never run here. */
  readonly pattern?: string;
  readonly format?: string;
  readonly description?: string;
}

/** What `flattenSchema` gives: the argument paths in code-unit order of `path`, or everything wrong with the schema. */
export type FlattenResult =
  | { readonly kind: "flattened"; readonly arguments: readonly FlattenedArgument[] }
  | { readonly kind: "invalid"; readonly violations: readonly FieldViolation[] };

/** One version of a registered tool, as rules need it. */
export interface ToolSchema {
  readonly name: string;
  readonly version: number;
  readonly digest: string;
  readonly arguments: readonly FlattenedArgument[];
  /** The schema as registered. MUST NOT change: what is compiled from it is remembered. */
  readonly inputSchema: JsonObject;
}

/** Finds the current schema of a registered tool by its exact name; undefined when there is none. */
export interface ToolLookup {
  (name: string): ToolSchema | undefined;
  /** The registered names, for suggestions. Default: no suggestions for tools. */
  readonly names?: Iterable<string>;
}

/** One thing wrong with a mandate; the fields of the message `RuleViolation`. */
export interface RuleViolation {
  /** Where: `rules[2].conditions.rules[0].operator`. */
  readonly path: string;
  readonly reason: RuleViolationReason;
  /** One sentence that names the value and what would do. */
  readonly message: string;
  /** The nearest thing that would be right. */
  readonly suggestion?: string;
}

/** What `compileRules` gives: the rules in the order given, or all violations in the order of their paths. */
export type CompileResult =
  | { readonly kind: "compiled"; readonly rules: readonly CompiledRule[] }
  | { readonly kind: "invalid"; readonly violations: readonly RuleViolation[] };

/** What a mandate's rules may look at. Everything comes in as a value; evaluation reads no clock and no store. */
export interface Facts {
  readonly agentId: string;
  /** The departments of the agent, sorted. */
  readonly departmentIds: readonly string[];
  /** As `normaliseActionType` gives it. */
  readonly actionType: string;
  readonly actionContent: string;
  /** The registered tool that the action calls. */
  readonly tool?: ToolSchema | undefined;
  /** The tool's name, registered or not; `tool.name` wins. */
  readonly toolName?: string | undefined;
  /** As `argumentsFrom` gives it. */
  readonly arguments: JsonObject | undefined;
  /** The metadata as the caller sent it. */
  readonly metadata: JsonObject | undefined;
  /** The agent's trust in tenths, 0 to 1000. */
  readonly trustTenths: number;
  /** The time of the decision in epoch milliseconds. */
  readonly nowMs: number;
  /** Reads a counter; called for each velocity rule that covers the action, with the agent in its group. */
  readonly readCounter: (spec: CounterSpec) => CounterReading;
  /**
   * When the latest run through all steps of a sequence but the last began, in epoch milliseconds; undefined when there is
   * none in its window. Called for each ordered rule whose last step the action is, with the agent in its group.
   */
  readonly readSequence: (spec: OrderedSpec) => number | undefined;
  /** What a guard answered; undefined when it was not asked. Default: it was asked nothing. */
  readonly answerTo?: ((spec: SemanticSpec) => GuardAnswer | undefined) | undefined;
  /** Mandates scoped to these agents apply too: the principal of an action on behalf of another. Default: none. */
  readonly principals?: readonly Principal[] | undefined;
}

/** An agent for whom the action is done; mandates scoped to it hold for the action as well. */
export interface Principal {
  readonly agentId: string;
  /** The departments of the principal, sorted. */
  readonly departmentIds: readonly string[];
}

/** Why a rule fired, apart from the mandate it belongs to. */
export interface Finding {
  /** A stable word of `Reason.code`. */
  readonly code: FindingCode;
  /** One plain sentence. */
  readonly message: string;
  /** Path of the rule or condition in the mandate: `rules[0].conditions.rules[1]`. */
  readonly rule: string;
  /** The argument that decided. */
  readonly argument?: string;
  /** What would have passed: `would allow at amount <= 500`. */
  readonly wouldPass?: string;
  /** What the rule decides for this reason, where that is not the rule's own decision. */
  readonly decision?: Decision;
}

/** The words a rule that fired may give as its reason. */
export type FindingCode =
  | "ACTION_MATCHED"
  | "ARGUMENTS_INVALID"
  | "ARGUMENT_MISSING"
  | "ARGUMENT_WRONG_TYPE"
  | "CONDITION_HELD"
  | "CONTENT_MATCHED"
  | "CURRENCY_DIFFERS"
  | "CURRENCY_MISSING"
  | "GUARD_UNAVAILABLE"
  | "GUARD_VIOLATION"
  | "IN_SCHEDULE"
  | "LIMIT_EXCEEDED"
  | "MANDATE_STALE"
  | "SEQUENCE_COMPLETED"
  | "TRUST_BELOW";

/** A finding with its mandate; the fields of the message `Reason`. */
export interface PolicyReason extends Omit<Finding, "decision"> {
  readonly mandateId: string;
  readonly mandateName: string;
}

/** A rule ready to be evaluated. Immutable; `check` MUST NOT throw on any facts. */
export interface CompiledRule {
  /** Place in the mandate, from 0. */
  readonly index: number;
  /** `rules[0]`. */
  readonly path: string;
  /** The type the compiler chose. */
  readonly type: RuleType;
  readonly decision: Decision;
  /** Covers only calls of this tool; undefined covers every action. */
  readonly tool: string | undefined;
  /** Covers only these action types, normalised; empty covers all. */
  readonly actionTypes: readonly string[];
  /** True for a rule that no longer compiles and escalates in its place. */
  readonly stale: boolean;
  /** The rule as written, with the type that the compiler chose. */
  readonly source: Rule;
  /** Set for a velocity rule only. */
  readonly velocity: CompiledVelocity | undefined;
  /** Set for an ordered sequence only. */
  readonly ordered: OrderedSpec | undefined;
  /** Set for a semantic rule only. */
  readonly semantic: SemanticSpec | undefined;
  /**
   * Why the rule fires on an action that it covers; undefined when it does not. A velocity rule is given its counter, a
   * semantic rule what the guard answered.
   */
  readonly check: (facts: Facts, reading?: CounterReading, answer?: GuardAnswer) => Finding | undefined;
}

/** A mandate as it is published: the definition of one version. */
export interface MandateSource {
  readonly id: string;
  readonly version: number;
  readonly digest: string;
  readonly name: string;
  readonly scope: ScopeWord;
  /** Required with scope `department`. */
  readonly departmentId?: string | undefined;
  /** Required with scope `agent`. */
  readonly agentId?: string | undefined;
  readonly priority: number;
  readonly mode: "enforce" | "observe";
  readonly rules: readonly Rule[];
}

/** A mandate ready to be put in force. Immutable. */
export interface CompiledMandate {
  readonly id: string;
  readonly version: number;
  readonly digest: string;
  readonly name: string;
  readonly scope: ScopeWord;
  readonly departmentId: string | undefined;
  readonly agentId: string | undefined;
  readonly priority: number;
  readonly mode: "enforce" | "observe";
  /** Empty when there are violations and stale rules were not asked for. */
  readonly rules: readonly CompiledRule[];
  /** Everything that does not compile, in the order of the paths; the mandate is stale or invalid unless empty. */
  readonly violations: readonly RuleViolation[];
}

/** How `compileMandate` treats rules that do not compile. */
export interface CompileMandateOptions {
  /** Makes such a rule escalate in its place, instead of leaving the mandate without rules. Default false. */
  readonly allowStale?: boolean;
}

/** A mandate whose rules were evaluated, and what they decided; no decision when none fired. */
export interface EvaluatedMandate {
  readonly mandate: CompiledMandate;
  readonly decision?: Decision;
}

/** A mandate of which at least one rule fired. */
export interface FiredMandate {
  readonly mandate: CompiledMandate;
  /** The most restrictive decision of its rules that fired. */
  readonly decision: Decision;
  /** One per rule that fired, most restrictive first. */
  readonly reasons: readonly PolicyReason[];
}

/** A mandate in mode `observe` that would have decided. */
export type ObservedMandate = FiredMandate;

/** What the mandates say about an action. Independent of the order in which mandates were published. */
export interface PolicyResult {
  /** The most restrictive decision of the enforcing mandates; undefined when nothing fired. */
  readonly decision: Decision | undefined;
  /** Whose decision it is: the highest priority among equals, then the lowest id, then the first rule. */
  readonly winner?: { readonly mandate: CompiledMandate; readonly rule: CompiledRule };
  /** Every rule of an enforcing mandate that fired, most decisive first. */
  readonly reasons: readonly PolicyReason[];
  /** Enforcing mandates of which a rule fired, by id. */
  readonly fired: readonly FiredMandate[];
  /** Every mandate of which a rule was evaluated, observing ones included, by id. */
  readonly evaluated: readonly EvaluatedMandate[];
  /** Observing mandates of which a rule fired, by id. */
  readonly observed: readonly ObservedMandate[];
  /** Every velocity rule looked at, fired or not, by mandate id and rule. */
  readonly collectiveLimits: readonly LimitState[];
  /** Every semantic rule looked at, fired or not, by mandate id and rule. */
  readonly guards: readonly GuardFinding[];
}

/** The mandates in force in a workspace, indexed. Immutable: `with` and `without` give another set. */
export interface PolicySet {
  /** How many mandates. */
  readonly size: number;
  /**
   * SHA-256, in lower-case hex, of the RFC 8785 text of `[mandate_id, version, digest]` of every mandate, sorted by id.
   * Computed once per set, when first read.
   */
  readonly digest: string;
  /** Whether any of them has a semantic rule. */
  readonly asksGuard: boolean;
  /** The mandate with this id; undefined when it is not in the set. */
  readonly get: (id: string) => CompiledMandate | undefined;
  /** Every mandate, in no particular order. */
  readonly mandates: () => Iterable<CompiledMandate>;
  /** This set with the mandate added, or put in place of the one with its id. */
  readonly with: (mandate: CompiledMandate) => PolicySet;
  /** This set without the mandate; itself when there is none. */
  readonly without: (id: string) => PolicySet;
  /** Evaluates every rule that covers the action. MUST NOT throw unless `readCounter` does. */
  readonly evaluate: (facts: Facts) => PolicyResult;
}

/** A list of action-type patterns, compiled. */
export interface CompiledPatterns {
  /** Whether one of the patterns matches an action type given as `normaliseActionType` gives it. */
  readonly matches: (normalised: string) => boolean;
}
