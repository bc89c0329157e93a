/*
 * Writes `mandate.schema.json`, the JSON Schema (2020-12) of files of mandates for editors, into `gen` or the folder that is given.
 * Members, words and bounds come from the protos; fields by rule type, operators and names of expressions from the compiler.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DescField } from "@bufbuild/protobuf";
import {
  ConditionSchema,
  ConditionsSchema,
  MandateDefinitionSchema,
  RuleSchema,
  RuleType,
} from "../gen/agentcontrol/v1/mandate_service_pb.js";
import {
  signatureOf,
  WHEN_CALLS,
  WHEN_MACROS,
  WHEN_VARIABLES,
  type WhenCall,
  type WhenVariable,
} from "../src/notation/when-names.ts";
import { JOINTS } from "../src/policy/compile/conditions.ts";
import { RULE_TYPE_NAMES } from "../src/policy/compile/rule-draft.ts";
import { CONDITION_FIELDS, NEVER_ALLOW } from "../src/policy/compile/rule-fields.ts";
import { NEEDS_TOOL } from "../src/policy/compile/rules.ts";
import { TIME } from "../src/policy/compile/schedule.ts";
import { MAX_STEPS, MIN_STEPS } from "../src/policy/compile/sequence.ts";
import { MAX_WINDOW_SECONDS } from "../src/policy/compile/sequence-fields.ts";
import { MAX_TIMEOUT_MS } from "../src/policy/compile/simple-rules.ts";
import { OPERATORS } from "../src/policy/operators/index.ts";
import type { LiteralShape } from "../src/policy/operators/operator.ts";
import { SOURCE_NAMES } from "../src/policy/provenance/trust.ts";
import { VALUE_KINDS } from "../src/provenance/sources.ts";
import { type JsonSchema, SchemaCollector, schemaName } from "../src/server/rest/openapi-schema.ts";

/** Name of the file. */
export const MANDATE_SCHEMA_FILE = "mandate.schema.json";

/** Member in which a file names its schema for editors. */
const SCHEMA_MEMBER = { $schema: { type: "string", description: "The schema of this file, for editors." } };
const NOT_BLANK = { pattern: "\\S" };
const SCALAR = { type: ["string", "number", "boolean"] };
const ORDERED = { type: ["string", "number"] };

/** The value of a condition, by the shape that its operator needs. */
const VALUES: Readonly<Record<LiteralShape, JsonSchema>> = {
  scalar: SCALAR,
  number: ORDERED,
  range: {
    type: "array",
    minItems: 2,
    maxItems: 2,
    anyOf: [{ items: { type: "number" } }, { items: { type: "string" } }],
  },
  scalars: { type: "array", items: SCALAR, minItems: 1 },
  text: { type: "string", ...NOT_BLANK },
  expression: { type: "string", ...NOT_BLANK },
  count: { type: "integer", minimum: 0 },
  list: { type: "string", description: "Name of a list of the workspace." },
  none: { type: "null" },
};

const TRUST: JsonSchema = { minimum: 0, maximum: 100 };
const TIME_OF_DAY: JsonSchema = { pattern: spaced(TIME.source) };

/** Tests for members of an object; a list must have an item. */
function given(...names: readonly string[]): JsonSchema {
  const lists = names.filter((name) => fieldOf(name)?.fieldKind === "list");
  const properties = Object.fromEntries(lists.map((name) => [name, { minItems: 1 }]));
  return { required: names, ...(lists.length > 0 && { properties }) };
}

const fieldOf = (name: string): DescField | undefined => ConditionsSchema.fields.find((field) => field.name === name);

/** Refuses a field of the conditions, unless it has the value of an absent one. */
function absent(name: string): JsonSchema | false {
  const field = fieldOf(name);
  if (field?.fieldKind === "list") return { maxItems: 0 };
  if (name === "outside") return { const: false };
  return name === "operator" ? { const: "" } : false;
}

