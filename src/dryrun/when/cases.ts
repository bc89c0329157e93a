import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Rule } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { Work } from "../../async/work.ts";
import type { ToolLookup } from "../../policy/types.ts";
import { parseWhen } from "../../policy/when/parse.ts";
import type { TestedAction } from "../mandate-test.ts";
import type { NaivePatterns } from "../naive/naive-patterns.ts";
import type { Case } from "../rule-cases.ts";
import { type Atom, atomsOf, eachesOf, type Part, partsOf, type Wanted, wantedAround, wantedFor } from "./parts.ts";
import { elementPlace, isSamePlace, nameOf, type Place, valueAt, withPlace } from "./places.ts";
import { Truths } from "./truths.ts";
import { type TriedPlace, type ValueSource, valuesOf, withMembers } from "./values.ts";

/** Maximum number of parts of an expression that get cases of their own. */
const MAX_ATOMS = 20;
const MAX_NAME = 80;

/** Everything that the cases of an expression are made from. */
export interface WhenSource {
  readonly rule: Rule;
  /** An action that the rule covers. */
  readonly base: TestedAction;
  /** Arguments to begin with. */
  readonly args: JsonObject;
  readonly tools: ToolLookup;
  readonly patterns: NaivePatterns;
}

/**
 * Lists cases of a rule's expression: with all of its parts true, with all of them false, then for each part alone the values around
 * those at which it changes, while the others decide nothing: of arguments, metadata, trust, time, type and content. For each macro
 * over a list there are lists of elements with and without what it asks. Empty for a rule without `when`. Pauses between
 * parts.
 */
export function* whenCases({ rule, base, args, tools, patterns }: WhenSource): Work<readonly (readonly Case[])[]> {
  const parsed = rule.when === undefined ? undefined : parseWhen(rule.when);
  if (parsed?.kind !== "parsed") return [];
  const tool = rule.tool === undefined ? undefined : tools(rule.tool.trim());
  const declared = new Map(tool?.arguments.map((argument) => [argument.path, argument]));
  const source: ValueSource = { truths: new Truths(tools), patterns, declared };
  const part = partsOf(parsed.tree);
  const start = withPlace(base, ARGUMENTS, args);
  const filled = atomsOf(part).reduce((tested, atom) => withMembers(atom, tested), start);
  const likely = yield* settle(wantedFor(part, true), filled, source);
  const whole: readonly Case[] = [
    { name: "comparisons of `when` that hold", tested: likely },
    { name: "plain arguments", tested: start },
    {
      name: "comparisons of `when` that do not hold",
      tested: yield* settle(wantedFor(part, false), likely, source),
    },
  ];
  const groups: (readonly Case[])[] = [whole];
  for (const atom of atomsOf(part).slice(0, MAX_ATOMS)) {
    const around = yield* settle(wantedAround(part, atom) ?? [], likely, source);
    const places = valuesOf(atom, around, source);
    groups.push(...places.map((tried) => placeCases(around, tried)));
    for (const key of places.filter(({ isKey }) => isKey)) groups.push(yield* keyedCases(atom, around, key, source));
  }
  for (const each of eachesOf(part).slice(0, MAX_ATOMS)) groups.push(yield* eachCases(part, each, likely, source));
  return groups;
}

const ARGUMENTS: Place = { source: "args", path: [] };

/** Maximum number of keys of a map whose bounds have cases. */
const MAX_KEYS = 8;

/** Lists cases of the other places of an atom for each key that one place may name, since each key has a bound of its own. */
function* keyedCases(atom: Atom, around: TestedAction, key: TriedPlace, source: ValueSource): Work<readonly Case[]> {
  const cases: Case[] = [];
  for (const { label, value } of key.values.slice(0, MAX_KEYS)) {
    const keyed = withPlace(around, key.place, value);
    for (const { place, name, values } of valuesOf(atom, keyed, source)) {
      if (isSamePlace(place, key.place)) continue;
      for (const tried of values) {
        const told = `\`${name}\` ${tried.label}, \`${key.name}\` ${label}`;
        cases.push({ name: told, tested: withPlace(keyed, place, tried.value) });
      }
    }
    yield;
  }
  return cases;
}

function placeCases(around: TestedAction, { place, name, values }: TriedPlace): readonly Case[] {
  const isMember = place.source === "args" || place.source === "metadata";
  const all = isMember
    ? [
        ...values,
        { label: "missing", value: undefined },
        { label: "null", value: null },
        { label: "a list", value: ["x"] },
      ]
    : values;
  return all.map(({ label, value }) => ({ name: `\`${name}\` ${label}`, tested: withPlace(around, place, value) }));
}

/** Lists cases of a macro over a list: elements that pass its condition and elements that do not, in each order. */
function* eachCases(
  whole: Part,
  each: Extract<Part, { readonly kind: "each" }>,
  likely: TestedAction,
  source: ValueSource,
): Work<readonly Case[]> {
  const element = elementPlace(each.macro.range, each.places);
  if (element === undefined) return [];
  const list: Place = { ...element, path: element.path.slice(0, -1) };
  const around = yield* settle(wantedAround(whole, each) ?? [], likely, source);
  const yes = valueAt(element, yield* settle(wantedFor(each.part, true), around, source));
  const no = valueAt(element, yield* settle(wantedFor(each.part, false), around, source));
  const name = nameOf(list).slice(0, MAX_NAME);
  const mixed: readonly (readonly [label: string, elements: JsonValue])[] =
    yes === undefined || no === undefined
      ? []
      : [
          ["one element that passes, one that does not", [yes, no]],
          ["one element that does not pass, one that does", [no, yes]],
          ["two elements that pass", [yes, yes]],
          ["two elements that do not pass", [no, no]],
          ["one element that passes, and null", [yes, null]],
        ];
  const lists: readonly (readonly [label: string, value: JsonValue | undefined])[] = [
    ...mixed,
    ["no elements", []],
    ["a text in place of the list", "x"],
    ["no list", undefined],
  ];
  return lists.map(([label, value]) => ({ name: `\`${name}\` ${label}`, tested: withPlace(around, list, value) }));
}

/** Changes an action so that parts of an expression have the wanted truths, as far as values are found. */
function* settle(wanted: readonly Wanted[], from: TestedAction, source: ValueSource): Work<TestedAction> {
  const { truths } = source;
  let tested = from;
  const done: Wanted[] = [];
  const has = ({ atom, truth }: Wanted, action: TestedAction): boolean => truths.of(atom.closed, action) === truth;
  for (const each of wanted.slice(0, MAX_ATOMS)) {
    if (!has(each, tested)) {
      const candidates = valuesOf(each.atom, tested, source).flatMap(({ place, values }) =>
        values.map(({ value }) => withPlace(tested, place, value)),
      );
      const fitting = candidates.filter((candidate) => has(each, candidate));
      tested = fitting.find((candidate) => done.every((other) => has(other, candidate))) ?? fitting[0] ?? tested;
    }
    done.push(each);
    yield;
  }
  return tested;
}
