/*
 * Renders the templates of the chart as Helm does, as far as they go: `.Values`, `.Release.Name`, `if`, `else`, `range`, `with`,
 * `define`, `include`, `toYaml`, `nindent`, `quote` and `default`. Anything else in a template is an error.
 */
import { stringify } from "yaml";

/** What a template sees as `.`, and its variables. */
interface Scope {
  readonly dot: unknown;
  readonly variables: Readonly<Record<string, unknown>>;
}

/** Piece of a template. */
type Node =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "print"; readonly expression: string }
  | {
      readonly kind: "block";
      readonly word: string;
      readonly expression: string;
      readonly body: Node[];
      otherwise: Node[];
    };

const TAG = /(\s*\{\{-|\{\{)([\s\S]*?)(-\}\}\s*|\}\})/g;
const WORD = /"(?:[^"\\]|\\.)*"|\||[^\s|]+/g;

/** Templates of a chart, by the names that `define` gives them. */
type Definitions = Map<string, readonly Node[]>;

function parse(template: string, definitions: Definitions): Node[] {
  const root: Node[] = [];
  const stack: { node: Extract<Node, { kind: "block" }> | undefined; into: Node[] }[] = [
    { node: undefined, into: root },
  ];
  const top = () => stack.at(-1) as (typeof stack)[number];
  let end = 0;
  for (const { 0: whole, 1: open = "", 2: inner = "", index } of template.matchAll(TAG)) {
    const before = open.endsWith("-") ? template.slice(end, index).trimEnd() : template.slice(end, index);
    top().into.push({ kind: "text", text: before });
    end = index + whole.length;
    const expression = inner.trim();
    const [word = ""] = expression.split(/\s/, 1);
    const rest = expression.slice(word.length).trim();
    if (expression.startsWith("/*")) continue;
    if (["if", "range", "with", "define"].includes(word)) {
      const node = { kind: "block", word, expression: rest, body: [], otherwise: [] } as Extract<
        Node,
        { kind: "block" }
      >;
      if (word !== "define") top().into.push(node);
      stack.push({ node, into: node.body });
    } else if (word === "else" && rest === "") {
      const { node } = stack.pop() as (typeof stack)[number];
      if (node === undefined) throw new Error("`else` stands outside of a block");
      stack.push({ node, into: node.otherwise });
    } else if (word === "end") {
      const { node } = stack.pop() as (typeof stack)[number];
      if (node === undefined) throw new Error("`end` stands outside of a block");
      if (node.word === "define") definitions.set(JSON.parse(node.expression) as string, node.body);
    } else top().into.push({ kind: "print", expression });
  }
  top().into.push({ kind: "text", text: template.slice(end) });
  if (stack.length > 1) throw new Error(`\`${top().node?.word}\` has no \`end\``);
  return root;
}

/** Whether Go's templates count a value as false. */
const isEmpty = (value: unknown): boolean =>
  !value || (typeof value === "object" && Object.keys(value as object).length === 0);

/** Prints a value as Go does. It would print a large number as `1.048576e+06`, so that none may be there. */
function printed(value: unknown): string {
  if (value === undefined || value === null) throw new Error("a value that is not there is printed");
  if (typeof value === "object") throw new Error(`an object is printed: ${JSON.stringify(value)}`);
  if (typeof value === "number" && value >= 1e6) throw new Error(`Helm prints ${value} with an exponent`);
  return String(value);
}

/** Renders templates, given by their file names, with complete values. Names of files that begin with `_` hold definitions alone. */
export function renderChart(
  templates: ReadonlyMap<string, string>,
  values: object,
  releaseName: string,
): ReadonlyMap<string, string> {
  const definitions: Definitions = new Map();
  const parsed = [...templates].map(([name, text]) => [name, parse(text, definitions)] as const);
  const root = { Values: values, Release: { Name: releaseName } };

  const term = (word: string, { dot, variables }: Scope): unknown => {
    if (word.startsWith('"')) return JSON.parse(word);
    if (/^\d+$/.test(word)) return Number(word);
    const [first = "", ...path] = word.split(".");
    if (!/^(\$\w*)?$/.test(first)) throw new Error(`\`${word}\` is no value`);
    let value = first === "" ? dot : first === "$" ? root : variables[first];
    for (const part of path.filter((each) => each !== ""))
      value = (value as Record<string, unknown> | undefined)?.[part];
    return value;
  };
  const call = (words: readonly string[], piped: readonly unknown[], scope: Scope): unknown => {
    const [name = "", ...rest] = words;
    const args = [...rest.map((word) => term(word, scope)), ...piped];
    if (name === "include")
      return render(definitions.get(args[0] as string) ?? missing(args[0]), { dot: args[1], variables: {} });
    if (name === "toYaml") return stringify(args[0]).trimEnd();
    if (name === "nindent") return `\n${printed(args[1]).replace(/^/gm, " ".repeat(args[0] as number))}`;
    if (name === "quote") return JSON.stringify(printed(args[0]));
    if (name === "default") return isEmpty(args[1]) ? args[0] : args[1];
    if (words.length > 1 || piped.length > 0) throw new Error(`\`${name}\` is no function of these templates`);
    return term(name, scope);
  };
  const missing = (name: unknown): never => {
    throw new Error(`there is no template \`${name}\``);
  };
  const evaluate = (expression: string, scope: Scope): unknown => {
    const pipeline = (expression.match(WORD) ?? []).join("\0").split("\0|\0");
    return pipeline.reduce<readonly unknown[]>((piped, part) => [call(part.split("\0"), piped, scope)], [])[0];
  };
  const block = ({ word, expression, body, otherwise }: Extract<Node, { kind: "block" }>, scope: Scope): string => {
    const [, key, item, list] = /^(\$\w+), (\$\w+) := (.+)$/.exec(expression) ?? [];
    const value = evaluate(list ?? expression, scope);
    if (isEmpty(value)) return render(otherwise, scope);
    if (word === "if") return render(body, scope);
    if (word === "with") return render(body, { ...scope, dot: value });
    // Go walks maps in the order of their keys.
    const entries = Object.entries(value as object);
    if (!Array.isArray(value)) entries.sort(([a], [b]) => (a < b ? -1 : 1));
    return entries
      .map(([name, each]) =>
        render(body, { dot: each, variables: { ...scope.variables, [key ?? ""]: name, [item ?? ""]: each } }),
      )
      .join("");
  };
  const render = (nodes: readonly Node[], scope: Scope): string =>
    nodes
      .map((node) => {
        if (node.kind === "text") return node.text;
        return node.kind === "print" ? printed(evaluate(node.expression, scope)) : block(node, scope);
      })
      .join("");
  const files = parsed.filter(([name]) => !name.startsWith("_"));
  return new Map(files.map(([name, nodes]) => [name, render(nodes, { dot: root, variables: {} })]));
}