function when(condition: JsonSchema, then: JsonSchema, otherwise?: JsonSchema): JsonSchema {
  return { if: condition, then, ...(otherwise !== undefined && { else: otherwise }) };
}
const isWord = (name: string, ...words: readonly string[]): JsonSchema => ({
  required: [name],
  properties: { [name]: { enum: words } },
});

const eachCondition = (rules: JsonSchema): JsonSchema => ({ properties: { rules: { items: rules } } });
const operatorsOf = (...shapes: readonly LiteralShape[]): readonly string[] =>
  [...OPERATORS.values()].filter(({ shape }) => shapes.includes(shape)).map(({ name }) => name);

/** Requires numbers where texts have an order without a schema alone. */
const NUMBERS_OF_ARGUMENTS: JsonSchema = {
  allOf: [
    when(isWord("operator", ...operatorsOf("number")), { properties: { value: { type: "number" } } }),
    when(isWord("operator", ...operatorsOf("range")), { properties: { value: { items: { type: "number" } } } }),
  ],
};

/** Statuses of outcomes, each once, with the one decision that has outcomes. */
const COUNTS_ALLOWED: JsonSchema = when(
  { required: ["count_outcomes"], properties: { count_outcomes: { minItems: 1 } } },
  { required: ["count_decisions"], properties: { count_decisions: { minItems: 1, items: { enum: ["allow"] } } } },
);

/** Fields of a budget, in another mode. */
const NO_BUDGET: Readonly<Record<string, JsonSchema | false>> = {
  sums: absent("sums"),
  currency: absent("currency"),
  max_total: absent("max_total"),
  other_currency: absent("other_currency"),
  release: absent("release"),
};

/** A source that a provenance rule trusts. */
const TRUSTED_SOURCE: JsonSchema = {
  anyOf: [
    { enum: SOURCE_NAMES },
    { type: "string", pattern: "^list:" },
    {
      type: "object",
      required: ["list"],
      properties: {
        list: { type: "string" },
        kinds: { type: "array", items: { enum: VALUE_KINDS }, minItems: 1 },
      },
      additionalProperties: false,
    },
  ],
};

/** Conditions of each rule type, beside the fields that it takes. */
const CONDITIONS: ReadonlyMap<RuleType, JsonSchema> = new Map<RuleType, JsonSchema>([
  [RuleType.ARGUMENT, { ...given("rules"), allOf: [eachCondition(NUMBERS_OF_ARGUMENTS)] }],
  // Only a schema tells the currency of an amount.
  [RuleType.METADATA, { ...given("rules"), allOf: [eachCondition({ properties: { currency: false } })] }],
  [RuleType.CONTENT, given("patterns")],
  [
    RuleType.SEQUENCE,
    {
      required: ["mode", "window_seconds"],
      properties: {
        window_seconds: { minimum: 1, maximum: MAX_WINDOW_SECONDS },
        max_count: { minimum: 0 },
        department_id: NOT_BLANK,
        count_outcomes: { uniqueItems: true },
      },
      allOf: [
        when(isWord("mode", "velocity"), {
          allOf: [
            given("match_action_types", "max_count"),
            { properties: { steps: absent("steps"), ...NO_BUDGET } },
            COUNTS_ALLOWED,
          ],
        }),
        when(isWord("mode", "ordered"), {
          required: ["steps"],
          properties: {
            steps: { minItems: MIN_STEPS, maxItems: MAX_STEPS },
            max_count: absent("max_count"),
            match_action_types: absent("match_action_types"),
            count_outcomes: absent("count_outcomes"),
            ...NO_BUDGET,
          },
        }),
        when(isWord("mode", "budget"), {
          required: ["sums", "currency", "max_total"],
          properties: {
            sums: {
              minItems: 1,
              items: { required: ["tool", "field"], properties: { tool: NOT_BLANK, field: NOT_BLANK } },
            },
            currency: NOT_BLANK,
            max_total: { minimum: 0, maximum: 999_999_999 },
            max_count: absent("max_count"),
            steps: absent("steps"),
            match_action_types: absent("match_action_types"),
            exclude_action_types: absent("exclude_action_types"),
            count_decisions: { items: { enum: ["allow"] } },
          },
        }),
        when({ required: ["department_id"] }, isWord("scope", "department")),
      ],
    },
  ],
  [RuleType.TRUST, { required: ["below"], properties: { below: TRUST } }],
  [
    RuleType.SCHEDULE,
    {
      required: ["time_zone"],
      properties: {
        time_zone: NOT_BLANK,
        from: TIME_OF_DAY,
        to: { anyOf: [TIME_OF_DAY, { pattern: spaced("^24:00$") }] },
      },
      anyOf: [given("days"), given("from"), given("to")],
    },
  ],
  [
    RuleType.SEMANTIC,
    {
      required: ["prompt"],
      properties: {
        prompt: NOT_BLANK,
        min_confidence: { minimum: 0, maximum: 1 },
        timeout_ms: { minimum: 1, maximum: MAX_TIMEOUT_MS },
      },
    },
  ],
  [
    RuleType.PROVENANCE,
    {
      ...given("arguments", "trusted"),
      allOf: [
        {
          properties: { arguments: { items: { required: ["path", "kind"], properties: { path: { minLength: 1 } } } } },
        },
        { properties: { trusted: { items: TRUSTED_SOURCE } } },
        when(isWord("fires", "seen_untrusted"), {
          properties: { arguments: { items: { properties: { kind: { enum: ["text", "path"] } } } } },
        }),
      ],
    },
  ],
]);

