import { readFileSync } from "node:fs";
import type { create, JsonObject, JsonValue } from "@bufbuild/protobuf";
import { createValidator } from "@bufbuild/protovalidate";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect } from "chai";
import { parseAllDocuments } from "yaml";
import { MandateDefinitionSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { MANDATE_SCHEMA_FILE, mandateFileSchema } from "../../proto/mandate-schema.ts";
import { messageFromRest } from "../../src/dashboard/screens/mandates/rest-form.ts";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { CONDITION_FIELDS } from "../../src/policy/compile/rule-fields.ts";
import { OPERATORS } from "../../src/policy/operators/index.ts";
import type { RuleViolationReason } from "../../src/policy/violations.ts";
import { sourceFiles } from "../architecture/source-files.ts";
import { mandateSource, NAMED_LISTS, testdata, toolFrom } from "../policy/harness.ts";

const isValid = new Ajv2020({ strict: false, validateFormats: false }).compile(mandateFileSchema());
const validator = createValidator();
const { schema, cases } = testdata<{ schema: JsonObject; cases: { description: string; rule: JsonObject }[] }>(
  "violations",
);
const tool = toolFrom(schema);
/** Every name is that of a tool, so that all of a rule is compiled. */
const TOOLS = Object.assign(() => tool, { lists: NAMED_LISTS });

/** Reasons that a schema knows nothing of: they depend on tools, lists, expressions, or more than one value. */
const BEYOND: ReadonlySet<RuleViolationReason> = new Set<RuleViolationReason>([
  "APPROVER_GROUP_NOT_FOUND",
  "ARGUMENT_REPEATED",
  "CURRENCY_INVALID",
  "CURRENCY_NOT_FITTING",
  "CURRENCY_NOT_IN_SCHEMA",
  "FIELD_INVALID",
  "FIELD_NOT_IN_SCHEMA",
  "FIELD_NOT_NUMERIC",
  "HOURS_EMPTY",
  "KIND_NOT_FITTING",
  "LIST_NOT_FOUND",
  "MATCH_EXCLUDED",
  "MATCH_INVALID",
  "OPERATOR_NOT_FITTING",
  "PATTERN_INVALID",
  "RANGE_NOT_ORDERED",
  "SCHEMA_NOT_CHECKABLE",
  "SOURCE_REPEATED",
  "TIME_ZONE_UNKNOWN",
  "TOO_FEW_APPROVERS",
  "TOOL_NAME_INVALID",
  "TOOL_NOT_REGISTERED",
  "VALUE_NOT_IN_ENUM",
  "VIOLATIONS_NOT_LISTED",
  "WHEN_NOT_FITTING",
  "WHEN_SYNTAX",
  "WHEN_TOO_LARGE",
  "WHEN_UNKNOWN",
]);

/** Messages on values that depend on the type of an argument. */
const OF_ARGUMENT = / is compared with |would be found in every string/;

/** Returns why the service refuses a mandate, as far as a schema can tell; empty if it does not. */
function faultsOf(mandate: JsonObject): readonly string[] {
  let definition: ReturnType<typeof create<typeof MandateDefinitionSchema>>;
  try {
    definition = messageFromRest(MandateDefinitionSchema, mandate);
  } catch (error) {
    return [String(error)];
  }
  const checked = validator.validate(MandateDefinitionSchema, definition);
  if (checked.kind !== "valid") return [String(checked.error)];
  const { department_id: departmentId, agent_id: agentId, scope = "workspace" } = mandate as Record<string, string>;
  const source = {
    ...mandateSource([]),
    scope: scope as "workspace",
    rules: definition.rules,
    ...(departmentId !== undefined && { departmentId }),
    ...(agentId !== undefined && { agentId }),
  };
  return compileMandate(source, TOOLS)
    .violations.filter(({ reason, message }) => !BEYOND.has(reason) && !OF_ARGUMENT.test(message))
    .map(({ path, reason, message }) => `${path} ${reason} ${message}`);
}

/** Asserts that the schema refuses what the service does. */
function assertAgree(mandate: JsonObject, title = ""): void {
  const faults = faultsOf(mandate);
  const accepted = isValid(mandate);
  const shown = `${title} ${JSON.stringify(mandate)} ${JSON.stringify(isValid.errors)} ${faults.join("; ")}`;
  expect(accepted, shown).to.equal(faults.length === 0);
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Finds mandates within a value, however deep. */
function mandatesIn(value: JsonValue): readonly JsonObject[] {
  if (Array.isArray(value)) return value.flatMap(mandatesIn);
  if (!isObject(value)) return [];
  const { rules } = value;
  const isMandate =
    Array.isArray(rules) && rules.some((rule) => isObject(rule) && ("decision" in rule || "type" in rule));
  return isMandate ? [value] : Object.values(value).flatMap(mandatesIn);
}

/** Takes the members of a definition, with a name if it has none, and without null, which stands for a member that is absent. */
function definitionFrom(value: JsonObject): JsonObject {
  const known = Object.entries(value).filter(([name]) =>
    MandateDefinitionSchema.fields.some((field) => field.name === name),
  );
  return { name: "a", ...(withoutNull(Object.fromEntries(known)) as JsonObject) };
}

function withoutNull(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(withoutNull);
  if (!isObject(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([name, member]) => [name, name === "value" ? member : withoutNull(member)]));
}

const JSON_IN_SHELL = /'(\{[\s\S]*?\})'(?=\s|$)/g;
const DOCUMENT_IN_SHELL = /<<\s*'?(\w+)'?\n([\s\S]*?)\n\1\n/g;

/** Reads the mandates that a page shows, as JSON in commands and as YAML in files. */
function mandatesOf(page: string): readonly JsonObject[] {
  const text = page.replace(/'"?\$\{?\w+\}?"?'/g, "x");
  const json = [...text.matchAll(JSON_IN_SHELL)].map(([, body = ""]) => body);
  const yaml = [...page.matchAll(DOCUMENT_IN_SHELL)].map(([, , body = ""]) => body);
  const bodies = [...json, ...yaml].filter((body) => body.includes("rules"));
  return bodies.flatMap((body) => {
    const documents = parseAllDocuments(body);
    return Array.isArray(documents) ? documents.flatMap((each) => mandatesIn(each.toJS() as JsonValue)) : [];
  });
}

const condition = { field: "amount", operator: ">", value: 5 };
const conditions = { rules: [condition] };

/** A rule of each type, as small as it may be. */
const RULES: Readonly<Record<string, JsonObject>> = {
  argument: { type: "argument", tool: "pay", decision: "block", conditions },
  metadata: { type: "metadata", decision: "allow", conditions },
  "no type": { tool: "pay", decision: "escalate", conditions },
  action: { type: "action", decision: "block", conditions: { match_action_types: ["pay"] } },
  "action with when": { type: "action", decision: "block", when: "args.amount > 5" },
  content: { type: "content", decision: "block", conditions: { patterns: ["iban"] } },
  velocity: {
    type: "sequence",
    decision: "block",
    conditions: { mode: "velocity", match_action_types: ["pay"], max_count: 0, window_seconds: 60 },
  },
  "velocity of a department": {
    type: "sequence",
    decision: "block",
    conditions: {
      mode: "velocity",
      match_action_types: ["pay"],
      max_count: 0,
      window_seconds: 60,
      scope: "department",
      department_id: "d",
    },
  },
  ordered: {
    type: "sequence",
    decision: "block",
    conditions: { mode: "ordered", steps: ["read", "send"], window_seconds: 60 },
  },
  budget: {
    type: "sequence",
    decision: "block",
    conditions: {
      mode: "budget",
      sums: [{ tool: "pay", field: "amount" }],
      currency: "EUR",
      max_total: 10,
      window_seconds: 60,
    },
  },
  trust: { type: "trust", decision: "block", conditions: { below: 20 } },
  schedule: {
    type: "schedule",
    decision: "escalate",
    conditions: { time_zone: "UTC", days: ["sat"], from: "08:00", to: "24:00", outside: true },
  },
  "schedule by hour": { type: "schedule", decision: "escalate", conditions: { time_zone: "UTC", from: " 22:00 " } },
  schema: { type: "schema", tool: "pay", decision: "block" },
  semantic: { type: "semantic", decision: "block", escalation_ttl_seconds: 5, conditions: { prompt: "must not leak" } },
  provenance: {
    type: "provenance",
    tool: "pay",
    decision: "escalate",
    conditions: { arguments: [{ path: "note", kind: "text" }], trusted: ["prompt"] },
  },
};
/** A value of each field of conditions, and values that are odd. */
const FIELDS: Readonly<Record<string, readonly JsonValue[]>> = {
  operator: ["AND", "OR", "", "XOR"],
  rules: [[condition], []],
  mode: ["velocity", "ordered", "budget", "fast"],
  max_count: [5, 0, -1],
  window_seconds: [60, 0, 2_678_401],
  scope: ["agent", "workspace", "department", "all"],
  department_id: ["d"],
  count_decisions: [["block"], ["allow"], [], ["none"]],
  count_outcomes: [["pending", "failed"], [], ["pending", "pending"], ["done"]],
  exclude_action_types: [["refund"], []],
  match_action_types: [["refund"], [], [""]],
  steps: [["a", "b"], ["a"], []],
  sums: [[{ tool: "pay", field: "amount" }], []],
  currency: ["EUR", " "],
  max_total: [5, 0, -1, 1_000_000_000],
  other_currency: ["ignore", "violate", "other"],
  release: ["reported", "confirmed", "trusted"],
  patterns: [["a"], []],
  below: [0, 100, 101, -1],
  time_zone: ["UTC", " "],
  days: [["mon"], [], ["monday"]],
  from: ["08:30", "8:30", "24:00"],
  to: ["23:59", "24:00", "25:00"],
  outside: [true, false],
  prompt: ["a", " "],
  min_confidence: [0.5, 1.5],
  on_unavailable: ["allow", "ask"],
  timeout_ms: [1, 0, 60_001],
  arguments: [
    [{ path: "amount", kind: "number" }],
    [
      { path: "note", kind: "text" },
      { path: "status", kind: "path" },
    ],
    [{ path: "", kind: "text" }],
    [{ kind: "text" }],
    [{ path: "note" }],
    [{ path: "note", kind: "texts" }],
    [{ path: "note", kind: "text", more: 1 }],
    [],
  ],
  trusted: [
    ["prompt", "lookup", "session", "contract", "approved", "list:names", { list: "none", kinds: ["text", "host"] }],
    [{ list: "names" }],
    [{ list: "names", kinds: [] }],
    [{ list: "names", kinds: ["texts"] }],
    [{ list: "names", kinds: "text" }],
    [{ list: "names", kind: ["text"] }],
    [{ kinds: ["text"] }],
    ["untrusted"],
    ["lists:names"],
    [5],
    [],
  ],
  fires: ["not_trusted", "seen_untrusted", "always"],
};
const OTHERS: Readonly<Record<string, readonly JsonValue[]>> = {
  type: ["action", "trust", "other"],
  tool: ["pay"],
  decision: ["allow", "block", "escalate", "deny"],
  when: ["args.amount > 5", "x".repeat(4_097)],
  description: ["a", "x".repeat(501)],
  escalation_ttl_seconds: [1, 0, 31_536_001],
  unknown: [1],
};
/** Values of a condition: one of each shape, and none. */
const VALUES: readonly JsonValue[] = [5, "a", true, -1, 1.5, " ", "", [], [1, 2], ["a", "b"], [1, "a"], [1], "names"];

const named = (rule: JsonObject, more: JsonObject = {}): JsonObject => ({ name: "a", rules: [rule], ...more });
const without = (object: JsonObject, name: string): JsonObject => {
  const { [name]: _, ...rest } = object;
  return rest;
};

describe("the JSON schema of files of mandates", () => {
  it("is in the file that `npm run generate` writes.", () => {
    const file = new URL(`../../gen/${MANDATE_SCHEMA_FILE}`, import.meta.url);
    expect(JSON.parse(readFileSync(file, "utf8"))).to.deep.equal(JSON.parse(JSON.stringify(mandateFileSchema())));
  });

  it("accepts every mandate of the guides.", () => {
    const pages = sourceFiles(".", ".md").filter(({ path }) => !path.startsWith("node_modules"));
    const found = pages.flatMap(({ path, text }) => mandatesOf(text).map((mandate) => ({ path, mandate })));
    expect(found).to.have.length.of.at.least(25);
    for (const { path, mandate } of found) {
      expect(
        isValid(definitionFrom(mandate)),
        `${path} ${JSON.stringify(mandate)} ${JSON.stringify(isValid.errors)}`,
      ).to.equal(true);
    }
  });

  it("agrees with the service on every mandate of the test data.", () => {
    const files = sourceFiles("test/testdata", ".json");
    const found = files.flatMap(({ text }) => mandatesIn(JSON.parse(text) as JsonValue)).map(definitionFrom);
    expect(found).to.have.length.of.at.least(100);
    for (const mandate of found) assertAgree(mandate);
  });

  for (const { description, rule } of cases) {
    it(`agrees with the compiler on ${description}.`, () => {
      // Long numbers may be written as texts, whose size a schema cannot tell.
      const { conditions: { max_count: count, window_seconds: seconds, ...own } = {} } = rule as {
        conditions?: JsonObject;
      };
      const numbers = {
        ...(count !== undefined && { max_count: Number(count) }),
        ...(seconds !== undefined && { window_seconds: Number(seconds) }),
      };
      assertAgree(named(rule.conditions === undefined ? rule : { ...rule, conditions: { ...own, ...numbers } }));
    });
  }

  for (const [title, rule] of Object.entries(RULES)) {
    it(`agrees with the compiler on every member of a rule: ${title}.`, () => {
      const { conditions: own = {} } = rule as { conditions?: JsonObject };
      expect(faultsOf(named(rule))).to.deep.equal([]);
      assertAgree(named(rule));
      for (const name of Object.keys(rule)) assertAgree(named(without(rule, name)), `without ${name}`);
      for (const name of Object.keys(own)) {
        assertAgree(named({ ...rule, conditions: without(own, name) }), `without ${name}`);
      }
      for (const [name, values] of Object.entries(FIELDS)) {
        for (const value of values) assertAgree(named({ ...rule, conditions: { ...own, [name]: value } }));
      }
      for (const [name, values] of Object.entries(OTHERS)) {
        for (const value of values) assertAgree(named({ ...rule, [name]: value }));
      }
    });
  }

  it("tries every field of conditions.", () => {
    expect(Object.keys(FIELDS)).to.include.members(CONDITION_FIELDS.map(([name]) => name));
  });

  it("agrees with the compiler on the value of every operator.", () => {
    for (const operator of [...OPERATORS.keys(), "", "like"]) {
      const rule = (more: JsonObject): JsonObject => ({
        type: "metadata",
        decision: "block",
        conditions: { rules: [{ field: "a", operator, ...more }] },
      });
      assertAgree(named(rule({})));
      for (const value of VALUES) assertAgree(named(rule({ value })));
      assertAgree(named(rule({ value: 5, on_missing: "ignore" })));
      assertAgree(named(rule({ value: 5, on_missing: "skip" })));
      assertAgree(named(rule({ value: 5, field: "" })));
    }
  });

  it("agrees with the service on the members of a mandate.", () => {
    const rule = RULES.trust ?? {};
    const more: readonly JsonObject[] = [
      { scope: "agent", agent_id: "agt_a" },
      { scope: "agent" },
      { scope: "agent", agent_id: " " },
      { scope: "department", department_id: "d" },
      { scope: "department", department_id: "d", agent_id: "agt_a" },
      { department_id: "d" },
      { scope: "workspace", agent_id: "agt_a" },
      { scope: "company" },
      { mode: "observe" },
      { mode: "dry" },
      { priority: 1_000_000 },
      { priority: 1_000_001 },
      { priority: 0.5 },
      { description: "x".repeat(2_001) },
      { name: "" },
      { rules: [] },
      { rulez: [] },
    ];
    for (const members of more) assertAgree(named(rule, members));
    assertAgree({ name: "a" });
    assertAgree({ rules: [rule] });
  });

  it("takes one mandate, a list, and an object with a list.", () => {
    const mandate = named(RULES.trust ?? {}, { $schema: "./mandate.schema.json" });
    for (const shape of [
      mandate,
      [mandate],
      { mandates: [mandate] },
      { $schema: "x", mandates: [] },
      { mandates: null },
      [],
    ]) {
      expect(isValid(shape), JSON.stringify(isValid.errors)).to.equal(true);
    }
    const wrong = named({ type: "trust", decision: "block" });
    for (const shape of [wrong, [mandate, wrong], { mandates: [wrong] }, { mandates: [], more: 1 }, "text", 5]) {
      expect(isValid(shape), JSON.stringify(shape)).to.equal(false);
    }
  });

  it("tells of each member what it is for, and of an expression all its names.", () => {
    const { $defs } = mandateFileSchema() as { $defs: Record<string, { properties?: Record<string, JsonObject> }> };
    for (const [name, { properties = {} }] of Object.entries($defs)) {
      for (const [member, { description }] of Object.entries(properties)) {
        expect(description, `${name}.${member}`).to.match(/\w/);
      }
    }
    const when = $defs.RuleInput?.properties?.when;
    expect(when?.markdownDescription)
      .to.include("`agent.trust`")
      .and.include("`sum(list) → number`")
      .and.include("has");
  });
});
