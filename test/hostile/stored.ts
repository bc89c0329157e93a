/* Schemas, mandates and patterns that an operator stores: refused, or without effect on what is decided elsewhere. */

import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { ListValueSchema, NullValue, type Struct, StructSchema, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ruleFrom } from "../policy/harness.ts";
import { disguised, disguisedSame, ODD_MEMBERS, withMembers } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { type Lab, shown } from "./lab.ts";

/** Tools whose schemas the cases replace. */
const ODD_TOOLS = 8;
const PATTERNS = [
  ...[
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
  ],
  ...["(a|a)*b", ".{1,100000}", "[[:alpha:]]", "\\Z", "(?i)x", "x{2,1}", "\ud800", "", "(".repeat(500)],
];

/** A word with a value, as a keyword of a schema. */
function keyword(draw: Draw): readonly [string, unknown] {
  return draw.pick<() => readonly [string, unknown]>([
    () => ["$async", draw.pick<unknown>([true, true, true, false, "true"])],
    () => ["$async", true],
    () => ["$async", true],
    () => ["$data", "1/amount"],
    () => ["maximum", { $data: "1/other" }],
    () => ["enum", { $data: "/x" }],
    () => [
      "$ref",
      draw.pick(["#", "#/properties/amount", "#/nowhere", "https://example.com/x.json", "#/$defs/a", "#%", "x"]),
    ],
    () => ["$dynamicRef", "#meta"],
    () => [
      "$id",
      draw.pick(["https://example.com/s", "#a", "", "pay6", "urn:x:y", "http://json-schema.org/draft-07/schema"]),
    ],
    () => ["id", draw.pick<unknown>(["x", 5, "#"])],
    () => [
      "$schema",
      draw.pick<unknown>(["http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#", 5, ""]),
    ],
    () => ["$anchor", draw.pick(["a", "", "a b"])],
    () => [
      "enum",
      Array.from({ length: draw.pick([0, 1, 5_000]) }, (_, each) =>
        draw.pick<unknown>([each, `${each}`, null, [each]]),
      ),
    ],
    () => ["pattern", draw.pick(PATTERNS)],
    () => ["patternProperties", { [draw.pick(PATTERNS)]: { type: "string" } }],
    () => ["nullable", draw.pick<unknown>([true, "yes"])],
    () => ["discriminator", draw.pick<unknown>([{ propertyName: "kind" }, true, 5])],
    () => ["type", draw.pick<unknown>(["number", ["number", "null"], "file", [], 5, "Number", ["object", "object"]])],
    () => ["format", draw.pick<unknown>(["email", "regex", "no-such", 5, "__proto__"])],
    () => ["minimum", draw.pick<unknown>([1e308, -0, "5", null, Number.NaN, 2 ** 53 + 2])],
    () => ["multipleOf", draw.pick<unknown>([0, -1, 1e-300, 0.1])],
    () => ["required", draw.pick<unknown>([["amount"], ["__proto__"], "amount", [5], ["a", "a"]])],
    () => ["minLength", draw.pick<unknown>([-1, 1.5, 1e300])],
    () => ["uniqueItems", true],
    () => ["not", draw.pick<unknown>([{}, true, false, 5])],
    () => ["if", { properties: { amount: { const: 1 } } }],
    () => [
      "allOf",
      draw.pick<unknown>([[], [{}], [{ $ref: "#" }], [{ $async: true }], Array(300).fill({ type: "object" })]),
    ],
    () => ["dependencies", draw.pick<unknown>([{ a: ["b"] }, { a: { $async: true } }, 5])],
    () => ["unevaluatedProperties", false],
    () => ["propertyNames", { pattern: draw.pick(PATTERNS) }],
    () => ["default", nestedSchema(draw.pick([5, 60, 200]))],
    () => [
      "$defs",
      draw.pick<unknown>([{ a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, { a: { $ref: "#/$defs/a" } }, []]),
    ],
    () => ["$comment", "x".repeat(draw.pick([10, 300_000]))],
    () => [draw.pick(ODD_MEMBERS), draw.pick<unknown>([{}, true, null, "x"])],
  ])();
}

function nestedSchema(depth: number): object {
  let schema: object = { type: "string" };
  for (let level = 0; level < depth; level++) schema = { type: "object", properties: { v: schema } };
  return schema;
}

function hostileSchema(draw: Draw): JsonObject {
  // Alone, so that nothing else refuses the schema.
  if (draw.once(4)) return withMembers({ type: "object", required: ["amount", "more"] }, [keyword(draw)]) as JsonObject;
  const keywords = (count: number) => Array.from({ length: count }, () => keyword(draw));
  const amount = withMembers({ type: "number" }, keywords(draw.below(3)));
  const names = draw.once(3) ? [[draw.pick(ODD_MEMBERS), withMembers({}, keywords(1))] as const] : [];
  const schema = { type: "object", properties: withMembers({ amount }, names) };
  const odd = draw.once(12) ? nestedSchema(draw.pick([30, 70, 300])) : schema;
  return withMembers(odd, keywords(draw.below(3))) as JsonObject;
}

const hostileArguments = (draw: Draw): unknown =>
  draw.pick<unknown>([
    { amount: 5 },
    { amount: "5" },
    {},
    withMembers({}, [[draw.pick(ODD_MEMBERS), { amount: 1 }]]),
    { amount: "a".repeat(5_000) },
    { amount: [[]], v: { v: { v: 1 } } },
    '{"amount":null}',
  ]);

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
  const registration = draw.once(4)
    ? () => tools.pasteTool({ definition: valueFrom({ name: tool, inputSchema }) })
    : () => tools.registerTool({ name: draw.pick([tool, tool.toUpperCase()]), inputSchema });
  await lab.refusable<unknown>({ tool, inputSchema }, registration);
  const metadata = { arguments: hostileArguments(draw) } as JsonObject;
  await lab.attempt(Decision.BLOCK, {
    agentId: lab.agentId,
    actionType: `${tool}.call`,
    actionContent: shown(inputSchema),
    tool,
    metadata,
  });
}

