import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { isMap, isScalar, isSeq, type Node, parseDocument, stringify } from "yaml";
import { type MandateDefinition, MandateDefinitionSchema } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { indexAt, offsetInScalar, scalarAt } from "../../../notation/yaml-place.ts";
import { type Place, placeIn, placeOfNode } from "../../kit/text-place.ts";
import { messageFromRest, restFromMessage } from "./rest-form.ts";

/** A fault in the text, with its range. */
export interface TextFault extends Place {
  readonly message: string;
  readonly severity: "error" | "warning";
}

/** A place within a text, in lines and characters from 1. */
export interface Spot {
  readonly line: number;
  readonly column: number;
}

/** A parsed text. */
export interface MandateText {
  /** Undefined if the text is not a mandate. */
  readonly definition: MandateDefinition | undefined;
  readonly faults: readonly TextFault[];
  /**
   * Finds the range of a member by its path, such as `rules[0].tool`, or of its nearest ancestor in the text. `spot`: a line and a
   * column in the text of the member, from 1; the range is then the word that begins there.
   */
  placeOf(path: string, spot?: Spot): Place;
}

/** Order of members in the text. Unlisted members come last. */
const ORDER = [
  "name",
  "description",
  "mode",
  "scope",
  "department_id",
  "agent_id",
  "priority",
  "rules",
  "type",
  "tool",
  "decision",
  "escalation_ttl_seconds",
  "approvers",
  "groups",
  "at_least",
  "remind_after_seconds",
  "when",
  "conditions",
  "field",
  "operator",
  "value",
];
const DEFAULTS: Readonly<Record<string, JsonValue>> = {
  scope: "workspace",
  mode: "enforce",
  priority: 0,
  description: "",
};

function ordered(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== "object" || value === null) return value;
  const rank = (name: string): number => (ORDER.indexOf(name) < 0 ? ORDER.length : ORDER.indexOf(name));
  const members = Object.entries(value).sort(([a], [b]) => rank(a) - rank(b));
  return Object.fromEntries(members.map(([name, member]) => [name, name === "value" ? member : ordered(member)]));
}

/** The members of a mandate that its author writes. */
export type Written = Omit<MandateDefinition, "$typeName" | "$unknown">;

/** Takes from a mandate what its author wrote. */
export function definitionOf(mandate: Written): Written {
  const { name, description, scope, departmentId, agentId, priority, mode, rules } = mandate;
  return {
    name,
    description,
    scope,
    priority,
    mode,
    rules,
    ...(departmentId === undefined ? {} : { departmentId }),
    ...(agentId === undefined ? {} : { agentId }),
  };
}

/** Writes a mandate as YAML, without unset members. */
export function textFromMandate(mandate: Written): string {
  const definition = create(MandateDefinitionSchema, definitionOf(mandate));
  const json = restFromMessage(MandateDefinitionSchema, definition);
  const written = Object.entries(json).filter(([member, value]) => DEFAULTS[member] !== value);
  return stringify(ordered(Object.fromEntries(written) as JsonObject), { lineWidth: 0, aliasDuplicateObjects: false });
}

/** Parses a mandate from YAML, with every fault at its range. */
export function readMandateText(text: string): MandateText {
  const document = parseDocument(text, { prettyErrors: false });
  const root = document.contents;
  const placeOf = (path: string, spot?: Spot): Place =>
    (spot && placeOfSpot(text, root, path, spot)) ?? placeIn(root as Node | null, path, text.length);
  const faults = [...document.errors, ...document.warnings].map(
    ({ pos, message }): TextFault => ({ from: pos[0], to: Math.max(pos[1], pos[0] + 1), message, severity: "error" }),
  );
  if (faults.length > 0) return { definition: undefined, faults, placeOf };
  const whole = placeOf("");
  try {
    const value = document.toJS() as JsonValue;
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new Error("must be a mandate: `name`, and `rules` with a list");
    }
    return { definition: messageFromRest(MandateDefinitionSchema, value), faults, placeOf };
  } catch (error) {
    const message = (error as Error).message;
    const member = /key "([^"]+)"|field [\w.]*\.(\w+)|`(\w+)` must/.exec(message);
    const named = member?.[1] ?? member?.[2] ?? member?.[3];
    const place = named === undefined ? whole : (findMember(root as Node | null, named) ?? whole);
    return { definition: undefined, faults: [{ ...place, message, severity: "error" }], placeOf };
  }
}

/** A word of an expression, behind the dot before it, or an operator or any other character. */
const WORD = /^(\.?)([\p{L}\p{N}_]+|[=!<>]=|&&|\|\||[\s\S])/u;

function placeOfSpot(text: string, root: unknown, path: string, { line, column }: Spot): Place | undefined {
  const scalar = scalarAt(root, path);
  if (scalar === undefined) return undefined;
  const start = offsetInScalar(text, scalar, indexAt(String(scalar.value), line, column));
  const [, dot = "", word = " "] = WORD.exec(text.slice(start)) ?? [];
  return { from: start + dot.length, to: start + dot.length + word.length };
}

function findMember(node: unknown, name: string): Place | undefined {
  if (isMap(node)) {
    for (const { key, value } of node.items) {
      if (String(isScalar(key) ? key.value : key) === name) return placeOfNode(isScalar(value) ? value : key);
      const inner = findMember(value, name);
      if (inner !== undefined) return inner;
    }
  }
  if (isSeq(node)) {
    for (const item of node.items) {
      const inner = findMember(item, name);
      if (inner !== undefined) return inner;
    }
  }
  return undefined;
}

/** Appends a rule to the rules in the text, and leaves the rest unchanged. */
export function withRule(text: string, rule: JsonObject): string {
  const document = parseDocument(text);
  if (document.errors.length > 0) throw new Error("correct the text first: it is no YAML");
  if (!isSeq(document.get("rules"))) document.set("rules", document.createNode([]));
  document.addIn(["rules"], document.createNode(ordered(rule)));
  return document.toString({ lineWidth: 0 });
}

/** Returns the text with a new value of a top-level member. */
export function withMember(text: string, name: string, value: string): string {
  const document = parseDocument(text);
  document.set(name, value);
  return document.toString({ lineWidth: 0 });
}
