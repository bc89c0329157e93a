import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import fc from "fast-check";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { OPERATOR_NAMES } from "../../src/policy/operators/index.ts";
import type { CompiledMandate, MandateSource, ToolLookup, ToolSchema } from "../../src/policy/types.ts";
import { canonicalJson } from "../../src/tree/canonical.ts";
import { lookup, mandateSource, type RuleJson, toolFrom } from "../policy/harness.ts";
import { conditionFor, type Draw, draw, operandFor, schemaFrom } from "../policy/random-rules.ts";

/** A mandate that compiles, with everything that it is compiled against. */
export interface RandomMandate {
  readonly rules: readonly RuleJson[];
  readonly source: MandateSource;
  readonly compiled: CompiledMandate;
  readonly tools: ToolLookup;
}

/** Schema of the tool `send_payment`. */
const PAYMENT: JsonObject = {
  type: "object",
  properties: {
    amount: { type: "number", minimum: 0, maximum: 100_000 },
    count: { type: "integer", minimum: 1 },
    currency: { type: "string", enum: ["EUR", "USD", "CHF"] },
    to: { type: "string", minLength: 2, maxLength: 40 },
    iban: { type: "string", pattern: "^[A-Z]{2}[0-9]{2}" },
    urgent: { type: "boolean" },
    tags: { type: "array", items: { type: "string" } },
    lines: {
      type: "array",
      items: { type: "object", properties: { price: { type: "number" }, sku: { type: "string" } } },
    },
    customer: { type: "object", properties: { email: { type: "string" }, age: { type: "integer" } } },
  },
  required: ["amount", "currency"],
};
const TYPES = ["payment.send", "payment.*", "mail.send", "Secret.Read", "http.*", "db.drop", "file.read"];
const PATTERNS_OF_TYPES = [...TYPES, "*.send", "db*p", "*.*"];
const EXCLUDED = ["payment.send", "*.read", "http.post", "db.*.x"];
const PATTERNS = [
  "secret",
  "rm\\s+-rf",
  "pass(word|phrase)",
  "[0-9]{4}",
  "drop +table",
  "api[_-]key",
  "^sudo",
  "\\bkey\\b",
];
const ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"];
const WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DECISIONS = ["allow", "block", "escalate"];
const KINDS = [
  "argument",
  "argument",
  "metadata",
  "action",
  "content",
  "trust",
  "schedule",
  "velocity",
  "ordered",
  "schema",
];

/** Operators on values that a rule holds itself; lists have tests of their own. */
const OPERATORS = OPERATOR_NAMES.filter((name) => !name.endsWith("in_list"));

const some = <T>(from: Draw, values: readonly T[], most: number): T[] => [
  ...new Set(Array.from({ length: 1 + from(fc.nat, most - 1) }, () => draw(from, values))),
];
const clock = (minute: number): string =>
  `${`${Math.floor(minute / 60) % 24}`.padStart(2, "0")}:${`${minute % 60}`.padStart(2, "0")}`;

function plainCondition(from: Draw, paths: readonly string[]): JsonObject {
  const operator = draw(from, OPERATORS);
  const number = from(fc.nat, 500);
  const texts = ["EUR", "USD", "alice", "bob@example.com", "ACME"];
  const list = draw<JsonValue[]>(from, [[...some(from, texts, 3)], [number, number + 7]]);
  let value: JsonValue | undefined = draw<JsonValue>(from, [number, draw(from, texts), from(fc.nat, 1) === 0]);
  if (operator.endsWith("exists")) value = undefined;
  else if (operator.endsWith("between")) value = [number, number + 1 + from(fc.nat, 50)];
  else if (/^(in|not_in|contains_a.*|subset_of)$/.test(operator)) value = list;
  else if (operator.startsWith("length")) value = from(fc.nat, 12);
  else if (/^[<>]/.test(operator)) value = number;
  else if (operator === "matches") value = draw(from, PATTERNS);
  else if (operator.endsWith("with")) value = draw(from, texts);
  return {
    field: draw(from, paths),
    operator,
    ...(value !== undefined && { value }),
    ...(from(fc.nat, 3) === 0 && { currency: draw(from, ["EUR", "USD"]) }),
    ...(from(fc.nat, 3) === 0 && { on_missing: draw(from, ["ignore", "violate"]) }),
  };
}

