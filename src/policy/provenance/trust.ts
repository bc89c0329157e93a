import type { ObservedSource, SessionKnowledge, ValueKind } from "../../provenance/sources.ts";
import { fold, trimmedText } from "../../text/fold.ts";
import { hostForm } from "../../text/hosts.ts";
import type { ListKind } from "../lists/kinds.ts";
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

/** Tests a form of a value, or of the part that is `written` so. */
type FormTest = (form: string, written: string) => boolean;

/** Tests whether a value stands in trusted sources: as a whole, with each of its parts, or with a folder above it. */
export function isTrusted(
  value: SoughtValue,
  kind: ValueKind,
  trusted: readonly TrustedSource[],
  origins: Origins,
): boolean {
  const tests = trusted.flatMap((source) => testOf(source, kind, origins) ?? []);
  const { whole, parts, folders, text } = value;
  if (whole.some((form) => tests.some((test) => test(form, text)))) return true;
  if (parts.length > 0 && parts.every((part) => tests.some((test) => test(part, part)))) return true;
  if (
    folders.some((form) =>
      trusted.some((source) => source.kind !== "approved" && testOf(source, kind, origins)?.(form, form)),
    )
  )
    return true;
  return trusted.some((source) => source.kind === "list" && isListed(source, kind, text, text, origins));
}

function testOf(source: TrustedSource, kind: ValueKind, origins: Origins): FormTest | undefined {
  const { checks, knowledge, contractLiterals } = origins;
  switch (source.kind) {
    case "list":
      return (form, written) => isListed(source, kind, form, written, origins);
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
  form: string,
  written: string,
  { checks: { lists, provenance } }: Origins,
): boolean {
  if (kinds?.has(kind) === false) return false;
  const list = lists.use(name);
  if (list === undefined || form.length > MAX_LISTED || !isTakenBy(list.kind, kind, written)) return false;
  return provenance.isListed(name, form, () => lists.lookUp(list, form, fold(form)) === "listed");
}

/** Blanks, and signs around an address. */
const AROUND_ONE = /[\s\p{Cc}<>"]/u;
const URL_START = /^[a-z][a-z0-9+.-]*:\/\//iu;

/**
 * Tests whether a list takes a value as it is written. Lists of texts take any; those of hosts and domains one host or address with
 * nothing around it, since a program might read that as the value; and a URL, which names more than its host, only for kinds that
 * hold one.
 */
function isTakenBy(list: ListKind, kind: ValueKind, written: string): boolean {
  if (list === "text") return true;
  const one = trimmedText(written);
  if (kind === "path" || kind === "number" || AROUND_ONE.test(one)) return false;
  if (list === "email_domain" || kind === "host") return true;
  return hostForm(one) !== undefined || (kind === "resource" && URL_START.test(one));
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
