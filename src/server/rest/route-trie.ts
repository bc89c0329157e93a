import type { PathTemplate } from "./path-template.ts";

/** A path that a route answers: the route, and the raw path segments with the verb cut off. */
export interface RouteMatch<T> {
  readonly value: T;
  readonly segments: readonly string[];
}

/** The routes of one HTTP method. A literal segment wins over `*`, which wins over `**`. */
export interface RouteTrie<T extends object> {
  /** Adds a route and returns the one that already has this shape, if any; the older one then stays. */
  add(template: PathTemplate, value: T): T | undefined;
  /** Finds the route of a raw (still percent-encoded) path; `undefined` when there is none. */
  match(path: string): RouteMatch<T> | undefined;
}

interface TrieNode<T> {
  readonly literals: Map<string, TrieNode<T>>;
  any: TrieNode<T> | undefined;
  /** Routes that end at this node, by verb (`""`: none). */
  readonly ends: Map<string, T>;
  /** Routes with `**` from this node on, by verb. */
  readonly rests: Map<string, T>;
}

function emptyNode<T>(): TrieNode<T> {
  return { literals: new Map(), any: undefined, ends: new Map(), rests: new Map() };
}

function childFor<T>(node: TrieNode<T>, literal: string): TrieNode<T> {
  const known = node.literals.get(literal);
  if (known !== undefined) return known;
  const made = emptyNode<T>();
  node.literals.set(literal, made);
  return made;
}

function slotFor<T>(root: TrieNode<T>, template: PathTemplate): Map<string, T> {
  let node = root;
  for (const segment of template.segments) {
    if (segment.kind === "rest") return node.rests;
    if (segment.kind === "literal") node = childFor(node, segment.text);
    else node = node.any ??= emptyNode();
  }
  return node.ends;
}

function literalOf(segment: string): string {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

// A node is reached by one path through the trie only, so backtracking visits each node at most once.
function find<T>(node: TrieNode<T>, segments: readonly string[], index: number, verb: string): T | undefined {
  const segment = segments[index];
  if (segment === undefined) return node.ends.get(verb) ?? node.rests.get(verb);
  const literal = node.literals.get(literalOf(segment));
  const exact = literal && find(literal, segments, index + 1, verb);
  if (exact !== undefined) return exact;
  const any = segment !== "" && node.any ? find(node.any, segments, index + 1, verb) : undefined;
  return any ?? node.rests.get(verb);
}

/** Creates an empty trie. */
export function createRouteTrie<T extends object>(): RouteTrie<T> {
  const root = emptyNode<T>();
  return {
    add(template, value) {
      const slot = slotFor(root, template);
      const known = slot.get(template.verb);
      if (known === undefined) slot.set(template.verb, value);
      return known;
    },
    match(path) {
      const segments = path.slice(1).split("/");
      return matchVerb(root, segments) ?? matchPlain(root, segments);
    },
  };
}

function matchPlain<T>(root: TrieNode<T>, segments: readonly string[]): RouteMatch<T> | undefined {
  const value = find(root, segments, 0, "");
  return value === undefined ? undefined : { value, segments };
}

// A colon may also be part of an identifier, so a path without a route for its verb is tried again as a whole.
function matchVerb<T>(root: TrieNode<T>, segments: readonly string[]): RouteMatch<T> | undefined {
  const last = segments.at(-1) ?? "";
  const colon = last.lastIndexOf(":");
  if (colon < 0) return undefined;
  const cut = [...segments.slice(0, -1), last.slice(0, colon)];
  const value = find(root, cut, 0, last.slice(colon + 1));
  return value === undefined ? undefined : { value, segments: cut };
}
