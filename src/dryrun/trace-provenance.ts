import type { JsonValue } from "@bufbuild/protobuf";
import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { SoughtArgument, SoughtValue } from "../policy/provenance/argument-values.ts";
import { firesOn, originsOf, type ProvenanceSpec, untrustedArguments } from "../policy/provenance/check.ts";
import { sightingsOf } from "../policy/provenance/seen-text.ts";
import { isSeenIn, isTrusted, type Origins, type TrustedSource } from "../policy/provenance/trust.ts";
import type { CompiledRule, EvaluationContext } from "../policy/types.ts";
import { OBSERVED_SOURCES } from "../provenance/sources.ts";
import type { TracedCondition } from "./trace.ts";

/** Origin of one value of an argument; the fields of the message `TracedValue`. */
export interface TracedValue {
  readonly sources: readonly string[];
  readonly tools: readonly string[];
  readonly fires: boolean;
}

/** Maximum values of an argument, and tools of a value, that a trace shows. */
const MAX_VALUES = 100;
const MAX_TOOLS = 20;

/** Traces the arguments of a provenance rule: where each of their values comes from, and never the value. */
export function traceProvenance(
  { path, source }: CompiledRule,
  spec: ProvenanceSpec,
  context: EvaluationContext,
): readonly TracedCondition[] {
  const origins = originsOf(context);
  const fired = new Map(untrustedArguments(spec, context).map((each) => [each.index, each]));
  const expected = (source.conditions?.trusted ?? []).map((each) => toJson(ValueSchema, each) as JsonValue);
  return spec.arguments.map((argument, index): TracedCondition => {
    const { result: values, lists } = context.checks.lists.during(() => valuesOf(argument, spec, context, origins));
    const isUnreadable = fired.get(index)?.code === "PROVENANCE_UNREADABLE";
    return {
      condition: `${path}.conditions.arguments[${index}]`,
      path: argument.path,
      operator: spec.fires,
      expected,
      seen: isUnreadable ? "wrong_type" : values.length === 0 ? "missing" : "present",
      value: undefined,
      holds: fired.has(index),
      lists,
      values,
    };
  });
}

function valuesOf(
  argument: SoughtArgument,
  spec: ProvenanceSpec,
  context: EvaluationContext,
  origins: Origins | undefined,
): readonly TracedValue[] {
  if (context.arguments === undefined) return [];
  const { values = [] } = context.checks.provenance.read(argument, context.arguments) ?? {};
  return values.slice(0, MAX_VALUES).map((value): TracedValue => {
    if (origins === undefined) return { sources: [], tools: [], fires: false };
    const tools = sightingsOf([value], origins).flatMap(({ tool }) => tool ?? []);
    return {
      sources: sourcesOf(value, argument, spec.trusted, origins),
      tools: [...new Set(tools)].slice(0, MAX_TOOLS),
      fires: firesOn(value, argument, spec, origins),
    };
  });
}

function sourcesOf(
  value: SoughtValue,
  { kind }: SoughtArgument,
  trusted: readonly TrustedSource[],
  origins: Origins,
): readonly string[] {
  const observed = OBSERVED_SOURCES.filter((source) => isSeenIn(source, value, origins));
  const others = trusted
    .filter((source) => !OBSERVED_SOURCES.some((each) => each === source.kind))
    .filter((source) => isTrusted(value, kind, [source], origins));
  return [...observed, ...others.map((each) => (each.kind === "list" ? `list:${each.name}` : each.kind))];
}
