import { readFileSync } from "node:fs";
import { fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { type Rule, RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { ApproverGroupLookup } from "../../src/policy/approvers.ts";
import { Checks } from "../../src/policy/checks.ts";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { compileRules } from "../../src/policy/compile/rules.ts";
import { type ListKind, readListValue } from "../../src/policy/lists/kinds.ts";
import { type ListLookup, NamedList } from "../../src/policy/lists/named-list.ts";
import { LongChecker } from "../../src/policy/long/checker.ts";
import { argumentsFrom } from "../../src/policy/names.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import { flattenSchema } from "../../src/policy/schema/flatten.ts";
import { createToolSchema } from "../../src/policy/schema/validate.ts";
import type {
  CompiledMandate,
  CompileResult,
  EvaluationContext,
  FiredMandate,
  MandateSource,
  PolicyResult,
  ToolLookup,
  ToolSchema,
} from "../../src/policy/types.ts";

/** A rule as the REST interface writes it: lower-case words. */
export type RuleJson = JsonObject;

/** Reads a case file of `test/testdata/policy`. */
export function testdata<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../testdata/policy/${name}.json`, import.meta.url), "utf8")) as T;
}

/** A registered tool with a schema that MUST flatten. */
export function toolFrom(schema: JsonObject, name = "pay", version = 1): ToolSchema {
  const flattened = flattenSchema(schema);
  if (flattened.kind === "invalid") throw new Error(JSON.stringify(flattened.violations));
  const digest = `${name}-${version}`;
  return createToolSchema({ name, version, digest, arguments: flattened.arguments, inputSchema: schema });
}

/** Builds a list of values. */
export function listFrom(name: string, kind: ListKind, given: readonly string[]): NamedList {
  const forms = given.map((text) => {
    const read = readListValue(kind, text);
    if (read.kind === "fault") throw new Error(`${text} ${read.fault}`);
    return read.form;
  });
  const values = [...new Set(forms)].sort();
  return new NamedList({ name, kind, values, digest: `${name} ${values.join()}`, bytes: 0 });
}

/** Builds the lookup over some lists. */
export function listsOf(...lists: readonly NamedList[]): ListLookup {
  const byName = new Map(lists.map((list) => [list.name, list]));
  return { get: (name) => byName.get(name), names: () => byName.keys() };
}

/** A list of each kind. */
export const NAMED_LISTS = listsOf(
  listFrom("names", "text", ["Usd", "ａ", "ab", "5", "ß"]),
  listFrom("hosts", "host", ["example.com", "*.müller.de", "10.0.0.1", "a"]),
  listFrom("domains", "email_domain", ["example.com", "*.corp.example"]),
  listFrom("none", "text", []),
);

/** Builds the lookup over a list of tools, with the lists. */
/** One group, of one person. */
const APPROVER_GROUPS: ApproverGroupLookup = {
  sizeOf: (name) => (name === "finance" ? { members: new Set(["ann"]), hasOidcGroups: false } : undefined),
  names: () => ["finance"],
};

export function lookup(...tools: readonly ToolSchema[]): ToolLookup {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return Object.assign((name: string) => byName.get(name), {
    names: [...byName.keys()],
    lists: NAMED_LISTS,
    approverGroups: APPROVER_GROUPS,
  });
}

const PREFIX: Readonly<Record<string, string>> = {
  type: "RULE_TYPE_",
  decision: "DECISION_",
  mode: "SEQUENCE_MODE_",
  scope: "SCOPE_",
  on_missing: "ON_MISSING_",
  on_unavailable: "DECISION_",
  other_currency: "OTHER_CURRENCY_",
  release: "BUDGET_RELEASE_",
  days: "WEEKDAY_",
  count_outcomes: "OUTCOME_STATUS_",
  kind: "VALUE_KIND_",
  fires: "PROVENANCE_FIRES_",
};

/** Fields that hold lists of enum words, with the field whose prefix they take. */
const LISTS: Readonly<Record<string, string>> = {
  count_decisions: "decision",
  count_outcomes: "count_outcomes",
  days: "days",
};

/** A rule message from its lower-case JSON. */
export function ruleFrom(json: RuleJson): Rule {
  return fromJson(RuleSchema, withEnums(json));
}

function withEnums(value: JsonValue, key = ""): JsonValue {
  if (key === "value" || key === "trusted") return value;
  if (Array.isArray(value)) return value.map((item) => withEnums(item, LISTS[key] ?? ""));
  if (typeof value === "string" && key in PREFIX) return `${PREFIX[key]}${value.toUpperCase()}`;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withEnums(item, name)]));
}

/** The rules compiled without a pause. */
export function rulesCompiled(rules: readonly Rule[], tools: ToolLookup): CompileResult {
  const work = compileRules(rules, tools);
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

/** A mandate source; rules as JSON. */
export function mandateSource(rules: readonly RuleJson[], over: Partial<MandateSource> = {}): MandateSource {
  return {
    id: "mnd_a",
    version: 1,
    digest: "d",
    name: "Mandate",
    scope: "workspace",
    priority: 0,
    mode: "enforce",
    rules: rules.map(ruleFrom),
    ...over,
  };
}

/** A compiled mandate that MUST have no violations. */
export function mandateFrom(
  rules: readonly RuleJson[],
  over: Partial<MandateSource> = {},
  tools: ToolLookup = lookup(),
): CompiledMandate {
  const mandate = compileMandate(mandateSource(rules, over), tools);
  if (mandate.violations.length > 0) throw new Error(JSON.stringify(mandate.violations));
  return mandate;
}

/** Builds the context of an action by a trusted agent in no department. */
export function contextFrom(over: Partial<EvaluationContext> = {}): EvaluationContext {
  const metadata = over.metadata;
  return {
    agentId: "agt_1",
    departmentIds: [],
    actionType: "payment.send",
    actionContent: "",
    arguments: argumentsFrom(metadata),
    metadata,
    trustTenths: 500,
    nowMs: 1_750_000_000_000,
    checks: new Checks(undefined, NAMED_LISTS),
    counterValue: () => ({ group: "agt_1", members: 1, count: 1, source: "decision_log" }),
    potValue: () => ({ group: "agt_1", members: 1, reserved: 0n, captured: 0n }),
    sequenceStartedAtMs: () => undefined,
    ...over,
  };
}

/** Evaluates one rule on one call of a tool. */
export function evaluateRule(rule: RuleJson, tool: ToolSchema, args: JsonObject | undefined): PolicyResult {
  const set = createPolicySet([mandateFrom([rule], {}, lookup(tool))]);
  return set.evaluate(contextFrom({ tool, arguments: args, metadata: args }));
}

/**
 * Evaluates one rule on one call of a tool, with the checks made before that take too long at the action's turn. They get
 * `checkMs`, which is ample by default.
 */
export async function evaluateWithLongChecks(
  rule: RuleJson,
  tool: ToolSchema,
  args: JsonObject,
  checkMs = 30_000,
): Promise<PolicyResult> {
  const set = createPolicySet([mandateFrom([rule], {}, lookup(tool))]);
  const call = { tool, arguments: args, metadata: args };
  const { missingChecks } = set.evaluate(contextFrom(call));
  const checker = new LongChecker({ checkMs, prepareMs: 30_000 });
  const answers = await checker.run({ workspaceId: "w" }, missingChecks, new AbortController().signal);
  await checker.close();
  return set.evaluate(contextFrom({ ...call, checks: new Checks(answers, NAMED_LISTS) }));
}

/** A rule on action types. */
export function action(decision: string, ...types: string[]): RuleJson {
  return { type: "action", decision, conditions: { match_action_types: types } };
}

/** A velocity rule on payments within a minute. */
export function velocity(limit: number, over: RuleJson = {}): RuleJson {
  const conditions = {
    mode: "velocity",
    match_action_types: ["payment.*"],
    max_count: `${limit}`,
    window_seconds: "60",
  };
  return { type: "sequence", decision: "escalate", conditions: { ...conditions, ...over } };
}

/** The parts of a result that are independent of any order. */
export function essence(result: PolicyResult) {
  return {
    decision: result.decision,
    winner: result.winner?.mandate.id,
    reasons: result.reasons.map((reason) => `${reason.mandateId} ${reason.rule} ${reason.code}`),
    fired: result.fired.map(firedText),
    observed: result.observed.map(({ reasons, ...fired }) => {
      const texts = reasons.map(({ rule, code }) => `${rule} ${code}`);
      return `${firedText(fired)} ${texts.join(", ")}`;
    }),
    limits: result.collectiveLimits.map((limit) => `${limit.mandateId} ${limit.rule}`),
  };
}

const firedText = ({ mandate, decision }: FiredMandate): string => `${mandate.id} ${decision}`;
