import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Rule, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { FieldViolation } from "../errors.ts";
import type { ToolProvenance } from "../provenance/result-values.ts";
import type { SessionKnowledge, ValueKind } from "../provenance/sources.ts";
import type { ApprovalDemand, ApproverGroupLookup } from "./approvers.ts";
import type {
  BudgetReading,
  BudgetState,
  BudgetWindow,
  CompiledBudget,
  PotReading,
  PotSpec,
  Spending,
} from "./budget.ts";
import type { Checks, LongCheck, TOO_LONG } from "./checks.ts";
import type { ListLookup } from "./lists/named-list.ts";
import type { UsedList } from "./lists/used-lists.ts";
import type { ProvenanceSpec } from "./provenance/check.ts";
import type { FindingCode } from "./reason-codes.ts";
import type { RuleViolation } from "./violations.ts";
import type { CompiledWhen } from "./when/compile-when.ts";

/** A decision about an action. */
export type Decision = "allow" | "block" | "escalate";

/** The agents that a mandate or a counter covers. */
export type ScopeWord = "agent" | "department" | "workspace";

/** A JSON Schema type. `number` admits integers too. */
export type JsonType = "array" | "boolean" | "integer" | "null" | "number" | "object" | "string";

/** One argument path of a tool, as its schema declares it. */
export interface FlattenedArgument {
  /** Dotted; `[]` reaches every element of an array (`lines[].amount`); an odd name is quoted (`["a.b"]`). */
  readonly path: string;
  /** The JSON types the value may have, sorted; all of them if the schema leaves the type open. */
  readonly types: readonly JsonType[];
  /** True if every call that fits the schema has the argument and all its parents. */
  readonly required: boolean;
  /** The values that are allowed; empty if any value is. */
  readonly enum: readonly JsonValue[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  /** The pattern of a string as the schema writes it; for display only. */
  readonly pattern?: string;
  readonly format?: string;
  readonly description?: string;
}

/** Result of `flattenSchema`: the argument paths in code-unit order of `path`, or everything wrong with the schema. */
export type FlattenResult =
  | { readonly kind: "flattened"; readonly arguments: readonly FlattenedArgument[] }
  | { readonly kind: "invalid"; readonly violations: readonly FieldViolation[] };

/** First mismatch between arguments and a schema. Holds names and the schema's own text, never a value of the arguments. */
export interface SchemaError {
  /** As a path of the flattened schema: `lines[].amount`; undefined for the arguments as a whole. */
  readonly argument: string | undefined;
  /** One sentence: `lines[2].amount` must be >= 0. */
  readonly message: string;
}

/** Result of a check against a schema. */
export interface Validation {
  readonly error: SchemaError | undefined | typeof TOO_LONG;
  /** Steps that it took. */
  readonly steps: number;
}

/** A schema compiled for checking arguments, or the reasons why it cannot be. */
export type ValidatorResult =
  | {
      readonly kind: "compiled";
      /** Finds the first mismatch, undefined if the arguments fit, in at most some steps. MUST NOT throw on any JSON. */
      readonly validate: (args: JsonObject, maxSteps: number) => Validation;
    }
  | { readonly kind: "invalid"; readonly problems: readonly string[] };

/** One version of a registered tool, as rules need it. Immutable. */
export interface ToolSchema {
  readonly name: string;
  readonly version: number;
  readonly digest: string;
  readonly arguments: readonly FlattenedArgument[];
  /** The schema as registered. */
  readonly inputSchema: JsonObject;
  /** Meaning of its results and arguments for provenance; undefined if nothing is declared. */
  readonly provenance: ToolProvenance | undefined;
  /** Number of subschemas. */
  readonly schemaSize: number;
  /** Compiles the schema for checking arguments, on the first call only. */
  readonly validator: () => ValidatorResult;
}

/** Finds the current schema of a registered tool by its name, in any case. Returns undefined for an unknown tool. */
export interface ToolLookup {
  (name: string): ToolSchema | undefined;
  /** The registered names, for suggestions. Default: no suggestions for tools. */
  readonly names?: Iterable<string>;
  /** The named lists, which conditions compare with. Default: no lists. */
  readonly lists?: ListLookup;
  /** The approver groups, which rules that escalate name. Default: no groups. */
  readonly approverGroups?: ApproverGroupLookup;
}

/** Result of `compileRules`: the rules in the order given, or all violations in the order of their paths. */
export type CompileResult =
  | { readonly kind: "compiled"; readonly rules: readonly CompiledRule[] }
  | { readonly kind: "invalid"; readonly violations: readonly RuleViolation[] };

/** Counter of a velocity rule. The object is the same for the life of the compiled rule, so it may key a `WeakMap`. */
export interface CounterSpec {
  /** Names the matcher: equal for equal `patterns`, `excluded` and `countDecisions` in any order. Leaves out scope and window. */
  readonly key: string;
  /** Normalised, sorted, without duplicates. */
  readonly patterns: readonly string[];
  /** Patterns of action types that are not counted: normalised, sorted, without duplicates. */
  readonly excluded: readonly string[];
  /** Counts only actions with one of these decisions, sorted; empty counts every attempt. */
  readonly countDecisions: readonly Decision[];
  /** Length of the sliding window in milliseconds. */
  readonly windowMs: number;
  readonly scope: ScopeWord;
  /** With scope `department`: the department to count, instead of the acting agent's. */
  readonly departmentId?: string;
  /** Set if outcomes say which allowed actions count: the pot that has them. */
  readonly pot?: PotSpec;
}

/** Value of a counter, the action at hand included. */
export interface CounterReading {
  /** Agent id, department ids joined by `+`, or workspace id. */
  readonly group: string;
  /** Number of agents in the group. */
  readonly members: number;
  /** Matching actions in the window. */
  readonly count: number;
  /** Origin of the history. */
  readonly source: "decision_log" | "mirror";
  /** The principal whose group it is. Undefined: the group of the acting agent. */
  readonly principalId?: string;
}

/** The velocity part of a compiled rule. */
export interface CompiledVelocity {
  readonly counter: CounterSpec;
  /** The rule fires if the count is above this. */
  readonly maxCount: number;
  readonly windowSeconds: number;
}

/** A counter or budget as a decision saw it; the fields of the message `CollectiveLimit`. Counts of a budget are 0. */
export interface LimitState {
  readonly scope: ScopeWord;
  readonly group: string;
  readonly members: number;
  readonly count: number;
  readonly limit: number;
  /** Seconds. */
  readonly window: number;
  /** max(0, limit - count). */
  readonly remaining: number;
  /** Set for a budget only. */
  readonly budget?: BudgetState;
  readonly source: CounterReading["source"];
  readonly mandateId: string;
  /** Path of the rule in the mandate: `rules[0]`. */
  readonly rule: string;
  /**
   * Time from which one more action, under a budget one of the same amount, fits if nothing else happens, epoch milliseconds. Undefined
   * if it fits at once, if none ever fits, and if it is not known.
   */
  readonly resetsAtMs?: number;
}

/** A counter or budget as evaluation reads it. */
export interface ReadLimit extends LimitState {
  /** Undefined for a budget. */
  readonly counter: CounterSpec | undefined;
  /** Undefined for a counter. */
  readonly spending: Spending | undefined;
  /** The agent whose group is counted: the acting agent or its principal. */
  readonly agentId: string;
}

/** Sequence of an ordered rule. The object is the same for the life of the compiled rule. */
export interface OrderedSpec {
  /** Equal for equal `steps`, `excluded`, `countDecisions` and `scope`. Leaves out department and window. */
  readonly key: string;
  /** Normalised patterns in their order, 2 to 20. The action at hand is the last of them. */
  readonly steps: readonly string[];
  /** Patterns of action types that are no step: normalised, sorted, without duplicates. */
  readonly excluded: readonly string[];
  /** Past actions count only with one of these decisions, sorted; empty counts every attempt. */
  readonly countDecisions: readonly Decision[];
  /** Length of the sliding window in milliseconds. */
  readonly windowMs: number;
  readonly scope: ScopeWord;
  /** With scope `department`: the department to count, instead of the acting agent's. */
  readonly departmentId?: string;
}

/** Question of a semantic rule. The object is the same for the life of the compiled rule. */
export interface SemanticSpec {
  /** Equal for equal questions; rules that share it share one answer. */
  readonly key: string;
  /** The behaviour that an action must not show, in its author's words. */
  readonly prompt: string;
  /** Milliseconds that the answer may take; undefined leaves it to the guard. */
  readonly timeoutMs: number | undefined;
}

/** Result of asking a guard about an action. */
export type GuardAnswer =
  | {
      readonly kind: "verdict";
      readonly violates: boolean;
      /** 0 to 1. */
      readonly confidence: number;
      /** The model's own words: untrusted text. */
      readonly reason: string;
      readonly model: string;
      readonly latencyMs: number;
    }
  | {
      readonly kind: "unavailable";
      /** A stable word. */
      readonly cause: string;
      readonly latencyMs: number;
    };

/** A semantic rule as a decision saw it; sealed with the decision. */
export interface GuardFinding {
  readonly mandateId: string;
  readonly version: number;
  /** Path of the rule in the mandate: `rules[0]`. */
  readonly rule: string;
  readonly spec: SemanticSpec;
  readonly answer: GuardAnswer;
}

/** Everything a mandate's rules may look at. All of it comes in as values: evaluation reads no clock and no store. */
export interface EvaluationContext {
  readonly agentId: string;
  /** The agent's name. Default: empty. */
  readonly agentName?: string | undefined;
  /** The framework that the agent is built with. Default: empty. */
  readonly framework?: string | undefined;
  /** The session that the action belongs to. Default: empty. */
  readonly sessionId?: string | undefined;
  /** The departments of the agent, sorted. */
  readonly departmentIds: readonly string[];
  /** As `normaliseName` gives it. */
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
  /** Budget of the rules, and results of checks made before. */
  readonly checks: Checks;
  /** Reads a counter for the group of an agent; called for each velocity rule that covers the action. */
  readonly counterValue: (spec: CounterSpec, agent: Principal) => CounterReading;
  /** Reads the past amounts of a budget for the group of an agent; called for each budget that covers the action. */
  readonly potValue: (budget: BudgetWindow, agent: Principal) => PotReading;
  /**
   * Start, in epoch milliseconds, of the latest run through all steps of a sequence but the last; undefined if there
   * is no such run in its window. Called for each ordered rule whose last step the action is, with the agent in its group.
   */
  readonly sequenceStartedAtMs: (spec: OrderedSpec) => number | undefined;
  /** Looks up the guard's answer to a question; undefined if it was not asked. Default: no question was asked. */
  readonly guardAnswerFor?: ((spec: SemanticSpec) => GuardAnswer | undefined) | undefined;
  /** Default `none`. */
  readonly planState?: PlanState;
  /** Values that the action's session observed. Default: the action has no session that observed any. */
  readonly knowledge?: SessionKnowledge | undefined;
  /**
   * Returns the findings of a provenance rule as they were recorded, in place of the session's knowledge; undefined for a rule that is
   * checked. Default: all are checked.
   */
  readonly recordedProvenance?: ((spec: ProvenanceSpec) => readonly Finding[] | undefined) | undefined;
  /** Lists the values that the intent contracts which cover the action name; called when a rule first asks. Default: none. */
  readonly contractLiterals?: (() => readonly JsonValue[]) | undefined;
  /** Lenders of the authority, the principal first. Mandates scoped to them apply too. Default: none. */
  readonly principals?: readonly Principal[] | undefined;
  /** Decision when no rule fires. Default `allow`. */
  readonly defaultDecision?: Decision;
}

/** Place of an action beside the intent contracts that cover it. */
export type PlanState = "none" | "inside" | "outside";

/** An agent on whose behalf the action is done; mandates scoped to it apply to the action as well. */
export interface Principal {
  readonly agentId: string;
  /** The departments of the principal, sorted. */
  readonly departmentIds: readonly string[];
}

/** Reason why a rule fired, without the mandate it belongs to. */
export interface Finding {
  /** A stable word of `Reason.code`. */
  readonly code: FindingCode;
  /** One plain sentence. */
  readonly message: string;
  /** Path of the rule or condition in the mandate: `rules[0].conditions.rules[1]`. */
  readonly rule: string;
  /** The argument that decided. */
  readonly argument?: string;
  /** Kind with which a provenance rule read the argument. */
  readonly valueKind?: ValueKind;
  /** A change of the argument after which this rule would not fire. */
  readonly change?: ArgumentChange;
  /** Amount that still fits, for a budget: `8.20 EUR still fit`. */
  readonly fits?: string;
  /** Overrides the rule's own decision. */
  readonly decision?: Decision;
  /** The other conditions that held, for a rule that fires only if all hold. */
  readonly others?: readonly Finding[];
}

/** A change of one argument. */
export interface ArgumentChange {
  /** Members that lead to the argument. */
  readonly path: readonly string[];
  /** The values that `text` stands for; of a range, its ends. */
  readonly values: readonly JsonValue[];
  /** `amount <= 500`. */
  readonly text: string;
}

/** A finding with its mandate; the fields of the message `Reason`. */
export interface PolicyReason extends Pick<Finding, "code" | "message" | "rule" | "argument" | "valueKind"> {
  readonly mandateId: string;
  readonly mandateName: string;
  /** A change of one argument with which the action is allowed: `would allow at amount <= 500`. Else what still fits a budget. */
  readonly wouldPass?: string;
  /** Number of further actions, or the amount, that fit the limit of the rule. Only for a reason that its limit gives. */
  readonly remaining?: number;
  /** Number of actions, or the amount, by which this action exceeds the limit of the rule. Only for a reason that its limit gives. */
  readonly over?: number;
  /**
   * Time from which the limit of the rule has room for this action once more if nothing else happens, epoch milliseconds. Undefined for
   * a rule that exceeded no limit, if no action ever fits, and if it is not known.
   */
  readonly resetsAtMs?: number;
  /** Decision of the rule, if it is weaker than that of the strictest rule that fired. */
  readonly decision?: Decision;
}

/** A fault of the arguments that keeps a condition from being compared. It fails closed. */
export type ConditionViolation = Extract<
  FindingCode,
  "ARGUMENT_MISSING" | "ARGUMENT_WRONG_TYPE" | "CURRENCY_MISSING" | "CURRENCY_DIFFERS" | typeof TOO_LONG
>;

/** Result of a condition on an action: the truth of the comparison, or the violation that prevented it. */
export type ConditionResult = boolean | ConditionViolation;

/** A rule ready to be evaluated. Immutable. */
export interface CompiledRule {
  /** Place in the mandate, from 0. */
  readonly index: number;
  /** `rules[0]`. */
  readonly path: string;
  /** The type the compiler chose. */
  readonly type: RuleType;
  readonly decision: Decision;
  /** The tool that the rule names, whose calls alone it covers; undefined for a rule that names none. */
  readonly tool: string | undefined;
  /** Covers only calls of these tools: that one, or those whose amounts a budget adds. Empty covers every action. */
  readonly tools: readonly string[];
  /** The named lists that it compares with. */
  readonly lists: readonly string[];
  /** Patterns of the action types that it covers, normalised; empty covers all. */
  readonly actionTypes: readonly string[];
  /** Patterns of action types that it leaves out, normalised. */
  readonly excludedTypes: readonly string[];
  /** The action types that it covers: `actionTypes` without `excludedTypes`. */
  readonly types: CompiledPatterns;
  /** True for the stand-in of a rule that no longer compiles. */
  readonly stale: boolean;
  /** The rule as written, with the type that the compiler chose. */
  readonly source: Rule;
  /** Set for a velocity rule only. */
  readonly velocity: CompiledVelocity | undefined;
  /** Set for a budget only. */
  readonly budget: CompiledBudget | undefined;
  /** Set for an ordered sequence only. */
  readonly ordered: OrderedSpec | undefined;
  /** Set for a semantic rule only. */
  readonly semantic: SemanticSpec | undefined;
  /** Set for a provenance rule only. */
  readonly provenance: ProvenanceSpec | undefined;
  /** Instructions of the rule's patterns. */
  readonly patternSize: number;
  /** Subschemas that a `schema` rule checks; 0 for any other. */
  readonly schemaSize: number;
  /** The expression that must be true beside the rule's own conditions. */
  readonly when: CompiledWhen | undefined;
  /** Tests whether `when` lets the rule fire; undefined for a rule without one. MUST NOT throw on any context. */
  readonly mayFire: ((context: EvaluationContext) => boolean) | undefined;
  /**
   * Returns the finding if the rule fires on an action that it covers, else undefined. A velocity rule is given its counter, a
   * semantic rule the guard's answer, a budget its pot. MUST NOT throw on any context.
   */
  readonly check: (
    context: EvaluationContext,
    reading?: CounterReading,
    answer?: GuardAnswer,
    pot?: BudgetReading,
  ) => Finding | undefined;
  /** Judges of the conditions of the rule's list, in its order; undefined for a rule without one. MUST NOT throw on any context. */
  readonly judges: readonly ((context: EvaluationContext) => ConditionResult)[] | undefined;
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
  /** The name as `comparableName` gives it, by which mandates of equal weight are ordered. */
  readonly foldedName: string;
  readonly scope: ScopeWord;
  readonly departmentId: string | undefined;
  readonly agentId: string | undefined;
  readonly priority: number;
  readonly mode: "enforce" | "observe";
  /** Empty if there are violations and `allowStale` was not set. */
  readonly rules: readonly CompiledRule[];
  /** Everything that does not compile, in the order of the paths; the mandate is stale or invalid unless empty. */
  readonly violations: readonly RuleViolation[];
}

/** Options of `compileMandate` for rules that do not compile. */
export interface CompileMandateOptions {
  /** Makes such a rule escalate in its place, instead of leaving the mandate without rules. Default false. */
  readonly allowStale?: boolean;
}

/** A mandate of which at least one rule fired. */
export interface FiredMandate {
  readonly mandate: CompiledMandate;
  /** The most restrictive decision of its rules that fired. */
  readonly decision: Decision;
}

/** A mandate in mode `observe` that would have decided. */
export interface ObservedMandate extends FiredMandate {
  /** Reasons of its rules that fired, most restrictive first, 200 at most. */
  readonly reasons: readonly PolicyReason[];
}

/** Result of evaluating the mandates on an action. Independent of the order in which mandates were published. */
export interface PolicyResult {
  /** The most restrictive decision of the enforcing mandates; undefined if no rule fired. */
  readonly decision: Decision | undefined;
  /** The rule that decided: of equal ones that of the mandate which `compareMandates` puts first, then the first rule. */
  readonly winner?: { readonly mandate: CompiledMandate; readonly rule: CompiledRule };
  /**
   * Reasons of the rules of enforcing mandates that fired, most restrictive first. After 200, those of further rules are left
   * out.
   */
  readonly reasons: readonly PolicyReason[];
  /** Enforcing mandates of which a rule fired, by id. */
  readonly fired: readonly FiredMandate[];
  /** Observing mandates of which a rule fired, by id. */
  readonly observed: readonly ObservedMandate[];
  /** Every velocity rule and budget evaluated, fired or not, by mandate id and rule. */
  readonly collectiveLimits: readonly ReadLimit[];
  /** Every semantic rule evaluated, fired or not, by mandate id and rule. */
  readonly guards: readonly GuardFinding[];
  /** Every list that an evaluated rule looked into, by name. */
  readonly lists: readonly UsedList[];
  /**
   * Approvals that the rules of enforcing mandates ask for which fired and escalate, the rule that decided first. Empty if none names
   * approvers, or if the decision is another.
   */
  readonly demands: readonly ApprovalDemand[];
  /** Checks that would have taken too long. Their rules fired, unless they allow. */
  readonly missingChecks: readonly LongCheck[];
}

/** The mandates in force in a workspace, indexed. Immutable: `with` and `without` give another set. */
export interface PolicySet {
  /**
   * SHA-256, in lower-case hex, of the RFC 8785 text of `[mandate_id, version, digest]` of every mandate, sorted by id.
   * Computed once per set, when first read.
   */
  readonly digest: string;
  /** True if any mandate has a semantic rule. */
  readonly asksGuard: boolean;
  /** Tests whether the checks of an action with `textLength` characters of text may take too long at its turn. */
  readonly mayTakeLong: (textLength: number) => boolean;
  /** Lists every mandate, in no particular order. */
  readonly mandates: () => Iterable<CompiledMandate>;
  /** Returns this set with the mandate added, or put in place of the one with its id. */
  readonly with: (mandate: CompiledMandate) => PolicySet;
  /** Returns this set without the mandate; itself if it has no such mandate. */
  readonly without: (id: string) => PolicySet;
  /** Evaluates every rule that covers the action. MUST NOT throw unless a function of the context does. */
  readonly evaluate: (context: EvaluationContext) => PolicyResult;
}

/** A list of action-type patterns, compiled. */
export interface CompiledPatterns {
  /** Tests whether one of the patterns matches an action type given as `normaliseName` gives it. */
  readonly matches: (normalised: string) => boolean;
}
