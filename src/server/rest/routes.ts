import {
  type DescField,
  type DescMethod,
  type DescService,
  getOption,
  hasOption,
  ScalarType,
} from "@bufbuild/protobuf";
import { http } from "../../../gen/google/api/annotations_pb.js";
import type { HttpRule } from "../../../gen/google/api/http_pb.js";

/** Segment of a path template: a fixed word, one variable segment, or all remaining segments. */
export type TemplateSegment =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "variable"; readonly field: DescField }
  | { readonly kind: "rest"; readonly field: DescField };

/** HTTP method and path template of an RPC, as its `google.api.http` option declares them. */
export interface Route {
  readonly method: DescMethod;
  /** In upper case. */
  readonly httpMethod: string;
  readonly template: string;
  readonly segments: readonly TemplateSegment[];
  /** Word after the last colon, as in `/v1/mandates:compile`; else `""`. */
  readonly verb: string;
  /** Request fields that the path fills. */
  readonly pathFields: readonly DescField[];
  /** Target of the body: the whole request, one of its fields, or nothing. */
  readonly body: "message" | "none" | DescField;
  /** Request fields that a query may fill: all others. */
  readonly queryFields: readonly DescField[];
}

/** A route with the values of its path fields. */
export interface RouteMatch<R extends Route = Route> {
  readonly route: R;
  /** Text of each path field, in the order of `pathFields`; undefined if a percent-escape is malformed. */
  readonly captured: readonly (string | undefined)[];
}

/** Additional templates for a template. */
export type Aliases = (template: string) => readonly string[];

/**
 * Returns the routes of services. Supports GET, PUT, POST, DELETE and PATCH, templates of words, `{field}` and a last
 * `{field=**}`, verbs, `body` and `additional_bindings`. Throws an `Error` that names the RPC for any other rule.
 */
export function routesOfServices(services: readonly DescService[], aliases: Aliases): Route[] {
  return services
    .flatMap(({ methods }) => methods)
    .filter((method) => hasOption(method, http))
    .flatMap((method) => routesOfMethod(method, aliases));
}

function routesOfMethod(method: DescMethod, aliases: Aliases): Route[] {
  if (method.methodKind !== "unary" && method.methodKind !== "server_streaming") {
    throw new Error(`${method}: only unary and server-streaming methods can have a google.api.http rule`);
  }
  const main = getOption(method, http);
  return [main, ...main.additionalBindings].flatMap((rule) => {
    const { httpMethod, template } = patternOf(method, rule);
    return [template, ...aliases(template)].map((each) => createRoute(method, rule, httpMethod, each));
  });
}

function patternOf(method: DescMethod, { pattern, $unknown }: HttpRule): { httpMethod: string; template: string } {
  if (pattern.case === undefined) throw new Error(`${method}: its google.api.http rule has no path`);
  // This http.proto predates `response_body`, which is therefore an unknown field.
  const isBeyond = pattern.case === "custom" || ($unknown !== undefined && $unknown.length > 0);
  if (isBeyond) throw new Error(`${method}: its google.api.http rule uses \`custom\` or \`response_body\``);
  return { httpMethod: pattern.case.toUpperCase(), template: pattern.value as string };
}

function createRoute(method: DescMethod, rule: HttpRule, httpMethod: string, template: string): Route {
  const { segments, verb } = parseTemplate(method, template);
  const pathFields = segments.flatMap((segment) => (segment.kind === "literal" ? [] : [segment.field]));
  const body = bodyOf(method, rule.body);
  const isFree = (field: DescField) => body !== "message" && field !== body && !pathFields.includes(field);
  const queryFields = method.input.fields.filter(isFree);
  return { method, httpMethod, template, segments, verb, pathFields, body, queryFields };
}

function bodyOf(method: DescMethod, body: string): Route["body"] {
  if (body === "") return "none";
  return body === "*" ? "message" : fieldNamed(method, body);
}

function fieldNamed(method: DescMethod, name: string): DescField {
  const field = method.input.fields.find((each) => each.name === name);
  if (field === undefined) throw new Error(`${method}: its google.api.http rule names the unknown field \`${name}\``);
  return field;
}

const TEMPLATE = /^((?:\/[^/:]+)+)(?::([a-z][a-z-]*))?$/;
const LITERAL = /^[A-Za-z0-9._-]+$/;
const VARIABLE = /^\{(\w+)(=\*\*)?\}$/;

function parseTemplate(method: DescMethod, template: string): Pick<Route, "segments" | "verb"> {
  const [, path = "", verb = ""] = TEMPLATE.exec(template) ?? [];
  const texts = path.split("/").slice(1);
  const segments = texts.map((text) => segmentFrom(method, text));
  const rest = segments.findIndex((segment) => segment?.kind === "rest");
  const isServed = segments.length > 0 && (rest < 0 || (rest === segments.length - 1 && verb === ""));
  if (!isServed || !segments.every((segment) => segment !== undefined)) {
    throw new Error(`${method}: the path template \`${template}\` is malformed or not supported`);
  }
  return { segments, verb };
}

