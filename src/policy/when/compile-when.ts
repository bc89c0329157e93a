import type { EvaluationContext, ToolSchema } from "../types.ts";
import { checkWhen, readsOf, type WhenRead } from "./check.ts";
import { closureOf, evaluateStep } from "./closures.ts";
import type { WhenTools } from "./functions.ts";
import { type Problem, parseWhen } from "./parse.ts";
import type { LimitPassed } from "./run.ts";
import type { Node } from "./tree.ts";
import { Fault, wordOf } from "./values.ts";

/** Result of an expression on an action: its truth, the error that prevented it, or the limit that it passed. */
export type WhenResult = boolean | Fault | LimitPassed;

/** An expression ready to be evaluated. Immutable. */
export interface CompiledWhen {
  /** As written. */
  readonly expression: string;
  readonly tree: Node;
  /** The values that it reads from the action. */
  readonly reads: readonly WhenRead[];
  /** Evaluates it within the steps that the action has left. MUST NOT throw on any context. */
  readonly judge: (context: EvaluationContext) => WhenResult;
}

/** A problem with its place for people: from 1, columns in characters. */
export interface PlacedProblem extends Problem {
  readonly line: number;
  readonly column: number;
}

/** Result of compiling an expression: it, or everything wrong with it in the order of the text. */
export type WhenCompilation =
  | { readonly kind: "compiled"; readonly when: CompiledWhen }
  | { readonly kind: "invalid"; readonly problems: readonly PlacedProblem[] };

/** Settings of `compileWhen`. */
export interface WhenOptions extends WhenTools {
  /** The tool whose arguments `args` holds. Default: any members may be read. */
  readonly tool?: ToolSchema | undefined;
  /** Suggests a name. Default: the nearest. */
  readonly findNearest?: (text: string, candidates: Iterable<string>) => string | undefined;
}

/** Compiles an expression. MUST NOT throw on any text. */
export function compileWhen(expression: string, options: WhenOptions): WhenCompilation {
  const parsed = parseWhen(expression);
  if (parsed.kind === "invalid") return invalid(expression, [parsed.problem]);
  const { tree } = parsed;
  const problems = checkWhen(tree, options.tool, options, options.findNearest);
  if (problems.length > 0) return invalid(expression, problems);
  const step = closureOf(tree, options);
  const judge = (context: EvaluationContext): WhenResult => {
    const value = evaluateStep(step, context.checks.when, context);
    if (typeof value === "boolean" || value instanceof Fault || value instanceof Error) return value;
    return new Fault(expression, `is ${wordOf(value)}, neither true nor false`);
  };
  return { kind: "compiled", when: { expression, tree, reads: readsOf(tree), judge } };
}

function invalid(expression: string, problems: readonly Problem[]): WhenCompilation {
  const placed = problems.map((problem) => ({ ...problem, ...placeOf(expression, problem.at) }));
  return { kind: "invalid", problems: placed.sort((a, b) => a.at - b.at) };
}

/** Converts a place in UTF-16 units to a line and a column. */
export function placeOf(text: string, at: number): { readonly line: number; readonly column: number } {
  const lines = text.slice(0, at).split("\n");
  return { line: lines.length, column: [...(lines.at(-1) ?? "")].length + 1 };
}
