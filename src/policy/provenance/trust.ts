import type { ObservedSource, SessionKnowledge, ValueKind } from "../../provenance/sources.ts";
import { fold } from "../../text/fold.ts";
import type { EvaluationContext } from "../types.ts";
import type { SoughtValue } from "./argument-values.ts";

/** Sources of a session, and those that a person or a plan gave, by their names in rules. */
export const SOURCE_NAMES = ["prompt", "lookup", "session", "contract", "approved"] as const;

/** A source that a rule trusts. */
export type TrustedSource =
  | { readonly kind: (typeof SOURCE_NAMES)[number] }
  | {
      readonly kind: "list";
      readonly name: string;
      /** Kinds of values for which the list counts; undefined for all. */
      readonly kinds: ReadonlySet<ValueKind> | undefined;
    };

/** Parts of an action that tell where its values come from. */
export type Origins = Pick<EvaluationContext, "checks" | "contractLiterals"> & { readonly knowledge: SessionKnowledge };

/** Maximum characters of a text that is looked up in a list, whose values are shorter: an address may have a name. */
const MAX_LISTED = 1_024;

/** Tests a form of a value. */
type FormTest = (form: string) => boolean;

/** Tests whether a value stands in trusted sources: as a whole, with each of its parts, or with a folder above it. */
export function isTrusted(
  value: SoughtValue,
  kind: ValueKind,
  trusted: readonly TrustedSource[],
  origins: Origins,
): boolean {
  const tests = trusted.flatMap((source) => testOf(source, kind, origins) ?? []);
  const isIn = (form: string): boolean => tests.some((test) => test(form));
  const { whole, parts, folders, text } = value;
  if (whole.some(isIn) || (parts.length > 0 && parts.every(isIn))) return true;
  if (
    folders.some((form) =>
      trusted.some((source) => source.kind !== "approved" && testOf(source, kind, origins)?.(form)),
    )
  )
    return true;
  return trusted.some((source) => source.kind === "list" && isListed(source, kind, text, origins));
}

function testOf(source: TrustedSource, kind: ValueKind, origins: Origins): FormTest | undefined {
  const { checks, knowledge, contractLiterals } = origins;
  switch (source.kind) {
    case "list":
      return (form) => isListed(source, kind, form, origins);
    case "approved":
      return (form) => knowledge.isApproved(kind, form);
    case "contract": {
      if (contractLiterals === undefined) return undefined;
      return (form) => checks.provenance.literalForms(kind, contractLiterals).has(form);
    }
    default:
      return (form) => checks.provenance.sightingsOf(knowledge, form).some((each) => each.source === source.kind);
  }
}

function isListed(
  { name, kinds }: TrustedSource & { readonly kind: "list" },
  kind: ValueKind,
  text: string,
  { checks: { lists, provenance } }: Origins,
): boolean {
  if (kinds?.has(kind) === false) return false;
  const list = lists.use(name);
  if (list === undefined || text.length > MAX_LISTED) return false;
  return provenance.isListed(name, text, () => lists.lookUp(list, text, fold(text)) === "listed");
}

/** Tests whether a value, or a part of it, was seen in a source. */
export function isSeenIn(
  source: ObservedSource,
  { whole, parts }: SoughtValue,
  { checks, knowledge }: Origins,
): boolean {
  return [...whole, ...parts].some((form) =>
    checks.provenance.sightingsOf(knowledge, form).some((each) => each.source === source),
  );
}