/** A pattern for a plain name, in a disguise: it is refused, or covers the plain name. */
async function storedPattern(lab: Lab, draw: Draw): Promise<void> {
  const word = draw.word();
  const pattern = draw.once(2) ? disguised(draw, `shred.${word}*`) : disguisedSame(draw, `shred.${word}`);
  const call = { actionType: `shred.${word}`, actionContent: shown({ pattern }) };
  const isInMandate = draw.once(3);
  const permissions = { deniedActionTypes: isInMandate ? [] : [pattern] };
  const registered = await lab.refusable({ permissions }, () =>
    lab.workspace.agents.registerAgent({ name: "careful", permissions }),
  );
  const agentId = registered?.agent?.agentId;
  if (agentId === undefined) return;
  if (isInMandate) {
    const rule = storableRule({ type: "action", decision: "block", conditions: { match_action_types: [pattern] } });
    const mandate = await storeFor(lab, agentId, [rule]);
    if (mandate !== undefined) await lab.attempt(Decision.BLOCK, { agentId, ...call });
    return archive(lab, mandate);
  }
  await lab.attempt(Decision.BLOCK, { agentId, ...call });
}

const storeFor = (lab: Lab, agentId: string, rules: readonly object[]): Promise<string | undefined> =>
  lab.refusable({ rules }, () => lab.workspace.mandate(rules, { scope: Scope.AGENT, agentId }));

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
function hostileCondition(draw: Draw, fields: readonly string[]): JsonObject {
  const [field, operator, value] = draw.pick<readonly [string, string, unknown]>([
    ["amount", "<=", draw.pick<unknown>([1e308, 1e9, "1000", -0])],
    ["kind", "in", draw.pick<unknown>([["offshore"], [" Offshore "], ["\u1d4f\u1d62nd"]])],
    ["party.name", "matches", draw.pick(PATTERNS)],
    ["amount", draw.pick(["exists", "not_exists"]), null],
    [draw.pick(fields), draw.pick(OPERATORS), draw.pick(ODD_VALUES)],
    [draw.pick(fields), draw.pick(OPERATORS), draw.pick([...PATTERNS, ...ODD_VALUES])],
  ]);
  return {
    ...{ field, operator },
    ...(value !== null && { value: value as JsonValue }),
    ...(draw.once(4) && { on_missing: draw.pick(["ignore", "violate"]) }),
    ...(draw.once(8) && { currency: draw.pick(["USD", "usd ", "", "€"]) }),
  };
}

/** A rule that allows, by odd conditions. */
function hostileRule(draw: Draw): JsonObject {
  const fields = [...ODD_MEMBERS, "amount", "party.name", "party[].x", "risk"];
  const rules = Array.from({ length: 1 + draw.below(2) }, () => hostileCondition(draw, fields));
  const operator = draw.pick(["AND", "OR", "AND", "OR", "XOR"]);
  const types = () => [draw.pick(["*", "t6pay.*", "T6PAY.vendor", "**", "a*b", disguised(draw, "t6pay.*")])];
  const body = draw.pick<() => JsonObject>([
    () => ({
      type: "argument",
      tool: draw.pick(["pay6", " PAY6", disguised(draw, "pay6")]),
      conditions: { operator, rules },
    }),
    () => ({ type: "metadata", conditions: { operator, rules } }),
    () => ({ type: "action", conditions: { match_action_types: types() } }),
    () => ({ type: "content", conditions: { patterns: [draw.pick(PATTERNS)] } }),
    () => ({ type: "trust", conditions: { below: draw.pick([0, 50, 100, 101, -1]) } }),
    () => ({ type: "schema", tool: draw.pick(["pay6", "form6", "nothing"]) }),
    () => ({ type: "semantic", conditions: { prompt: draw.pick(["may it?", " ", "\u202e"]) } }),
    () => ({
      type: "sequence",
      conditions: {
        ...{ mode: "velocity", match_action_types: types(), scope: "agent" },
        ...{ max_count: draw.pick([0, 1, -1]), window_seconds: draw.pick([60, 0, 1e9]) },
      },
    }),
    () => ({
      type: "schedule",
      conditions: { from: draw.pick(["09:00", "25:00", "x"]), to: "17:00", time_zone: draw.pick(["UTC", "Mars/Base"]) },
    }),
  ])();
  return { ...body, decision: "allow" };
}

/** Stores a mandate that allows by odd rules, for an agent whose plain requests are blocked; then asks for these. */
async function storedMandate(lab: Lab, draw: Draw): Promise<void> {
  const rules = Array.from({ length: draw.once(4) ? 2 : 1 }, () => storableRule(hostileRule(draw)));
  const compiled = await lab.refusable({ rules }, () => lab.workspace.mandates.compileMandate({ rules }));
  if (compiled === undefined) return;
  const agentId = await lab.workspace.agent("ruled");
  const mandate = await storeFor(lab, agentId, rules);
  const { request, verdict } = draw.pick(lab.plains.filter((plain) => plain.request.agentId === lab.agentId));
  await lab.attempt(verdict, {
    ...request,
    agentId,
    actionContent: draw.pick(["", "a".repeat(30_000), "\u0000", "x"]),
  });
  await archive(lab, mandate);
}

/** Cases of what is stored, by what is hostile about it. */
export const STORED_CASES = {
  "stored schemas": storedSchema,
  "stored patterns": storedPattern,
  "stored mandates": storedMandate,
};
