import { type ArgumentShape, shapeOfArguments } from "../../notation/argument-shape.ts";
import { WHEN_MACROS } from "../../notation/when-names.ts";
import type { ToolSchema } from "../types.ts";
import { nearest } from "../violations.ts";
import { WHEN_FUNCTIONS, type WhenFunction, type WhenTools } from "./functions.ts";
import type { Problem } from "./parse.ts";
import { childrenOf, type Node, type NodeOf } from "./tree.ts";
import { MEMBERS, OPEN, TYPE_VALUES, VARIABLE_NAMES } from "./variables.ts";

/** Variables of the macros around a node, with the shape of their values. */
type Scope = ReadonlyMap<string, ArgumentShape | undefined>;

/** Types that an expression cannot have as a whole. */
const NOT_BOOLEAN: ReadonlySet<Node["kind"]> = new Set(["list", "map"]);

/**
 * Lists what is wrong with an expression: names, calls, and members of `args` that the tool's schema does not declare. `findNearest`
 * suggests a name.
 */
export function checkWhen(
  tree: Node,
  tool: ToolSchema | undefined,
  tools: WhenTools,
  findNearest: (text: string, candidates: Iterable<string>) => string | undefined = nearest,
): readonly Problem[] {
  const check = new Check(tool && shapeOfArguments(tool.arguments), tools, findNearest);
  check.visit(tree, new Map());
  check.isBoolean(tree);
  return check.problems;
}

class Check {
  readonly problems: Problem[] = [];
  readonly #args: ArgumentShape | undefined;
  readonly #tools: WhenTools;
  readonly #findNearest: (text: string, candidates: Iterable<string>) => string | undefined;

  constructor(
    args: ArgumentShape | undefined,
    tools: WhenTools,
    findNearest: (text: string, candidates: Iterable<string>) => string | undefined,
  ) {
    this.#args = args;
    this.#tools = tools;
    this.#findNearest = findNearest;
  }

  isBoolean(tree: Node): void {
    const { kind } = tree;
    const isOther =
      NOT_BOOLEAN.has(kind) ||
      (kind === "literal" && typeof tree.value !== "boolean") ||
      (kind === "unary" && tree.operator === "-") ||
      (kind === "binary" && "+-*/%".includes(tree.operator)) ||
      (kind === "macro" && (tree.macro === "map" || tree.macro === "filter")) ||
      (kind === "name" && (VARIABLE_NAMES.includes(tree.name) || TYPE_VALUES.has(tree.name)));
    if (isOther) this.#add(tree, "WHEN_NOT_FITTING", "the expression must be true or false");
  }

  /** Checks a node and returns the shape of its value; undefined where any member may be. */
  visit(node: Node, scope: Scope): ArgumentShape | undefined {
    switch (node.kind) {
      case "name":
        return this.#name(node, scope);
      case "member":
      case "has":
        return this.#member(node, scope);
      case "index":
        return this.#index(node, scope);
      case "call":
        this.#call(node, scope);
        return undefined;
      case "macro":
        return this.#macro(node, scope);
      case "choice": {
        this.visit(node.test, scope);
        const [yes, no] = [this.visit(node.yes, scope), this.visit(node.no, scope)];
        return yes === no ? yes : undefined;
      }
      default:
        for (const child of childrenOf(node)) this.visit(child, scope);
        return undefined;
    }
  }

