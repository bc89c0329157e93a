import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { naiveListed } from "../../src/dryrun/naive/naive-lists.ts";
import { trimmed } from "../../src/dryrun/naive/naive-patterns.ts";
import type { NamedList } from "../../src/policy/lists/named-list.ts";
import type { ArgumentValue, readArgument } from "../../src/provenance/read-argument.ts";
import type { ObservedSource, ValueKind } from "../../src/provenance/sources.ts";

/*
 * Provenance rules once more, from plain lists of what was seen. How single values are read is given: as the compiled rules read
 * them, or as `readNaively` does.
 */

/** A provenance rule as it is written. */
export interface NaiveProvenanceRule {
  readonly arguments: readonly { readonly path: string; readonly kind: ValueKind }[];
  readonly trusted: readonly (string | { readonly list: string; readonly kinds?: readonly ValueKind[] })[];
  readonly fires?: "not_trusted" | "seen_untrusted";
}

/** Everything that was observed, value by value. */
export interface NaiveKnowledge {
  readonly hasPrompt: boolean;
  readonly isFull: boolean;
  readonly seen: readonly { readonly source: ObservedSource; readonly form: string }[];
  readonly approved: readonly { readonly kind: ValueKind; readonly form: string }[];
  /** Values that intent contracts name. */
  readonly literals: readonly JsonValue[];
}

/** The part of the surroundings that the rules are judged in. */
export interface NaiveSurroundings {
  readonly knowledge: NaiveKnowledge | undefined;
  readonly listOf: (name: string) => NamedList | undefined;
  readonly read: typeof readArgument;
}

/** Lists the paths of a rule's arguments on which it fires. The schema MUST have plain types and no references. */
export function naiveUntrusted(
  rule: NaiveProvenanceRule,
  schema: JsonObject,
  args: JsonObject | undefined,
  around: NaiveSurroundings,
): readonly string[] {
  if (around.knowledge?.hasPrompt !== true || args === undefined) return [];
  const paths: string[] = [];
  for (const { path, kind } of rule.arguments) {
    const found = valuesAt(args, schema, path.replaceAll("[]", ".[]").split("."));
    const reads = found.map((value) => ({ value, read: value === WRONG ? undefined : around.read(kind, value) }));
    const isUnreadable = reads.some(({ read }) => read === undefined || read.kind === "unreadable");
    const fires = reads.some(
      ({ value, read }) => read?.kind === "value" && firesOn(rule, kind, String(value), read.value, around),
    );
    if (isUnreadable || fires) paths.push(path);
  }
  return paths;
}

/** Stands for a value whose place needs another shape. */
const WRONG = { wrong: true } as const;
const EMPTY_TEXTS = ["", "none", "null"];

function valuesAt(value: JsonValue | undefined, schema: JsonObject, [step, ...rest]: readonly string[]): JsonValue[] {
  if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) return [];
  const choices = [schema, ...((schema.anyOf ?? []) as JsonObject[])];
  if (choices.some((each) => JSON.stringify(each.default) === JSON.stringify(value))) return [];
  const isEmptyText = typeof value === "string" && EMPTY_TEXTS.includes(value.trim().toLowerCase());
  const types = [schema.type].flat();
  const isScalar = typeof value !== "object";
  if (step === undefined) {
    if (!Array.isArray(value)) return isScalar ? [value] : [WRONG];
    return types.includes("array")
      ? value.map((each) => (typeof each === "object" && each !== null ? WRONG : each))
      : [WRONG];
  }
  if (step === "[]") {
    const items = (schema.items ?? {}) as JsonObject;
    if (Array.isArray(value)) return value.flatMap((each) => valuesAt(each, items, rest));
    const isAdmitted = types.includes(typeof value) || (Number.isInteger(value) && types.includes("integer"));
    if (isScalar && isAdmitted) return valuesAt(value, items, rest);
    return isEmptyText ? [] : [WRONG];
  }
  if (isScalar || Array.isArray(value)) return isEmptyText ? [] : [WRONG];
  const member = Object.entries(value).find(([name]) => name === step)?.[1];
  return valuesAt(member, ((schema.properties as JsonObject)[step] ?? {}) as JsonObject, rest);
}

function firesOn(
  { trusted, fires = "not_trusted" }: NaiveProvenanceRule,
  kind: ValueKind,
  text: string,
  { whole, parts, folders }: ArgumentValue,
  { knowledge, listOf, read }: NaiveSurroundings,
): boolean {
  if (knowledge === undefined) return false;
  const formsFrom = (source: string): readonly string[] =>
    knowledge.seen.filter((each) => each.source === source).map(({ form }) => form);
  const untrusted = formsFrom("untrusted");
  const isSeen = knowledge.isFull || [...whole, ...parts].some((form) => untrusted.includes(form));
  if (fires === "seen_untrusted" && !isSeen) return false;
  const known = new Set<string>();
  const lists: NamedList[] = [];
  for (const source of trusted) {
    if (typeof source === "object" && source.kinds !== undefined && !source.kinds.includes(kind)) continue;
    const list = typeof source === "object" ? source.list : /^list:(.*)$/.exec(source)?.[1];
    if (list !== undefined) lists.push(...[listOf(list)].filter((each) => each !== undefined));
    else if (source === "contract") {
      for (const literal of knowledge.literals) {
        const value = read(kind, literal);
        if (value.kind === "value") for (const form of [...value.value.whole, ...value.value.parts]) known.add(form);
      }
    } else for (const form of formsFrom(String(source))) known.add(form);
  }
  const isListed = (form: string, written: string): boolean =>
    lists.some((list) => takes(list.kind, kind, trimmed(written)) && naiveListed(list, form) === true);
  const isApproved = (form: string): boolean =>
    trusted.includes("approved") && knowledge.approved.some((each) => each.kind === kind && each.form === form);
  const isTrusted = (form: string): boolean => known.has(form) || isApproved(form);
  if (isListed(text, text) || whole.some((form) => isTrusted(form) || isListed(form, text))) return false;
  if (parts.length > 0 && parts.every((form) => isTrusted(form) || isListed(form, form))) return false;
  return !folders.some((form) => known.has(form) || isListed(form, form));
}

/** Tests whether a list is for a value of a kind, as it is written: nothing stands around a host, an address or the URL of a resource. */
function takes(list: NamedList["kind"], kind: ValueKind, written: string): boolean {
  if (list === "text") return true;
  const isAlone = [...written].every((sign) => !/[\s\p{Cc}]/u.test(sign) && !['"', "<", ">"].includes(sign));
  const isBare = !/[/?#@]/.test(written) && written.split(":").length !== 2;
  switch (kind) {
    case "path":
    case "number":
      return false;
    case "host":
      return isAlone;
    case "resource":
      return isAlone && (list === "email_domain" || isBare || /^[a-z][^:/?#]*:\/\//i.test(written));
    default:
      return isAlone && (list === "email_domain" || isBare);
  }
}