/** Lets blanks stand around what a pattern matches. */
function spaced(pattern: string): string {
  return pattern.replace(/^\^/, "^\\s*").replace(/\$$/, "\\s*$");
}

function foreignTo(type: RuleType): JsonSchema {
  const foreign = CONDITION_FIELDS.filter(([, types]) => !types.includes(type));
  return Object.fromEntries(foreign.map(([name]) => [name, absent(name)]));
}

/** Budgets never allow. */
const BUDGETS: JsonSchema = when(
  { required: ["conditions"], properties: { conditions: isWord("mode", "budget") } },
  { properties: { decision: { enum: ["block", "escalate"] } } },
);

/** Returns what a rule of a type must have and may not. */
function ruleOf(type: RuleType): JsonSchema {
  const own = CONDITIONS.get(type);
  return {
    ...(NEEDS_TOOL.has(type) && { required: ["tool"] }),
    properties: {
      ...(NEVER_ALLOW.has(type) && { decision: { enum: ["block", "escalate"] } }),
      conditions: { properties: foreignTo(type), ...(own !== undefined && { allOf: [own] }) },
    },
    ...(own !== undefined && {
      allOf: [{ required: ["conditions"] }, ...(type === RuleType.SEQUENCE ? [BUDGETS] : [])],
    }),
    ...(type === RuleType.ACTION && {
      anyOf: [
        { required: ["when"] },
        { required: ["conditions"], properties: { conditions: given("match_action_types") } },
      ],
    }),
  };
}

function ruleRules(): JsonSchema {
  const types = [...RULE_TYPE_NAMES].map(([type, name]) => when(isWord("type", name), ruleOf(type)));
  const untyped = {
    required: ["tool", "conditions"],
    properties: { conditions: { properties: foreignTo(RuleType.METADATA), allOf: [given("rules")] } },
  };
  return {
    required: ["decision"],
    allOf: [
      ...types,
      when({ not: { required: ["type"] } }, untyped),
      when(
        { allOf: [isWord("decision", "allow", "block"), { not: isWord("type", "semantic") }] },
        { properties: { escalation_ttl_seconds: false } },
      ),
    ],
  };
}

function conditionRules(): JsonSchema {
  return {
    required: ["field", "operator"],
    properties: { field: { minLength: 1 }, operator: { enum: [...OPERATORS.keys()] } },
    allOf: (Object.keys(VALUES) as LiteralShape[]).map((shape) =>
      when(isWord("operator", ...operatorsOf(shape)), {
        ...(shape !== "none" && { required: ["value"] }),
        properties: { value: VALUES[shape] },
      }),
    ),
  };
}