function conditionalRule(from: Draw, type: string, tool: ToolSchema, tools: ToolLookup): RuleJson {
  const paths = tool.arguments.map(({ path }) => path);
  const isOdd = tool.name !== "send_payment";
  const make = (): JsonObject =>
    isOdd ? (conditionFor(from, paths, OPERATORS) as unknown as JsonObject) : plainCondition(from, paths);
  const decision = draw(from, DECISIONS);
  const rule = (rules: JsonObject[]): RuleJson => ({
    type,
    tool: tool.name,
    decision,
    conditions: { operator: draw(from, ["AND", "OR"]), rules },
  });
  const usable = (): JsonObject => {
    for (;;) {
      const condition = make();
      if (compiles([rule([condition])], tools)) return condition;
    }
  };
  return rule(Array.from({ length: 1 + from(fc.nat, 2) }, usable));
}

/** Tests whether rules compile. */
export const compiles = (rules: readonly RuleJson[], tools: ToolLookup): boolean =>
  compileMandate(mandateSource(rules), tools).violations.length === 0;

function scopeOf(from: Draw): JsonObject {
  const scope = draw(from, ["agent", "department", "workspace"]);
  const isNamed = scope === "department" && from(fc.nat, 1) === 0;
  return { scope, ...(isNamed && { department_id: draw(from, ["dep_1", "dep_2"]) }) };
}

function ruleOf(from: Draw, kind: string, tool: ToolSchema, tools: ToolLookup): RuleJson {
  const decision = draw(from, DECISIONS);
  const narrowed = from(fc.nat, 3) === 0 ? { match_action_types: some(from, TYPES, 2) } : {};
  const counted = from(fc.nat, 2) === 0 ? { count_decisions: some(from, DECISIONS, 2) } : {};
  const excluding = from(fc.nat, 2) === 0 ? { exclude_action_types: some(from, EXCLUDED, 2) } : {};
  const window = { window_seconds: `${1 + from(fc.nat, 7200)}`, ...scopeOf(from), ...counted };
  const from_ = from(fc.nat, 1439);
  switch (kind) {
    case "action":
      return {
        type: kind,
        decision,
        conditions: { match_action_types: some(from, PATTERNS_OF_TYPES, 3), ...excluding },
      };
    case "content":
      return { type: kind, decision, conditions: { ...narrowed, patterns: some(from, PATTERNS, 3) } };
    case "trust":
      return { type: kind, decision, conditions: { ...narrowed, below: from(fc.nat, 1000) / 10 } };
    case "schedule": {
      const hours = { from: clock(from_), to: clock(from_ + 1 + from(fc.nat, 1430)) };
      const days = from(fc.nat, 1) === 0 ? { days: some(from, WEEKDAYS, 5) } : {};
      return {
        type: kind,
        decision,
        conditions: { ...narrowed, time_zone: draw(from, ZONES), ...hours, ...days, outside: from(fc.nat, 1) === 0 },
      };
    }
    case "velocity": {
      const conditions = {
        mode: kind,
        match_action_types: some(from, PATTERNS_OF_TYPES, 2),
        ...excluding,
        max_count: `${from(fc.nat, 40)}`,
        ...window,
      };
      return { type: "sequence", decision, conditions };
    }
    case "ordered": {
      const steps = Array.from({ length: 2 + from(fc.nat, 2) }, () => draw(from, PATTERNS_OF_TYPES));
      return { type: "sequence", decision, conditions: { mode: kind, steps, ...excluding, ...window } };
    }
    case "schema":
      return { type: kind, tool: tool.name, decision: draw(from, ["block", "escalate"]), conditions: { ...narrowed } };
    default:
      return conditionalRule(from, kind, tool, tools);
  }
}

