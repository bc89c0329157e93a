import { parse } from "@bufbuild/cel";
import type { Expr, Expr_Call, Expr_Comprehension, ParsedExpr } from "@bufbuild/cel-spec/cel/expr/syntax_pb.js";
import { findOpenBracket, findSlip } from "./slips.ts";
import type { BinaryOperator, Macro, Node } from "./tree.ts";

export const MAX_EXPRESSION = 4_096;
const MAX_NODES = 500;
const MAX_DEPTH = 32;
const MAX_MACRO_DEPTH = 2;
/** Maximum brackets within brackets; the parser calls itself for each, and brackets around brackets make no node. */
const MAX_BRACKETS = 64;
const MIN_INT = -(2n ** 63n);
const MAX_INT = 2n ** 63n - 1n;

/** One thing wrong with an expression. */
export interface Problem {
  /** Its place in the text, in UTF-16 units. */
  readonly at: number;
  /** The rest of a sentence that begins with its place. */
  readonly message: string;
  readonly suggestion?: string | undefined;
  readonly reason: "WHEN_SYNTAX" | "WHEN_TOO_LARGE" | "WHEN_UNKNOWN" | "WHEN_NOT_FITTING";
}

/** Result of parsing: the tree, or the first problem. */
export type ParseResult =
  | { readonly kind: "parsed"; readonly tree: Node; readonly nodes: number }
  | { readonly kind: "invalid"; readonly problem: Problem };

/** Thrown within this file alone. */
class Refused extends Error {
  readonly problem: Problem;

  constructor(at: number, reason: Problem["reason"], message: string, suggestion?: string) {
    super(message);
    this.problem = { at, reason, message, suggestion };
  }
}

/** Parses an expression of the subset. MUST NOT throw on any text. */
export function parseWhen(text: string): ParseResult {
  try {
    const tree = new Reader(parsed(text), text).tree();
    return { kind: "parsed", ...tree };
  } catch (error) {
    if (error instanceof Refused) return { kind: "invalid", problem: error.problem };
    throw error;
  }
}

function parsed(text: string): ParsedExpr {
  if (text.length > MAX_EXPRESSION) {
    const message = `the expression has ${text.length} characters, and at most ${MAX_EXPRESSION} are allowed`;
    throw new Refused(0, "WHEN_TOO_LARGE", message);
  }
  if (text.trim() === "") throw new Refused(0, "WHEN_SYNTAX", "the expression is empty");
  checkBrackets(text);
  try {
    return parse(text);
  } catch (error) {
    throw refusalFrom(error, text);
  }
}