function mandateRules(): JsonSchema {
  const targets = [
    ["agent", "agent_id"],
    ["department", "department_id"],
  ] as const;
  return {
    allOf: targets.map(([scope, target]) =>
      when(
        isWord("scope", scope),
        { required: [target], properties: { [target]: NOT_BLANK } },
        { properties: { [target]: false } },
      ),
    ),
  };
}

/** Tells the names of expressions, for editors that show it. */
function expressionText(): string {
  const variables = (WHEN_VARIABLES as readonly WhenVariable[]).flatMap(({ name, help, members }) =>
    (members ?? [undefined]).map((member) =>
      member === undefined ? `- \`${name}\`: ${help}` : `- \`${name}.${member.name}\`: ${member.help}`,
    ),
  );
  const calls = ([...WHEN_MACROS, ...WHEN_CALLS] as readonly WhenCall[])
    .filter(({ isIdle }) => isIdle !== true)
    .map((call) => `- \`${signatureOf(call)}\`: ${call.help}`);
  return ["Variables:", variables.join("\n"), "Macros and functions:", calls.join("\n")].join("\n\n");
}

/** Returns the schema of a file: one mandate, a list of mandates, or an object with a list `mandates`. */
export function mandateFileSchema(): JsonSchema {
  const collector = new SchemaCollector("#/$defs");
  const mandate = collector.messageSchema(MandateDefinitionSchema, "request");
  const definitions = structuredClone(collector.schemas) as Record<string, JsonSchema>;
  const change = (
    desc: typeof RuleSchema | typeof ConditionSchema | typeof MandateDefinitionSchema,
    more: JsonSchema,
  ) => {
    const name = schemaName(desc, "request");
    const { properties = {}, required = [], ...rest } = definitions[name] ?? {};
    const { properties: narrowed = {}, required: needed = [], ...others } = more;
    const members = Object.entries(properties as Record<string, JsonSchema>).map(([key, schema]) => [
      key,
      { ...schema, ...(narrowed as Record<string, JsonSchema>)[key] },
    ]);
    const all = [...(required as readonly string[]), ...(needed as readonly string[])];
    definitions[name] = {
      ...rest,
      properties: Object.fromEntries(members),
      ...(all.length > 0 && { required: [...new Set(all)] }),
      ...others,
    };
  };
  for (const desc of [MandateDefinitionSchema, RuleSchema, ConditionsSchema, ConditionSchema]) {
    const name = schemaName(desc, "request");
    // Editors name an object that they insert by its title.
    definitions[name] = { title: desc.name.replace("Definition", ""), ...definitions[name] };
  }
  change(ConditionSchema, conditionRules());
  change(RuleSchema, ruleRules());
  change(MandateDefinitionSchema, mandateRules());
  const { properties: ofRule } = definitions[schemaName(RuleSchema, "request")] as {
    properties: Record<string, JsonSchema>;
  };
  const description = String(ofRule.when?.description);
  ofRule.when = { ...ofRule.when, markdownDescription: `${description}\n\n${expressionText()}` };
  const { properties: ofConditions } = definitions[schemaName(ConditionsSchema, "request")] as {
    properties: Record<string, JsonSchema>;
  };
  ofConditions.operator = { ...ofConditions.operator, enum: [...JOINTS, ""] };
  const name = schemaName(MandateDefinitionSchema, "request");
  definitions[name] = {
    ...definitions[name],
    properties: { ...SCHEMA_MEMBER, ...(definitions[name]?.properties as object) },
  };
  const isSet = { type: "object", required: ["mandates"], not: { required: ["name"] } };
  const set = {
    properties: { ...SCHEMA_MEMBER, mandates: { type: ["array", "null"], items: mandate } },
    additionalProperties: false,
  };
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Mandates of an Agent Control Plane",
    ...when({ type: "array" }, { items: mandate }, when(isSet, set, mandate)),
    $defs: definitions,
  };
}

if (import.meta.main) {
  const folder = process.argv[2] ?? "gen";
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, MANDATE_SCHEMA_FILE), `${JSON.stringify(mandateFileSchema(), null, 2)}\n`);
}
