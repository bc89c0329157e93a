import { TOO_LONG } from "../checks.ts";
import type { FindingCode } from "../reason-codes.ts";
import type { EvaluationContext } from "../types.ts";
import type { SoughtArgument, SoughtValue } from "./argument-values.ts";
import { seenText, sightingsOf, sourcesText } from "./seen-text.ts";
import { isSeenIn, isTrusted, type Origins, type TrustedSource } from "./trust.ts";

/** Condition under which a rule fires on a value. */
export type ProvenanceFires = "not_trusted" | "seen_untrusted";

/** A provenance rule ready to be evaluated. */
export interface ProvenanceSpec {
  readonly arguments: readonly SoughtArgument[];
  readonly trusted: readonly TrustedSource[];
  readonly fires: ProvenanceFires;
}

/** An argument on which a rule fires. */
export interface ArgumentOrigin {
  /** Place of the argument in the rule, from 0. */
  readonly index: number;
  readonly argument: SoughtArgument;
  readonly code: Extract<
    FindingCode,
    "PROVENANCE_NOT_TRUSTED" | "PROVENANCE_SEEN_UNTRUSTED" | "PROVENANCE_UNREADABLE" | typeof TOO_LONG
  >;
  /** One sentence, which names no value. */
  readonly message: string;
}

/** Returns the session's knowledge with the rest that tells origins; undefined for an action of which nothing can be told. */
export function originsOf({ knowledge, checks, contractLiterals }: EvaluationContext): Origins | undefined {
  return knowledge?.hasPrompt === true ? { knowledge, checks, contractLiterals } : undefined;
}

/** Lists the arguments of an action on which a rule fires, in the rule's order. */
export function untrustedArguments(spec: ProvenanceSpec, context: EvaluationContext): readonly ArgumentOrigin[] {
  const origins = originsOf(context);
  const { arguments: args, checks } = context;
  if (origins === undefined || args === undefined) return [];
  return spec.arguments.flatMap((argument, index): readonly ArgumentOrigin[] => {
    const named = `\`${argument.path}\` (${argument.kind})`;
    const reading = checks.provenance.read(argument, args);
    if (reading === undefined) {
      return [
        { index, argument, code: TOO_LONG, message: `${named} has more values than are looked for, so the rule fires` },
      ];
    }
    if (reading.hasUnreadable) {
      const message = `${named} has a value that cannot be read as its kind, so the rule fires`;
      return [{ index, argument, code: "PROVENANCE_UNREADABLE", message }];
    }
    const firing = reading.values.filter((value) => firesOn(value, argument, spec, origins));
    if (firing.length === 0) return [];
    if (checks.provenance.hasLeftOut) {
      return [
        { index, argument, code: TOO_LONG, message: `${named} takes too many looks into lists, so the rule fires` },
      ];
    }
    const code = spec.fires === "seen_untrusted" ? "PROVENANCE_SEEN_UNTRUSTED" : "PROVENANCE_NOT_TRUSTED";
    const share = reading.values.length > 1 ? `${firing.length} of the ${reading.values.length} values of ` : "";
    const were = share !== "" && firing.length > 1 ? "were" : "was";
    const message = `${share}${named} ${were} ${toldOrigin(firing, spec, origins)}; not ${sourcesText(spec.trusted)}`;
    return [{ index, argument, code, message }];
  });
}

/** Tests whether a rule fires on a value. Once a session left values out, any may have been seen. */
export function firesOn(
  value: SoughtValue,
  { kind }: SoughtArgument,
  { trusted, fires }: ProvenanceSpec,
  origins: Origins,
): boolean {
  if (fires === "seen_untrusted" && !origins.knowledge.isFull && !isSeenIn("untrusted", value, origins)) return false;
  return !isTrusted(value, kind, trusted, origins);
}

function toldOrigin(values: readonly SoughtValue[], { fires }: ProvenanceSpec, origins: Origins): string {
  const sightings = sightingsOf(values, origins);
  if (sightings.length > 0 || fires === "not_trusted" || !origins.knowledge.isFull)
    return `seen ${seenText(sightings)}`;
  return "perhaps seen in a result that the session no longer has room for";
}
