import { Checks } from "../../policy/checks.ts";
import { listsFinder } from "../../policy/compile/when.ts";
import { NO_LISTS } from "../../policy/lists/named-list.ts";
import { checkPattern } from "../../policy/patterns.ts";
import type { ToolLookup } from "../../policy/types.ts";
import { type CompiledWhen, compileWhen } from "../../policy/when/compile-when.ts";
import { expressionOf, type Node } from "../../policy/when/tree.ts";
import type { TestedAction } from "../mandate-test.ts";
import { contextOf } from "../run-tests.ts";

/** Maximum number of evaluations in the search for the cases of one rule. They share the steps of one action, too. */
const MAX_EVALUATIONS = 2_000;
const NO_RULES = { rules: [] };

/**
 * Evaluates parts of one rule's expression, in search of actions that are worth a test. What a test expects never comes from here.
 */
export class Truths {
  readonly #tools: ToolLookup;
  readonly #checks: Checks;
  readonly #compiled = new Map<string, CompiledWhen | undefined>();
  #left = MAX_EVALUATIONS;

  constructor(tools: ToolLookup) {
    this.#tools = tools;
    this.#checks = new Checks(undefined, tools.lists);
  }

  /** Returns the truth of a part on an action; undefined if it has none there, or the search has taken too long. */
  of(part: Node, tested: TestedAction): boolean | undefined {
    if (this.#left-- <= 0) return undefined;
    const context = contextOf(tested, NO_RULES, this.#tools);
    const result = this.#compile(expressionOf(part))?.judge({ ...context, checks: this.#checks });
    return typeof result === "boolean" ? result : undefined;
  }

  #compile(expression: string): CompiledWhen | undefined {
    if (this.#compiled.has(expression)) return this.#compiled.get(expression);
    const compilation = compileWhen(expression, {
      checkPattern: (pattern) => checkPattern(pattern, { ignoreCase: false }),
      findList: listsFinder(this.#tools.lists ?? NO_LISTS),
    });
    const compiled = compilation.kind === "compiled" ? compilation.when : undefined;
    this.#compiled.set(expression, compiled);
    return compiled;
  }
}

/** Maximum number of bounds that are searched for one value. */
const MAX_BOUNDS = 4;

/**
 * Finds where a truth changes: for each change the two neighbouring numbers, on a grid of steps, those nearest to a number first.
 * `tried`: numbers to look between.
 */
export function changesOf(
  truthAt: (number: number) => boolean | undefined,
  tried: readonly number[],
  step: number,
  near: number,
): readonly (readonly [before: number, after: number])[] {
  const at = (place: number): number => Number((place * step).toPrecision(15));
  const places = [...new Set(tried.map((number) => Math.round(number / step)))].sort((a, b) => a - b);
  const known = places
    .map((place) => ({ place, truth: truthAt(at(place)) }))
    .filter(({ truth }) => truth !== undefined);
  const distance = (place: number): number => Math.abs(at(place) - near);
  const between = known
    .map(({ place, truth }, index) => ({ place, truth, next: known[index + 1] }))
    .filter(({ truth, next }) => next !== undefined && next.truth !== truth)
    .sort((one, other) => distance(one.place) - distance(other.place));
  const changes: (readonly [number, number])[] = [];
  for (const { place, truth, next } of between.slice(0, MAX_BOUNDS)) {
    let [low, high] = [place, next?.place ?? place];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      const found = truthAt(at(middle));
      if (found === undefined) break;
      if (found === truth) low = middle;
      else high = middle;
    }
    if (high - low === 1) changes.push([at(low), at(high)]);
  }
  return changes;
}