function segmentFrom(method: DescMethod, text: string): TemplateSegment | undefined {
  if (LITERAL.test(text)) return { kind: "literal", text };
  const [, name, rest] = VARIABLE.exec(text) ?? [];
  if (name === undefined) return undefined;
  const field = fieldNamed(method, name);
  const isText = field.fieldKind === "scalar" && field.scalar === ScalarType.STRING && field.oneof === undefined;
  if (!isText) throw new Error(`${method}: the path variable \`${name}\` is not a string`);
  return { kind: rest === undefined ? "variable" : "rest", field };
}

interface TrieNode<R> {
  readonly literals: Map<string, TrieNode<R>>;
  variable: TrieNode<R> | undefined;
  /** Routes that end at this node, by verb. */
  readonly ends: Map<string, R>;
  /** Route whose last variable takes all remaining segments. */
  rest: R | undefined;
}

const emptyNode = <R>(): TrieNode<R> => ({
  literals: new Map(),
  variable: undefined,
  ends: new Map(),
  rest: undefined,
});

/** Finds the route of a path in a trie of segments that begins with the HTTP method. */
export class RouteTable<R extends Route> {
  readonly #root: TrieNode<R> = emptyNode();

  /** Throws an `Error` that names both RPCs if two claim the same route. */
  constructor(routes: Iterable<R>) {
    for (const route of routes) this.#add(route);
  }

  /** Matches a raw (still percent-encoded) path. A literal segment wins over a variable, a verb over a colon in a variable. */
  match(httpMethod: string, path: string): RouteMatch<R> | undefined {
    const start = this.#root.literals.get(httpMethod);
    if (start === undefined) return undefined;
    const segments = path.slice(1).split("/");
    return matchVerb(start, segments) ?? matchOf(find(start, segments, 0, ""), segments);
  }

  /** Returns the HTTP methods of a path; empty if the path is unknown. */
  allowed(path: string): string[] {
    return [...this.#root.literals.keys()].filter((httpMethod) => this.match(httpMethod, path) !== undefined);
  }

  #add(route: R): void {
    let node = childOf(this.#root, route.httpMethod);
    for (const segment of route.segments) {
      if (segment.kind === "literal") node = childOf(node, segment.text);
      else if (segment.kind === "variable") node = node.variable ??= emptyNode();
    }
    const isRest = route.segments.at(-1)?.kind === "rest";
    const known = isRest ? node.rest : node.ends.get(route.verb);
    if (known !== undefined) {
      throw new Error(`${known.method} and ${route.method} both claim ${route.httpMethod} ${route.template}`);
    }
    if (isRest) node.rest = route;
    else node.ends.set(route.verb, route);
  }
}

function childOf<R>(node: TrieNode<R>, literal: string): TrieNode<R> {
  const known = node.literals.get(literal);
  if (known !== undefined) return known;
  const made = emptyNode<R>();
  node.literals.set(literal, made);
  return made;
}

// Each node has one path through the trie, so backtracking visits it at most once.
function find<R>(node: TrieNode<R>, segments: readonly string[], index: number, verb: string): R | undefined {
  const segment = segments[index];
  if (segment === undefined) return node.ends.get(verb);
  const literal = node.literals.get(decoded(segment) ?? segment);
  const exact = literal && find(literal, segments, index + 1, verb);
  if (exact !== undefined) return exact;
  const variable = segment !== "" && node.variable ? find(node.variable, segments, index + 1, verb) : undefined;
  return variable ?? (verb === "" ? node.rest : undefined);
}

// A colon may be part of an id, so a path without a route for its verb is tried again as a whole.
function matchVerb<R extends Route>(start: TrieNode<R>, segments: readonly string[]): RouteMatch<R> | undefined {
  const last = segments.at(-1) ?? "";
  const colon = last.lastIndexOf(":");
  if (colon < 0) return undefined;
  const cut = [...segments.slice(0, -1), last.slice(0, colon)];
  return matchOf(find(start, cut, 0, last.slice(colon + 1)), cut);
}

function matchOf<R extends Route>(route: R | undefined, segments: readonly string[]): RouteMatch<R> | undefined {
  if (route === undefined) return undefined;
  const captured = route.segments.flatMap(({ kind }, index) => {
    if (kind === "literal") return [];
    return [kind === "rest" ? decoded(segments.slice(index).join("/")) : decoded(segments[index] ?? "")];
  });
  return { route, captured };
}

/** Decodes percent-escapes once, `%2F` to a slash as well; undefined if one is malformed. */
export function decoded(text: string): string | undefined {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
