/* Schemas, mandates and patterns that an operator stores: refused, or without effect on what is decided elsewhere. */

import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { ListValueSchema, NullValue, type Struct, StructSchema, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ruleFrom } from "../policy/harness.ts";
import { disguised, disguisedSame, ODD_MEMBERS, withMembers } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { HostileFinding, type Lab, shown } from "./lab.ts";
import { type Right, refused, SAME, sameOrRefused } from "./rights.ts";

type RuleInit = ReturnType<typeof ruleFrom>;
/** Tools whose schemas the cases replace. */
const ODD_TOOLS = 8;
const PATTERNS = [
  "(?=x)y",
  "(?<!a)b",
  "(a+)+$",
  "(",
  "[",
  "\\",
  "\\1",
  "(?<n>a)\\k<n>",
  "\\p{L}",
  "\\u{110000}",
  "a{1000000}",
  "^*",
  "(a|a)*b",
  ".{1,100000}",
  "[[:alpha:]]",
  "\\Z",
  "(?i)x",
  "x{2,1}",
  "\ud800",
  "",
  "(".repeat(500),
];

/** Right for a schema that is no schema. */
const NO_SCHEMA: readonly Right[] = ["SCHEMA_INVALID input_schema", "SCHEMA_INVALID definition"];
const ODD_SCHEMA: readonly Right[] = [...SAME, ...NO_SCHEMA];
/** Right for a schema with text that cannot be stored. */
const UNSTORABLE: readonly Right[] = [...ODD_SCHEMA, ...refused("input_schema", "definition")];
const TOO_DEEP: readonly Right[] = [...SAME, "BODY_TOO_DEEP -"];

/** Right for a rule that is no rule. */
const NO_RULE: readonly Right[] = ["INVALID_FIELD rules", "MANDATE_INVALID rules"];
const ODD_RULE: readonly Right[] = [...SAME, ...NO_RULE];

