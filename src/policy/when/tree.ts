import type { WHEN_MACROS } from "../../notation/when-names.ts";

/** Macros over the elements of a list or the keys of a map. */
export type Macro = Extract<(typeof WHEN_MACROS)[number], { readonly on: unknown }>["name"];

/** A node of an expression. `at` is its place in the text, in UTF-16 units: of an operator or call, where that stands. */
export type Node = { readonly at: number } & (
  | { readonly kind: "literal"; readonly value: boolean | bigint | number | string | null }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "member"; readonly object: Node; readonly name: string }
  | { readonly kind: "has"; readonly object: Node; readonly name: string }
  | { readonly kind: "index"; readonly object: Node; readonly key: Node }
  | { readonly kind: "list"; readonly elements: readonly Node[] }
  | { readonly kind: "map"; readonly entries: readonly (readonly [key: Node, value: Node])[] }
  | { readonly kind: "unary"; readonly operator: "!" | "-"; readonly operand: Node }
  | { readonly kind: "binary"; readonly operator: BinaryOperator; readonly left: Node; readonly right: Node }
  | { readonly kind: "logic"; readonly operator: "&&" | "||"; readonly operands: readonly Node[] }
  | { readonly kind: "choice"; readonly test: Node; readonly yes: Node; readonly no: Node }
  /** `args` begin with the receiver, if the call has one. */
  | { readonly kind: "call"; readonly name: string; readonly hasReceiver: boolean; readonly args: readonly Node[] }
  | {
      readonly kind: "macro";
      readonly macro: Macro;
      readonly range: Node;
      readonly variable: string;
      readonly test: Node | undefined;
      readonly result: Node | undefined;
    }
);

export type NodeOf<Kind extends Node["kind"]> = Extract<Node, { readonly kind: Kind }>;
export type BinaryOperator = "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "+" | "-" | "*" | "/" | "%";

/** Lists the nodes directly below a node. */
export function childrenOf(node: Node): readonly Node[] {
  switch (node.kind) {
    case "literal":
    case "name":
      return [];
    case "member":
    case "has":
      return [node.object];
    case "index":
      return [node.object, node.key];
    case "list":
      return node.elements;
    case "map":
      return node.entries.flat();
    case "unary":
      return [node.operand];
    case "binary":
      return [node.left, node.right];
    case "logic":
      return node.operands;
    case "choice":
      return [node.test, node.yes, node.no];
    case "call":
      return node.args;
    case "macro":
      return [node.range, node.test, node.result].filter((child) => child !== undefined);
  }
}

/** Binding strength of operators; the stronger binds first. */
const STRENGTH: Readonly<Record<string, number>> = { "||": 2, "&&": 3, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6 };
const CHOICE = 1;
const RELATION = 4;
const UNARY = 7;
const PRIMARY = 8;

function strengthOf(node: Node): number {
  switch (node.kind) {
    case "choice":
      return CHOICE;
    case "logic":
    case "binary":
      return STRENGTH[node.operator] ?? RELATION;
    case "unary":
      return UNARY;
    case "literal":
      return typeof node.value === "number" || typeof node.value === "bigint"
        ? node.value < 0
          ? UNARY
          : PRIMARY
        : PRIMARY;
    default:
      return PRIMARY;
  }
}

/** Writes a node as an expression with the same tree. */
export function expressionOf(node: Node, least = 0): string {
  const text = textOf(node);
  return strengthOf(node) < least ? `(${text})` : text;
}

const listOf = (nodes: readonly Node[]): string => nodes.map((node) => expressionOf(node)).join(", ");

function textOf(node: Node): string {
  switch (node.kind) {
    case "literal":
      return literalText(node.value);
    case "name":
      return node.name;
    case "member":
      return `${expressionOf(node.object, PRIMARY)}.${node.name}`;
    case "has":
      return `has(${expressionOf(node.object, PRIMARY)}.${node.name})`;
    case "index":
      return `${expressionOf(node.object, PRIMARY)}[${expressionOf(node.key)}]`;
    case "list":
      return `[${listOf(node.elements)}]`;
    case "map":
      return `{${node.entries.map(([key, value]) => `${expressionOf(key)}: ${expressionOf(value)}`).join(", ")}}`;
    case "unary":
      // In brackets if it is negative: `--5` is 5.
      return `${node.operator}${expressionOf(node.operand, node.operator === "-" ? PRIMARY : UNARY)}`;
    case "binary": {
      const strength = strengthOf(node);
      return `${expressionOf(node.left, strength)} ${node.operator} ${expressionOf(node.right, strength + 1)}`;
    }
    case "logic":
      return node.operands.map((operand) => expressionOf(operand, strengthOf(node) + 1)).join(` ${node.operator} `);
    case "choice":
      return `${expressionOf(node.test, CHOICE + 1)} ? ${expressionOf(node.yes, CHOICE + 1)} : ${expressionOf(node.no, CHOICE)}`;
    case "call": {
      const [receiver, ...rest] = node.args;
      if (!node.hasReceiver || receiver === undefined) return `${node.name}(${listOf(node.args)})`;
      return `${expressionOf(receiver, PRIMARY)}.${node.name}(${listOf(rest)})`;
    }
    case "macro": {
      const parts = [node.test, node.result].filter((part) => part !== undefined);
      return `${expressionOf(node.range, PRIMARY)}.${node.macro}(${node.variable}, ${listOf(parts)})`;
    }
  }
}

function literalText(value: NodeOf<"literal">["value"]): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "number" || !Number.isInteger(value)) return String(value);
  const text = String(value);
  return text.includes("e") ? text : `${Object.is(value, -0) ? "-0" : text}.0`;
}
