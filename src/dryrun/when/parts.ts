import { childrenOf, type Node, type NodeOf } from "../../policy/when/tree.ts";
import { elementPlace, type Places } from "./places.ts";

/** A part of an expression that is true or false by itself, such as a comparison. */
export interface Atom {
  readonly kind: "atom";
  /** As written. */
  readonly node: Node;
  /** With the first element of its list in place of each variable of a macro around it, so that it stands alone. */
  readonly closed: Node;
  readonly places: Places;
}

/** An expression as what decides it: atoms, joined. A macro over a list counts as its condition on the first element. */
export type Part =
  | Atom
  | { readonly kind: "not"; readonly part: Part }
  | { readonly kind: "and" | "or"; readonly parts: readonly Part[] }
  | { readonly kind: "choice"; readonly test: Part; readonly yes: Part; readonly no: Part }
  | { readonly kind: "each"; readonly macro: NodeOf<"macro">; readonly places: Places; readonly part: Part };

/** An atom with the truth that it is to have. */
export interface Wanted {
  readonly atom: Atom;
  readonly truth: boolean;
}

/** Macros that are true or false by their condition on elements. */
const QUANTIFIERS: ReadonlySet<string> = new Set(["all", "exists", "exists_one"]);

/** Takes an expression apart. */
export const partsOf = (tree: Node): Part => partOf(tree, new Map(), new Map());

function partOf(node: Node, places: Places, elements: ReadonlyMap<string, Node>): Part {
  const inner = (child: Node): Part => partOf(child, places, elements);
  switch (node.kind) {
    case "unary":
      if (node.operator === "!") return { kind: "not", part: inner(node.operand) };
      break;
    case "logic":
      return { kind: node.operator === "&&" ? "and" : "or", parts: node.operands.map(inner) };
    case "choice":
      return { kind: "choice", test: inner(node.test), yes: inner(node.yes), no: inner(node.no) };
    case "macro":
      if (QUANTIFIERS.has(node.macro) && node.test !== undefined) {
        const range = closed(node.range, elements);
        const first: Node = { kind: "index", at: node.at, object: range, key: ZERO };
        const placesWithin = new Map(places).set(node.variable, elementPlace(node.range, places));
        const part = partOf(node.test, placesWithin, new Map(elements).set(node.variable, first));
        return { kind: "each", macro: node, places, part };
      }
      break;
  }
  return { kind: "atom", node, closed: closed(node, elements), places };
}

const ZERO: Node = { kind: "literal", at: 0, value: 0n };

/** Puts other nodes in place of names. */
function closed(node: Node, by: ReadonlyMap<string, Node>): Node {
  if (by.size === 0) return node;
  const inner = (child: Node): Node => closed(child, by);
  switch (node.kind) {
    case "literal":
      return node;
    case "name":
      return by.get(node.name) ?? node;
    case "member":
    case "has":
      return { ...node, object: inner(node.object) };
    case "index":
      return { ...node, object: inner(node.object), key: inner(node.key) };
    case "list":
      return { ...node, elements: node.elements.map(inner) };
    case "map":
      return { ...node, entries: node.entries.map(([key, value]) => [inner(key), inner(value)] as const) };
    case "unary":
      return { ...node, operand: inner(node.operand) };
    case "binary":
      return { ...node, left: inner(node.left), right: inner(node.right) };
    case "logic":
      return { ...node, operands: node.operands.map(inner) };
    case "choice":
      return { ...node, test: inner(node.test), yes: inner(node.yes), no: inner(node.no) };
    case "call":
      return { ...node, args: node.args.map(inner) };
    case "macro": {
      const others = new Map(by);
      others.delete(node.variable);
      const within = (child: Node | undefined): Node | undefined => child && closed(child, others);
      return { ...node, range: inner(node.range), test: within(node.test), result: within(node.result) };
    }
  }
}

const partsBelow = (part: Part): readonly Part[] => {
  switch (part.kind) {
    case "atom":
      return [];
    case "not":
    case "each":
      return [part.part];
    case "choice":
      return [part.test, part.yes, part.no];
    default:
      return part.parts;
  }
};

/** Lists the atoms of a part. */
export const atomsOf = (part: Part): readonly Atom[] =>
  part.kind === "atom" ? [part] : partsBelow(part).flatMap(atomsOf);

/** Lists the macros of a part that are true or false by their elements. */
export const eachesOf = (part: Part): readonly Extract<Part, { readonly kind: "each" }>[] => [
  ...(part.kind === "each" ? [part] : []),
  ...partsBelow(part).flatMap(eachesOf),
];

/** Lists truths of atoms that make a part true or false. */
export function wantedFor(part: Part, truth: boolean): readonly Wanted[] {
  switch (part.kind) {
    case "atom":
      return [{ atom: part, truth }];
    case "not":
      return wantedFor(part.part, !truth);
    case "each":
      return wantedFor(part.part, truth);
    case "choice":
      return [...wantedFor(part.test, true), ...wantedFor(part.yes, truth)];
    default:
      return part.parts.flatMap((each) => wantedFor(each, truth));
  }
}

/** Lists truths of the other atoms with which one part decides the whole; undefined if the whole does not have it. */
export function wantedAround(part: Part, wanted: Part): readonly Wanted[] | undefined {
  if (part === wanted) return [];
  if (part.kind === "choice") {
    const { test, yes, no } = part;
    const byTest = wantedAround(test, wanted);
    if (byTest !== undefined) return [...byTest, ...wantedFor(yes, true), ...wantedFor(no, false)];
    const byYes = wantedAround(yes, wanted);
    if (byYes !== undefined) return [...wantedFor(test, true), ...byYes];
    const byNo = wantedAround(no, wanted);
    return byNo && [...wantedFor(test, false), ...byNo];
  }
  const below = partsBelow(part);
  const at = below.findIndex((each) => wantedAround(each, wanted) !== undefined);
  const found = below[at];
  if (found === undefined) return undefined;
  // The others of `&&` are true and those of `||` false, so that they decide nothing.
  const others = below.filter((_, index) => index !== at).flatMap((each) => wantedFor(each, part.kind === "and"));
  return [...others, ...(wantedAround(found, wanted) ?? [])];
}

/** Lists the nodes of an atom with the nodes right above them, from the outside in, and the places of macros' variables there. */
export function* nodesOf(
  node: Node,
  places: Places,
  parents: readonly Node[] = [],
): Generator<{ readonly node: Node; readonly parents: readonly Node[]; readonly places: Places }> {
  yield { node, parents, places };
  const above = [node, ...parents];
  if (node.kind !== "macro") {
    for (const child of childrenOf(node)) yield* nodesOf(child, places, above);
    return;
  }
  yield* nodesOf(node.range, places, above);
  const within = new Map(places).set(node.variable, elementPlace(node.range, places));
  for (const child of [node.test, node.result]) if (child !== undefined) yield* nodesOf(child, within, above);
}