/** A mandate of one to four rules of any type but `semantic`, over a usual tool and one with an odd schema. */
export function randomMandate(from: Draw): RandomMandate {
  const payment = toolFrom(PAYMENT, "send_payment");
  const odd = toolFrom(schemaFrom(from) as JsonObject, "odd");
  const tools = lookup(payment, odd);
  const target = from(fc.nat, 3);
  const over: Partial<MandateSource> =
    target === 0
      ? { scope: "department", departmentId: "dep_1" }
      : target === 1
        ? { scope: "agent", agentId: "agt_9" }
        : {};
  for (;;) {
    const count = 1 + from(fc.nat, 3);
    const rules = Array.from({ length: count }, () =>
      ruleOf(from, draw(from, KINDS), from(fc.nat, 3) === 0 ? odd : payment, tools),
    );
    const source = mandateSource(rules, over);
    const compiled = compileMandate(source, tools);
    if (compiled.violations.length === 0) return { rules, source, compiled, tools };
  }
}

type Path = readonly (string | number)[];

function put(value: JsonValue | undefined, [step, ...rest]: Path, end: JsonValue | undefined): JsonValue {
  if (step === undefined) return end as JsonValue;
  if (typeof step === "number") return (value as JsonValue[]).with(step, put((value as JsonValue[])[step], rest, end));
  const { [step]: before, ...others } = (value ?? {}) as JsonObject;
  const after = put(before, rest, end);
  return after === undefined ? others : { ...(value as JsonObject), [step]: after };
}

/** A change of one value of a rule. */
interface Change {
  readonly kind: "bound" | "operator" | "field" | "decision" | "currency" | "ending" | "repeat";
  readonly path: Path;
  /** Undefined removes the value. */
  readonly value: JsonValue | undefined;
}

function boundChange(from: Draw, value: JsonValue, path: Path): Change {
  const change = (to: JsonValue): Change => ({ kind: "bound", path, value: to });
  if (typeof value === "number") return change(value + draw(from, [1, -1, 10, -10, 100]));
  if (typeof value === "boolean") return change(!value);
  if (Array.isArray(value)) {
    const at = from(fc.nat, value.length - 1);
    if (value.length > 1 && from(fc.nat, 1) === 0) return change(value.toSpliced(at, 1));
    return {
      ...boundChange(from, value[at] as JsonValue, path),
      value: value.with(at, boundChange(from, value[at] as JsonValue, []).value as JsonValue),
    };
  }
  const text = String(value);
  if (/^\d\d:\d\d$/.test(text)) {
    const [hours = 0, minutes = 0] = text.split(":").map(Number);
    return change(clock((hours * 60 + minutes + draw(from, [1, 1439, 60])) % 1440));
  }
  if (/^\d+$/.test(text) && path.at(-1) !== "value")
    return change(`${Math.max(0, Number(text) + draw(from, [1, -1, 7]))}`);
  if (WEEKDAYS.includes(text)) return change(draw(from, WEEKDAYS));
  if (DECISIONS.includes(text)) return change(draw(from, DECISIONS));
  if (ZONES.includes(text)) return change(draw(from, ZONES));
  return change(draw(from, [`${text.replace(/\*$/, "")}q`, [...text].slice(0, -1).join(""), "other.*"]));
}

const BOUNDS = [
  "max_count",
  "window_seconds",
  "below",
  "from",
  "to",
  "days",
  "patterns",
  "match_action_types",
  "steps",
  "time_zone",
];

/**
 * Changes that widen a rule or narrow it by little: a currency removed, an ending cut, a `+` that becomes `*`. Conditions on one
 * field together may leave such a change without effect, and so does presence, which a currency does not alter.
 */