/** A word with a value, as a keyword of a schema. */
function keyword(draw: Draw): readonly [string, unknown] {
  type Keyword = readonly [string, readonly Right[], () => readonly [string, unknown]];
  const keywords: readonly Keyword[] = [
    ["$async", NO_SCHEMA, () => ["$async", true]],
    ["$async that is no boolean", NO_SCHEMA, () => ["$async", draw.pick<unknown>(["true", 1, {}])]],
    ["$async inside", NO_SCHEMA, () => ["allOf", [{ $async: true }]]],
    ["$async in a dependency", NO_SCHEMA, () => ["dependencies", { a: { $async: true } }]],
    ["$async: false", NO_SCHEMA, () => ["$async", false]],
    ["$data", NO_SCHEMA, () => ["$data", "1/amount"]],
    ["a maximum in $data", NO_SCHEMA, () => ["maximum", { $data: "1/other" }]],
    ["an enum in $data", NO_SCHEMA, () => ["enum", { $data: "/x" }]],
    ["$ref within", ODD_SCHEMA, () => ["$ref", draw.pick(["#", "#/properties/amount"])]],
    ["$ref to nothing", NO_SCHEMA, () => ["$ref", draw.pick(["#/nowhere", "#/$defs/a", "#%", "x"])]],
    ["$ref elsewhere", NO_SCHEMA, () => ["$ref", "https://example.com/x.json"]],
    ["$dynamicRef", NO_SCHEMA, () => ["$dynamicRef", "#meta"]],
    ["$id", ODD_SCHEMA, () => ["$id", draw.pick(["https://example.com/s", "#a", "", "pay6", "urn:x:y"])]],
    ["$id of a draft", ODD_SCHEMA, () => ["$id", "http://json-schema.org/draft-07/schema"]],
    ["id", ODD_SCHEMA, () => ["id", draw.pick<unknown>(["x", 5, "#"])]],
    ["$schema", ODD_SCHEMA, () => ["$schema", "http://json-schema.org/draft-07/schema#"]],
    [
      "$schema of no draft that is known",
      ODD_SCHEMA,
      () => ["$schema", draw.pick<unknown>(["http://json-schema.org/draft-04/schema#", 5])],
    ],
    ["$anchor", ODD_SCHEMA, () => ["$anchor", draw.pick(["a", "", "a b"])]],
    [
      "enum",
      ODD_SCHEMA,
      () => [
        "enum",
        Array.from({ length: draw.pick([0, 1, 5_000]) }, (_, each) =>
          draw.pick<unknown>([each, `${each}`, null, [each]]),
        ),
      ],
    ],
    ["pattern", UNSTORABLE, () => ["pattern", draw.pick(PATTERNS)]],
    ["patternProperties", UNSTORABLE, () => ["patternProperties", { [draw.pick(PATTERNS)]: { type: "string" } }]],
    ["nullable", ODD_SCHEMA, () => ["nullable", draw.pick<unknown>([true, "yes"])]],
    ["discriminator", ODD_SCHEMA, () => ["discriminator", draw.pick<unknown>([{ propertyName: "kind" }, true, 5])]],
    ["type", ODD_SCHEMA, () => ["type", draw.pick<unknown>(["number", ["number", "null"]])]],
    ["no type", NO_SCHEMA, () => ["type", draw.pick<unknown>(["file", [], 5, "Number", ["object", "object"]])]],
    ["format", ODD_SCHEMA, () => ["format", draw.pick<unknown>(["email", "regex", "no-such", "__proto__"])]],
    ["no format", NO_SCHEMA, () => ["format", 5]],
    ["minimum", ODD_SCHEMA, () => ["minimum", draw.pick<unknown>([1e308, -0, 2 ** 53 + 2])]],
    ["no minimum", NO_SCHEMA, () => ["minimum", draw.pick<unknown>(["5", null])]],
    ["no multipleOf", NO_SCHEMA, () => ["multipleOf", draw.pick<unknown>([0, -1])]],
    ["multipleOf", ODD_SCHEMA, () => ["multipleOf", draw.pick<unknown>([1e-300, 0.1])]],
    ["required", ODD_SCHEMA, () => ["required", draw.pick<unknown>([["amount"], ["__proto__"]])]],
    ["no required", NO_SCHEMA, () => ["required", draw.pick<unknown>(["amount", [5], ["a", "a"]])]],
    ["minLength", ODD_SCHEMA, () => ["minLength", 1e300]],
    ["no minLength", NO_SCHEMA, () => ["minLength", draw.pick<unknown>([-1, 1.5])]],
    ["uniqueItems", SAME, () => ["uniqueItems", true]],
    ["not", SAME, () => ["not", draw.pick<unknown>([{}, true, false])]],
    ["no not", NO_SCHEMA, () => ["not", 5]],
    ["if", SAME, () => ["if", { properties: { amount: { const: 1 } } }]],
    ["allOf", ODD_SCHEMA, () => ["allOf", draw.pick<unknown>([[{}], Array(300).fill({ type: "object" })])]],
    ["allOf itself", ODD_SCHEMA, () => ["allOf", [{ $ref: "#" }]]],
    ["no allOf", NO_SCHEMA, () => ["allOf", []]],
    ["dependencies", ODD_SCHEMA, () => ["dependencies", { a: ["b"] }]],
    ["no dependencies", NO_SCHEMA, () => ["dependencies", 5]],
    ["unevaluatedProperties", SAME, () => ["unevaluatedProperties", false]],
    ["propertyNames", UNSTORABLE, () => ["propertyNames", { pattern: draw.pick(PATTERNS) }]],
    ["default", TOO_DEEP, () => ["default", nestedSchema(draw.pick([5, 60, 200]))]],
    [
      "$defs",
      ODD_SCHEMA,
      () => [
        "$defs",
        draw.pick<unknown>([{ a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, { a: { $ref: "#/$defs/a" } }, []]),
      ],
    ],
    ["$comment", ODD_SCHEMA, () => ["$comment", "x".repeat(draw.pick([10, 300_000]))]],
    ["an odd member", UNSTORABLE, () => [draw.pick(ODD_MEMBERS), draw.pick<unknown>([{}, true, null, "x"])]],
  ];
  return draw.disguise("schema", keywords);
}

function nestedSchema(depth: number): object {
  let schema: object = { type: "string" };
  for (let level = 0; level < depth; level++) schema = { type: "object", properties: { v: schema } };
  return schema;
}

function hostileSchema(draw: Draw): JsonObject {
  const alone = { type: "object", required: ["amount", "more"] };
  const keywords = (count: number) => Array.from({ length: count }, () => keyword(draw));
  return draw.disguise("schema", [
    // Alone, so that nothing else refuses the schema.
    ["one keyword", SAME, () => withMembers(alone, [keyword(draw)])],
    [
      "two keywords",
      SAME,
      () => {
        const amount = withMembers({ type: "number" }, keywords(draw.below(2)));
        return withMembers({ type: "object", properties: { amount } }, keywords(draw.below(2)));
      },
    ],
    [
      "a property of an odd name",
      UNSTORABLE,
      () => ({ type: "object", properties: withMembers({}, [[draw.pick(ODD_MEMBERS), withMembers({}, keywords(1))]]) }),
    ],
    ["nested", TOO_DEEP, () => withMembers(nestedSchema(draw.pick([30, 70, 300])), keywords(draw.below(2)))],
  ]) as JsonObject;
}

/** Arguments of a call that is blocked whatever they are. */
function hostileArguments(draw: Draw): unknown {
  return draw.disguise<unknown>("arguments of a stored schema", [
    ["a number", SAME, () => ({ amount: 5 })],
    ["a number in quotes", SAME, () => ({ amount: "5" })],
    ["none", SAME, () => ({})],
    ["an odd member", sameOrRefused("metadata"), () => withMembers({}, [[draw.pick(ODD_MEMBERS), { amount: 1 }]])],
    ["a long text", SAME, () => ({ amount: "a".repeat(5_000) })],
    ["nested", SAME, () => ({ amount: [[]], v: { v: { v: 1 } } })],
    ["a text of them", SAME, () => '{"amount":null}'],
  ]);
}

/** A JSON value as a message, however deep it is and whatever its texts are. */
function valueFrom(json: JsonValue): Value {
  const kind = (): Value["kind"] => {
    if (typeof json === "string") return { case: "stringValue", value: json };
    if (typeof json === "number") return { case: "numberValue", value: json };
    if (typeof json === "boolean") return { case: "boolValue", value: json };
    if (json === null) return { case: "nullValue", value: NullValue.NULL_VALUE };
    if (Array.isArray(json))
      return { case: "listValue", value: create(ListValueSchema, { values: json.map(valueFrom) }) };
    const fields = Object.entries(json).map(([name, value]) => [name, valueFrom(value)] as const);
    return {
      case: "structValue",
      value: create(StructSchema, { fields: withMembers({}, fields) as Struct["fields"] }),
    };
  };
  return create(ValueSchema, { kind: kind() });
}

/** A rule of texts that a message can hold. */
const storableRule = (rule: JsonObject) =>
  ruleFrom(JSON.parse(JSON.stringify(rule), (_, value) => (typeof value === "string" ? value.toWellFormed() : value)));

/** A tool with a block on it, so that every call of it stays blocked whatever its schema is. */
async function oddTool(lab: Lab, tool: string): Promise<void> {
  await lab.workspace.tools.registerTool({ name: tool, inputSchema: { type: "object" } });
  await lab.workspace.mandate([
    ruleFrom({ type: "schema", tool, decision: "block" }),
    ruleFrom({ type: "action", decision: "block", conditions: { match_action_types: [`${tool}.*`] } }),
  ]);
}

/** Registers a schema, then calls the tool. */
async function storedSchema(lab: Lab, draw: Draw, number: number): Promise<void> {
  const tool = `odd${number % ODD_TOOLS}`;
  await lab.shared("tool", number % ODD_TOOLS, () => oddTool(lab, tool));
  const inputSchema = hostileSchema(draw);
  const { tools } = lab.workspace;
  const register = draw.disguise<() => Promise<unknown>>("schema", [
    ["registered", SAME, () => () => tools.registerTool({ name: draw.pick([tool, tool.toUpperCase()]), inputSchema })],
    ["pasted", SAME, () => () => tools.pasteTool({ definition: valueFrom({ name: tool, inputSchema }) })],
  ]);
  await lab.refusable(draw, { tool, inputSchema }, register as () => Promise<object>);
  const metadata = { arguments: hostileArguments(draw) } as JsonObject;
  await lab.attempt(draw, Decision.BLOCK, {
    agentId: lab.agentId,
    actionType: `${tool}.call`,
    actionContent: shown(inputSchema),
    tool,
    metadata,
  });
}

/** A schema that is stored admits what fits, and nothing else. */
async function schemaControl(lab: Lab, draw: Draw): Promise<void> {
  const plain = lab.plains.filter(({ rule }) => rule === "a schema" || rule === "a required number");
  await lab.assertBoth(draw.pick(plain));
}

const DENIED_TYPE = {
  kind: "pattern of a denial",
  refusals: refused("permissions.denied_action_types"),
};
const MATCHED_TYPE = {
  kind: "pattern of a mandate",
  refusals: ["MANDATE_INVALID rules[0].conditions.match_action_types", "INVALID_FIELD rules"],
} as const;

/** A pattern for a plain name, in a disguise: it is refused, or covers the plain name. */
async function storedPattern(lab: Lab, draw: Draw): Promise<void> {
  const word = draw.word();
  const isInMandate = draw.once(3);
  const kind = isInMandate ? MATCHED_TYPE : DENIED_TYPE;
  // In a mandate, what lengthens a pattern with a star makes another pattern.
  const disguise = isInMandate ? disguisedSame : disguised;
  const pattern = draw.once(2) ? disguise(draw, `shred.${word}*`, kind) : disguisedSame(draw, `shred.${word}`, kind);
  const call = { actionType: `shred.${word}`, actionContent: shown({ pattern }) };
  const permissions = { deniedActionTypes: [pattern] };
  const agentId = isInMandate
    ? await lab.workspace.agent("careful")
    : (
        await lab.refusable(draw, { permissions }, () =>
          lab.workspace.agents.registerAgent({ name: "careful", permissions }),
        )
      )?.agent?.agentId;
  if (agentId === undefined) return;
  if (!isInMandate) return void (await lab.attempt(draw, Decision.BLOCK, { agentId, ...call }));
  const rule = storableRule({ type: "action", decision: "block", conditions: { match_action_types: [pattern] } });
  const mandate = await storeFor(lab, draw, agentId, [rule]);
  if (mandate === undefined) return;
  await lab.attempt(draw, Decision.BLOCK, { agentId, ...call });
  await archive(lab, mandate);
}

/** A pattern as it is covers its names, and no other. */
async function patternControl(lab: Lab, draw: Draw): Promise<void> {
  const word = draw.word();
  const agentId = await lab.workspace.agent("careful", [], [`shred.${word}*`]);
  await lab.assertDecision("a denied type", Decision.BLOCK, { agentId, actionType: `shred.${word}` });
  await lab.assertDecision("a type that is not denied", Decision.ALLOW, { agentId, actionType: `shred_${word}` });
}

async function storeFor(
  lab: Lab,
  draw: Draw,
  agentId: string,
  rules: readonly RuleInit[],
): Promise<string | undefined> {
  const mandate = { name: `odd rules ${draw.uuid()}`, scope: Scope.AGENT, agentId, rules: [...rules] };
  const stored = await lab.refusable(draw, { rules }, () => lab.workspace.mandates.createMandate(mandate));
  return stored?.mandate?.mandateId;
}

async function archive(lab: Lab, mandateId: string | undefined): Promise<void> {
  if (mandateId !== undefined) await lab.workspace.mandates.archiveMandate({ mandateId });
}

const ODD_VALUES = [5, -1, "x", "", null, true, [], {}, "1e999", 2 ** 53 + 2, ["a", 1, null], "a".repeat(3_000)];
const OPERATORS = [
  "==",
  "!=",
  ">",
  "between",
  "in",
  "contains",
  "contains_all",
  "subset_of",
  "matches",
  "exists",
  "nope",
];

/** A condition, in half of the cases one that compiles. */
function hostileCondition(draw: Draw): JsonObject {
  const fields = [...ODD_MEMBERS, "amount", "party.name", "party[].x", "risk"];
  type Condition = readonly [string, string, unknown];
  const [field, operator, value] = draw.disguise<Condition>("condition", [
    ["a number", ODD_RULE, () => ["amount", "<=", draw.pick<unknown>([1e9, -0, 0.5])]],
    ["a number in quotes", ODD_RULE, () => ["amount", "<=", "1000"]],
    ["a word", ODD_RULE, () => ["kind", "in", draw.pick<unknown>([["offshore"], [" Offshore "], ["\u1d4f\u1d62nd"]])]],
    ["a pattern", ODD_RULE, () => ["party.name", "matches", draw.pick(["(?i)x", "\\p{L}", "^a"])]],
    ["presence", ODD_RULE, () => ["amount", draw.pick(["exists", "not_exists"]), null]],
    ["a great number", ODD_RULE, () => ["amount", "<=", draw.pick([1e308, 2 ** 53 + 2])]],
    ["an odd value", ODD_RULE, () => [draw.pick(fields), draw.pick(OPERATORS), draw.pick(ODD_VALUES)]],
    ["an odd pattern", ODD_RULE, () => [draw.pick(fields), draw.pick(OPERATORS), draw.pick(PATTERNS)]],
    ["no operator", NO_RULE, () => ["amount", draw.pick(["nope", "", "=>", "__proto__"]), 5]],
    ["no field", NO_RULE, () => ["", "==", 5]],
  ]);
  return {
    field,
    operator,
    ...(value !== null && { value: value as JsonValue }),
    ...(draw.once(4) && { on_missing: draw.pick(["ignore", "violate"]) }),
    ...(draw.once(16) && { currency: draw.pick(["USD", "usd ", "", "€"]) }),
  };
}

const PLAIN_CONDITIONS: JsonObject = { operator: "AND", rules: [{ field: "amount", operator: "<=", value: 5 }] };

/** A rule that allows, by odd conditions. */
function hostileRule(draw: Draw): JsonObject {
  const conditions = (): JsonObject => ({
    operator: draw.pick(["AND", "OR"]),
    rules: Array.from({ length: draw.once(4) ? 2 : 1 }, () => hostileCondition(draw)),
  });
  const types = (): JsonValue => [draw.pick(["*", "t6pay.*", "T6PAY.vendor"])];
  const velocity = (more: JsonObject): JsonObject => ({
    type: "sequence",
    conditions: { mode: "velocity", match_action_types: types(), scope: "agent", ...more },
  });
  const schedule = (from: string, zone: string): JsonObject => ({
    type: "schedule",
    conditions: { from, to: "17:00", time_zone: zone },
  });
  const body = draw.disguise<JsonObject>("rule that allows", [
    ["arguments", ODD_RULE, () => ({ type: "argument", tool: draw.pick(["pay6", " PAY6"]), conditions: conditions() })],
    ["arguments of no tool", NO_RULE, () => ({ type: "argument", tool: "p\u0430y6", conditions: PLAIN_CONDITIONS })],
    ["metadata", ODD_RULE, () => ({ type: "metadata", conditions: conditions() })],
    ["no logic", NO_RULE, () => ({ type: "metadata", conditions: { ...PLAIN_CONDITIONS, operator: "XOR" } })],
    ["types", SAME, () => ({ type: "action", conditions: { match_action_types: types() } })],
    [
      "types that are disguised",
      ODD_RULE,
      () => ({ type: "action", conditions: { match_action_types: [disguisedSame(draw, "t6pay.*", MATCHED_TYPE)] } }),
    ],
    [
      "five stars",
      NO_RULE,
      () => ({ type: "action", conditions: { match_action_types: [draw.pick(["*****", "a*b*c*d*e*"])] } }),
    ],
    ["content", ODD_RULE, () => ({ type: "content", conditions: { patterns: [draw.pick(PATTERNS)] } })],
    ["trust", ODD_RULE, () => ({ type: "trust", conditions: { below: draw.pick([0, 50, 100]) } })],
    ["no trust", NO_RULE, () => ({ type: "trust", conditions: { below: draw.pick([101, -1]) } })],
    ["schema", NO_RULE, () => ({ type: "schema", tool: draw.pick(["pay6", "form6", "nothing"]) })],
    ["a model", NO_RULE, () => ({ type: "semantic", conditions: { prompt: draw.pick(["may it?", " ", "\u202e"]) } })],
    ["a limit", ODD_RULE, () => velocity({ max_count: draw.pick([0, 1]), window_seconds: 60 })],
    ["no limit", NO_RULE, () => velocity({ max_count: -1, window_seconds: draw.pick([60, 0, 1e9]) })],
    ["hours", ODD_RULE, () => schedule("09:00", "UTC")],
    [
      "no hours",
      NO_RULE,
      () => draw.pick([schedule("25:00", "UTC"), schedule("x", "UTC"), schedule("09:00", "Mars/Base")]),
    ],
  ]);
  return { ...body, decision: "allow" };
}

/** Stores a mandate that allows by odd rules, for an agent whose plain requests are blocked; then asks for these. */
async function storedMandate(lab: Lab, draw: Draw): Promise<void> {
  const rules = Array.from({ length: draw.once(6) ? 2 : 1 }, () => storableRule(hostileRule(draw)));
  const isValid = await lab.workspace.mandates.compileMandate({ rules }).then(
    ({ valid }) => valid,
    () => false,
  );
  const agentId = await lab.workspace.agent("ruled");
  const mandate = await storeFor(lab, draw, agentId, rules);
  if ((mandate !== undefined) !== isValid)
    throw new HostileFinding(
      `rules that ${isValid ? "" : "do not "}compile are ${isValid ? "not " : ""}stored: ${shown(rules)}`,
    );
  if (mandate === undefined) return;
  const { request, verdict } = draw.pick(lab.plains.filter((plain) => plain.request.agentId === lab.agentId));
  const actionContent = draw.disguise("content under odd rules", [
    ["none", SAME, () => ""],
    ["long", SAME, () => "a".repeat(30_000)],
    ["short", SAME, () => "x"],
    ["a control character", SAME, () => "\u0001"],
    ["U+0000", refused("action_content"), () => "\u0000"],
  ]);
  await lab.attempt(draw, verdict, { ...request, agentId, actionContent });
  await archive(lab, mandate);
}

/** A mandate that allows something else leaves what is blocked blocked, and what is allowed allowed. */
async function mandateControl(lab: Lab, draw: Draw): Promise<void> {
  const agentId = await lab.workspace.agent("ruled");
  const rule = { type: "action", decision: "allow", conditions: { match_action_types: ["*"] } };
  const mandateId = await lab.workspace.mandate([ruleFrom(rule)], { scope: Scope.AGENT, agentId });
  const {
    rule: name,
    request,
    verdict,
    allowed,
  } = draw.pick(lab.plains.filter((each) => each.request.agentId === lab.agentId));
  await lab.assertDecision(`${name} beside a rule that allows`, verdict, { ...request, agentId });
  await lab.assertDecision(`what is harmless beside ${name}`, Decision.ALLOW, { ...allowed.request, agentId });
  await archive(lab, mandateId);
}

/** Families of cases of what is stored, by what is hostile about it. */
export const STORED_CASES = {
  "stored schemas": { run: storedSchema, control: schemaControl },
  "stored patterns": { run: storedPattern, control: patternControl },
  "stored mandates": { run: storedMandate, control: mandateControl },
};