/** A text in quotes, a comment, or a bracket. */
const LEXEME = /(r?)("""|'''|"|')|\/\/[^\n]*|[([{]|[)\]}]/gi;

/** Checks that brackets do not nest deeper than the parser may call itself on any stack. */
function checkBrackets(text: string): void {
  let depth = 0;
  LEXEME.lastIndex = 0;
  for (let match = LEXEME.exec(text); match !== null; match = LEXEME.exec(text)) {
    const [lexeme, raw = "", quote] = match;
    if (quote !== undefined) {
      const end = endOfText(text, LEXEME.lastIndex, quote, raw !== "");
      if (end > text.length) throw new Refused(match.index, "WHEN_SYNTAX", "the text in quotes has no end");
      LEXEME.lastIndex = end;
    } else if ("([{".includes(lexeme)) depth += 1;
    else if (")]}".includes(lexeme)) depth -= 1;
    if (depth > MAX_BRACKETS) throw tooDeep(match.index, `brackets nest deeper than ${MAX_BRACKETS}`);
  }
}

function endOfText(text: string, start: number, quote: string, isRaw: boolean): number {
  let at = start;
  while (at < text.length && !text.startsWith(quote, at)) at += text[at] === "\\" && !isRaw ? 2 : 1;
  return at + quote.length;
}

const tooDeep = (at: number, message: string): Refused => new Refused(at, "WHEN_TOO_LARGE", message);

/** Returns the place of what stands at a place or after the blanks there: the parser counts those behind a text to what follows. */
function withoutBlanks(text: string, at: number): number {
  const blanks = /^\s*(?=\S)/.exec(text.slice(at))?.[0] ?? "";
  return at + blanks.length;
}

/** Converts what the parser throws. Its classes are not exported, so its fields tell. */
function refusalFrom(error: unknown, text: string): Refused {
  if (error instanceof RangeError) return tooDeep(0, "the expression nests too deep");
  const { location, found, rawMessage, message } = error as {
    readonly location?: { readonly start: { readonly offset: number } };
    readonly found?: string | null;
    readonly rawMessage?: string;
    readonly message: string;
  };
  const at = withoutBlanks(text, location?.start.offset ?? 0);
  const slip = findSlip(text);
  if (slip !== undefined) {
    return new Refused(slip.at, "WHEN_SYNTAX", `\`${slip.found}\` does not fit here`, slip.suggestion);
  }
  if (found === undefined) return new Refused(at, "WHEN_SYNTAX", rawMessage ?? message);
  const open = findOpenBracket(text);
  // The parser gives up a call as a whole, so that an error within it stands at its bracket or its dot.
  if (open !== undefined && /^[.\w\s]*$/.test(text.slice(at, open.at))) {
    return new Refused(open.at, "WHEN_SYNTAX", `the bracket \`${open.bracket}\` is not closed`);
  }
  const [, operator] = LAST_OPERATOR.exec(text.slice(0, text.trimEnd().length)) ?? [];
  if (operator !== undefined) {
    return new Refused(text.trimEnd().length, "WHEN_SYNTAX", `the expression ends too early, after \`${operator}\``);
  }
  const isEnd = found === null || found === "";
  const told = isEnd ? "the expression ends too early" : `\`${found}\` does not fit here`;
  return new Refused(at, "WHEN_SYNTAX", told);
}

/** An operator at the end of an expression. */
const LAST_OPERATOR = /(&&|\|\||[=!<>]=|[-+*/%<>?:.!]|\bin)$/;

const BINARY: ReadonlyMap<string, BinaryOperator> = new Map([
  ["_==_", "=="],
  ["_!=_", "!="],
  ["_<_", "<"],
  ["_<=_", "<="],
  ["_>_", ">"],
  ["_>=_", ">="],
  ["@in", "in"],
  ["_+_", "+"],
  ["_-_", "-"],
  ["_*_", "*"],
  ["_/_", "/"],
  ["_%_", "%"],
]);

const MACROS: ReadonlyMap<string, Macro> = new Map([
  ["all", "all"],
  ["exists", "exists"],
  ["exists_one", "exists_one"],
  ["existsOne", "exists_one"],
  ["filter", "filter"],
  ["map", "map"],
]);

/** Reads the parser's tree, in which macros stand as loops. */
class Reader {
  readonly #parsed: ParsedExpr;
  readonly #text: string;
  #nodes = 0;

  constructor(parsedExpression: ParsedExpr, text: string) {
    this.#parsed = parsedExpression;
    this.#text = text;
  }

  tree(): { readonly tree: Node; readonly nodes: number } {
    const tree = this.#read(this.#parsed.expr, 1, 0);
    return { tree, nodes: this.#nodes };
  }

  #at({ id }: Expr): number {
    return withoutBlanks(this.#text, this.#parsed.sourceInfo?.positions[id.toString()] ?? 0);
  }

  #read(expression: Expr | undefined, depth: number, macros: number): Node {
    if (expression === undefined) throw new Refused(0, "WHEN_SYNTAX", "a part of the expression is missing");
    const at = this.#at(expression);
    if (depth > MAX_DEPTH) throw tooDeep(at, `the expression nests deeper than ${MAX_DEPTH}`);
    if (++this.#nodes > MAX_NODES) {
      throw new Refused(at, "WHEN_TOO_LARGE", `the expression has more than ${MAX_NODES} parts`);
    }
    const { exprKind } = expression;
    const below = (child: Expr | undefined): Node => this.#read(child, depth + 1, macros);
    switch (exprKind.case) {
      case "constExpr":
        return { kind: "literal", at, value: literalFrom(exprKind.value.constantKind, at) };
      case "identExpr":
        return { kind: "name", at, name: exprKind.value.name };
      case "selectExpr": {
        const { operand, field, testOnly } = exprKind.value;
        return { kind: testOnly ? "has" : "member", at, object: below(operand), name: field };
      }
      case "listExpr":
        return { kind: "list", at, elements: exprKind.value.elements.map(below) };
      case "structExpr": {
        if (exprKind.value.messageName !== "") {
          throw new Refused(at, "WHEN_UNKNOWN", `there is no message \`${exprKind.value.messageName}\``);
        }
        const entries = exprKind.value.entries.map(
          ({ keyKind, value }) => [below(keyKind.case === "mapKey" ? keyKind.value : undefined), below(value)] as const,
        );
        return { kind: "map", at, entries };
      }
      case "callExpr":
        return this.#call(exprKind.value, at, depth, macros);
      case "comprehensionExpr":
        return this.#macro(expression, exprKind.value, depth, macros);
      default:
        throw new Refused(at, "WHEN_SYNTAX", "a part of the expression is missing");
    }
  }

  #call({ function: name, target, args }: Expr_Call, at: number, depth: number, macros: number): Node {
    const below = (child: Expr | undefined): Node => this.#read(child, depth + 1, macros);
    const operator = BINARY.get(name);
    if (operator !== undefined) return { kind: "binary", at, operator, left: below(args[0]), right: below(args[1]) };
    switch (name) {
      case "_&&_":
      case "_||_": {
        const operands = operandsOf(name, args).map(below);
        return { kind: "logic", at, operator: name === "_&&_" ? "&&" : "||", operands };
      }
      case "!_":
      case "-_":
        return { kind: "unary", at, operator: name === "!_" ? "!" : "-", operand: below(args[0]) };
      case "_?_:_":
        return { kind: "choice", at, test: below(args[0]), yes: below(args[1]), no: below(args[2]) };
      case "_[_]":
        return { kind: "index", at, object: below(args[0]), key: below(args[1]) };
      default: {
        const all = target === undefined ? args : [target, ...args];
        return { kind: "call", at, name, hasReceiver: target !== undefined, args: all.map(below) };
      }
    }
  }

  #macro(expression: Expr, loop: Expr_Comprehension, depth: number, macros: number): Node {
    const at = this.#at(expression);
    const written = this.#parsed.sourceInfo?.macroCalls[expression.id.toString()]?.exprKind;
    const call = written?.case === "callExpr" ? written.value : undefined;
    const macro = MACROS.get(call?.function ?? "");
    const step = loop.loopStep?.exprKind;
    if (call === undefined || macro === undefined || step?.case !== "callExpr") {
      throw new Refused(at, "WHEN_SYNTAX", "this loop is not supported");
    }
    if (macros >= MAX_MACRO_DEPTH) throw tooDeep(at, `\`${macro}\` nests deeper than ${MAX_MACRO_DEPTH} such calls`);
    const range = this.#read(loop.iterRange, depth + 1, macros);
    const inside = (child: Expr | undefined): Node => this.#read(child, depth + 1, macros + 1);
    const common = { kind: "macro", at, macro, range, variable: loop.iterVar } as const;
    const [first, second] = step.value.args;
    switch (macro) {
      case "all":
      case "exists":
        return { ...common, test: inside(second), result: undefined };
      case "exists_one":
      case "filter":
        return { ...common, test: inside(first), result: undefined };
      case "map": {
        const hasTest = step.value.function === "_?_:_";
        const test = hasTest ? inside(first) : undefined;
        return { ...common, test, result: inside(addedBy(hasTest ? second : loop.loopStep)) };
      }
    }
  }
}

/** Lists the operands of a chain of `&&` or of `||`, which the parser balances. */
function operandsOf(name: string, args: readonly Expr[]): readonly Expr[] {
  return args.flatMap((arg) => {
    const { exprKind } = arg;
    return exprKind.case === "callExpr" && exprKind.value.function === name
      ? operandsOf(name, exprKind.value.args)
      : [arg];
  });
}

/** Finds the element that a step of `map` adds: `@result + [element]`. */
function addedBy(step: Expr | undefined): Expr | undefined {
  const added = step?.exprKind.case === "callExpr" ? step.exprKind.value.args[1]?.exprKind : undefined;
  return added?.case === "listExpr" ? added.value.elements[0] : undefined;
}

type Constant = NonNullable<Extract<Expr["exprKind"], { readonly case: "constExpr" }>["value"]>["constantKind"];

function literalFrom({ case: type, value }: Constant, at: number): boolean | bigint | number | string | null {
  switch (type) {
    case "boolValue":
    case "stringValue":
      return value;
    case "nullValue":
      return null;
    case "int64Value":
      if (value < MIN_INT || value > MAX_INT) throw new Refused(at, "WHEN_SYNTAX", "the number is beyond 64 bits");
      return value;
    case "doubleValue":
      if (!Number.isFinite(value)) throw new Refused(at, "WHEN_SYNTAX", "the number is too large");
      return value;
    case "uint64Value":
      throw new Refused(at, "WHEN_NOT_FITTING", "write the number without `u`: numbers here have a sign");
    default:
      throw new Refused(at, "WHEN_NOT_FITTING", "bytes are not supported; write a text");
  }
}