function subtleChange(from: Draw, { conditions }: RuleJson): Change | undefined {
  const { rules = [], patterns = [] } = conditions as { rules?: JsonObject[]; patterns?: string[] };
  const found = rules.flatMap(({ field, currency, operator, value }, at): Change[] => {
    if (rules.filter((other) => other.field === field).length > 1 || String(operator).endsWith("exists")) return [];
    const path = ["conditions", "rules", at];
    const repeated = operator === "matches" ? String(value).replace("+", "*") : value;
    return [
      ...(currency === undefined ? [] : [{ kind: "currency", path: [...path, "currency"], value: undefined } as const]),
      ...(operator === "ends_with" && typeof value === "string" && [...value].length > 1
        ? [{ kind: "ending", path: [...path, "value"], value: [...value].slice(1).join("") } as const]
        : []),
      ...(repeated === value ? [] : [{ kind: "repeat", path: [...path, "value"], value: repeated } as const]),
    ];
  });
  const repeats = patterns.flatMap((pattern, at): Change[] => {
    const value = pattern.replace("+", "*");
    return value === pattern ? [] : [{ kind: "repeat", path: ["conditions", "patterns", at], value }];
  });
  const all = [...found, ...repeats];
  return all.length === 0 ? undefined : draw(from, all);
}

function changeOf(from: Draw, rule: RuleJson, tools: ToolLookup): Change | undefined {
  const kind = draw(from, ["bound", "bound", "operator", "field", "decision", "subtle"] as const);
  const conditions = rule.conditions as JsonObject;
  if (kind === "decision") return { kind, path: ["decision"], value: draw(from, DECISIONS) };
  if (kind === "subtle") return subtleChange(from, rule);
  const items = (conditions.rules ?? []) as JsonObject[];
  if (items.length === 0) {
    const bounds = BOUNDS.filter((name) => conditions[name] !== undefined);
    if (kind !== "bound" || bounds.length === 0) return undefined;
    const name = draw(from, bounds);
    return boundChange(from, conditions[name] as JsonValue, ["conditions", name]);
  }
  const at = from(fc.nat, items.length - 1);
  const item = items[at] as JsonObject;
  const path = ["conditions", "rules", at];
  if (kind === "operator") {
    if (items.length > 1 && from(fc.nat, 3) === 0) {
      return { kind, path: ["conditions", "operator"], value: conditions.operator === "OR" ? "AND" : "OR" };
    }
    return { kind, path: [...path, "operator"], value: draw(from, OPERATORS) };
  }
  if (kind === "field") {
    const paths = tools(String(rule.tool))?.arguments.map((each) => each.path) ?? [];
    return { kind, path: [...path, "field"], value: draw(from, paths) };
  }
  return item.value === undefined ? undefined : boundChange(from, item.value, [...path, "value"]);
}

/** A mandate in which one bound, operator, field or decision of one rule is another, and which still compiles. */
export function mutated(from: Draw, { rules, source, tools }: RandomMandate) {
  for (let attempt = 0; attempt < 200; attempt++) {
    const index = from(fc.nat, rules.length - 1);
    const rule = rules[index] as RuleJson;
    const change = changeOf(from, rule, tools);
    if (change === undefined) continue;
    let next = put(rule, change.path, change.value) as RuleJson;
    if (change.kind === "operator" && change.path.length > 2) {
      const at = change.path[2] as number;
      const operator = String(change.value);
      const { value: before, ...condition } = ((next.conditions as JsonObject).rules as JsonObject[])[at] as JsonObject;
      // The value stays if the operator takes it.
      const fresh = operandFor(from, operator);
      const options = [before, ...(fresh === undefined ? [undefined] : [fresh])];
      const fitting = options
        .map(
          (value) =>
            put(rule, ["conditions", "rules", at], { ...condition, ...(value !== undefined && { value }) }) as RuleJson,
        )
        .find((candidate) => compiles(rules.with(index, candidate), tools));
      if (fitting === undefined) continue;
      next = fitting;
    }
    const changed = rules.with(index, next);
    if (canonicalJson(changed as never) === canonicalJson(rules as never)) continue;
    const { id, version, digest, name, scope, departmentId, agentId, priority, mode } = source;
    const over = { id, version, digest, name, scope, departmentId, agentId, priority, mode };
    const compiled = compileMandate(mandateSource(changed, over), tools);
    if (compiled.violations.length === 0) return { kind: change.kind, rule: index, rules: changed, compiled };
  }
  return undefined;
}