  #add({ at }: Node, reason: Problem["reason"], message: string, suggestion?: string): void {
    this.problems.push({ at, reason, message, suggestion });
  }

  #name(node: NodeOf<"name">, scope: Scope): ArgumentShape | undefined {
    const { name } = node;
    if (scope.has(name)) return scope.get(name);
    if (name === "args") return this.#args;
    if (VARIABLE_NAMES.includes(name) || TYPE_VALUES.has(name)) return undefined;
    const suggestion = this.#findNearest(name, [...scope.keys(), ...VARIABLE_NAMES]);
    this.#add(node, "WHEN_UNKNOWN", `there is no variable \`${name}\``, suggestion);
    return undefined;
  }

  #member(node: NodeOf<"member"> | NodeOf<"has">, scope: Scope): ArgumentShape | undefined {
    if (qualifiedName(node) !== undefined && TYPE_VALUES.has(qualifiedName(node) ?? "")) return undefined;
    const { object, name } = node;
    const members = object.kind === "name" && !scope.has(object.name) ? MEMBERS.get(object.name) : undefined;
    if (members !== undefined && object.kind === "name") {
      if (!members.has(name)) {
        const message = `\`${object.name}\` has no member \`${name}\``;
        this.#add(node, "WHEN_UNKNOWN", message, this.#findNearest(name, members.keys()));
      }
      return undefined;
    }
    const shape = this.visit(object, scope);
    if (shape === undefined || shape.members.size === 0) return undefined;
    const inner = shape.members.get(name);
    if (inner === undefined) {
      const message = `the tool's schema has no such member \`${name}\`; write \`["${name}"]\` for one that it does not declare`;
      this.#add(node, "WHEN_UNKNOWN", message, this.#findNearest(name, shape.members.keys()));
    }
    return inner;
  }

  #index(node: NodeOf<"index">, scope: Scope): ArgumentShape | undefined {
    const shape = this.visit(node.object, scope);
    this.visit(node.key, scope);
    if (node.key.kind === "literal" && typeof node.key.value === "string") return shape?.members.get(node.key.value);
    return shape?.elements;
  }

  #macro(node: NodeOf<"macro">, scope: Scope): ArgumentShape | undefined {
    const range = this.visit(node.range, scope);
    const elements = range?.elements;
    const inner = new Map(scope).set(node.variable, elements);
    if (node.test !== undefined) this.visit(node.test, inner);
    const result = node.result === undefined ? undefined : this.visit(node.result, inner);
    if (node.macro === "filter") return range;
    return node.macro === "map" && result !== undefined
      ? { members: new Map(), elements: result, argument: undefined }
      : undefined;
  }

  #call(node: NodeOf<"call">, scope: Scope): void {
    const { name, hasReceiver, args } = node;
    const known = WHEN_FUNCTIONS.get(name);
    if (known === undefined) {
      this.#unknownCall(node, scope);
      return;
    }
    for (const arg of args) this.visit(arg, scope);
    const { form, least, most, literal } = known;
    if (form !== "both" && (form === "method") !== hasReceiver) {
      const written = form === "method" ? `\`x.${name}(…)\`` : `\`${name}(…)\``;
      this.#add(node, "WHEN_NOT_FITTING", `\`${name}\` is written ${written}`);
    } else if (args.length < least || args.length > most) {
      const receiver = hasReceiver ? 1 : 0;
      const [few, many] = [least - receiver, most - receiver];
      const wanted = few === many ? `${few}` : `${few} to ${many}`;
      const message = `\`${name}\` takes ${wanted} argument${many === 1 ? "" : "s"}, and ${args.length - receiver} are given`;
      this.#add(node, "WHEN_NOT_FITTING", message);
    } else if (literal !== undefined && args[literal.at] !== undefined) {
      this.#literal(args[literal.at] as Node, name, literal);
    }
  }

  #unknownCall(node: NodeOf<"call">, scope: Scope): void {
    const { name, args } = node;
    if (name === "has") {
      this.#add(node, "WHEN_NOT_FITTING", "`has` takes a member: `has(args.name)`");
      return;
    }
    if (WHEN_MACROS.some((macro) => macro.name === name)) {
      this.#add(node, "WHEN_NOT_FITTING", `\`${name}\` takes a variable and a condition: \`list.${name}(x, …)\``);
      return;
    }
    for (const arg of args) this.visit(arg, scope);
    const suggestion = this.#findNearest(name, WHEN_FUNCTIONS.keys());
    this.#add(node, "WHEN_UNKNOWN", `there is no function \`${name}\``, suggestion);
  }

  #literal(arg: Node, name: string, literal: NonNullable<WhenFunction["literal"]>): void {
    if (arg.kind !== "literal" || typeof arg.value !== "string") {
      this.#add(arg, "WHEN_NOT_FITTING", `\`${name}\` takes a text in quotes here`);
      return;
    }
    const bound = literal.bind(arg.value, this.#tools);
    if (typeof bound === "string") this.#add(arg, "WHEN_NOT_FITTING", bound);
  }
}

/** Writes members of a name with dots; undefined for any other node. */
export function qualifiedName(node: Node): string | undefined {
  if (node.kind === "name") return node.name;
  if (node.kind !== "member") return undefined;
  const object = qualifiedName(node.object);
  return object && `${object}.${node.name}`;
}

/** A value that an expression reads from the action: a variable and the members that lead to it. */
export interface WhenRead {
  readonly variable: string;
  readonly path: readonly string[];
  /** Its first place in the text, in UTF-16 units. */
  readonly at: number;
}

/** Lists the values that an expression reads, each once, in their order; those of macros' variables stand for their list. */
export function readsOf(tree: Node): readonly WhenRead[] {
  const found = new Map<string, WhenRead>();
  const visit = (node: Node, hidden: ReadonlySet<string>): void => {
    const read = readFrom(node, hidden);
    if (read !== undefined) {
      const key = JSON.stringify([read.variable, read.path]);
      if (!found.has(key)) found.set(key, read);
      return;
    }
    if (node.kind !== "macro") {
      for (const child of childrenOf(node)) visit(child, hidden);
      return;
    }
    visit(node.range, hidden);
    const inner = new Set(hidden).add(node.variable);
    if (node.test !== undefined) visit(node.test, inner);
    if (node.result !== undefined) visit(node.result, inner);
  };
  visit(tree, new Set());
  return [...found.values()];
}

/** Returns the value that a node reads by members alone, written with a dot or in brackets. */
export function readFrom(node: Node, hidden: ReadonlySet<string>): WhenRead | undefined {
  if (node.kind === "name") {
    const isVariable = VARIABLE_NAMES.includes(node.name) && !hidden.has(node.name);
    return isVariable ? { variable: node.name, path: [], at: node.at } : undefined;
  }
  if (node.kind !== "member" && node.kind !== "has" && node.kind !== "index") return undefined;
  const object = readFrom(node.object, hidden);
  if (object === undefined) return undefined;
  const { variable, path } = object;
  if (node.kind !== "index") return { variable, path: [...path, node.name], at: node.at };
  const { key } = node;
  if (key.kind !== "literal" || typeof key.value !== "string") return undefined;
  return { variable, path: [...path, key.value], at: node.at };
}

/** Tests whether a read is of what the caller sent. */
export const isFromCaller = ({ variable, path }: WhenRead): boolean =>
  OPEN.has(variable) || (variable === "action" && path[0] === "content");
