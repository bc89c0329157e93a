import { type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { VALUE_KINDS, type ValueKind } from "../../provenance/sources.ts";
import { isJsonObject } from "../json-value.ts";
import { shortened } from "../patterns.ts";
import { SOURCE_NAMES, type TrustedSource } from "../provenance/trust.ts";
import type { RuleDraft } from "./rule-draft.ts";

/** Maximum trusted sources of a rule. */
const MAX_SOURCES = 20;
const LIST_PREFIX = "list:";
const KNOWN = [...SOURCE_NAMES.map((name) => `\`${name}\``), "`list:NAME`"].join(", ");
const KINDS = VALUE_KINDS.map((kind) => `\`${kind}\``).join(", ");

/** Returns the names of the lists that some sources name, whether they compile or not. */
export function trustedLists(trusted: readonly Value[]): readonly string[] {
  return trusted.flatMap((value) => {
    const source = toJson(ValueSchema, value) as JsonValue;
    const name = isJsonObject(source) ? source.list : listName(source);
    return typeof name === "string" && name !== "" ? [name] : [];
  });
}

function listName(source: JsonValue): string | undefined {
  return typeof source === "string" && source.startsWith(LIST_PREFIX) ? source.slice(LIST_PREFIX.length) : undefined;
}

/** Reads the trusted sources of a rule. Notes a violation for each that is unknown or named before. */
export function trustedFrom(draft: RuleDraft): readonly TrustedSource[] {
  const { conditions, path, violations } = draft;
  const at = `${path}.conditions.trusted`;
  const { length } = conditions.trusted;
  if (length === 0) violations.add(at, "SOURCES_MISSING", `the rule needs the sources that it trusts: ${KNOWN}`);
  if (length > MAX_SOURCES) {
    violations.add(at, "LIMIT_OUT_OF_RANGE", `${length} sources are more than ${MAX_SOURCES}`);
  }
  const known = new Set<string>();
  return conditions.trusted.slice(0, MAX_SOURCES).flatMap((value, index) => {
    const source = sourceFrom(draft, toJson(ValueSchema, value) as JsonValue, `${at}[${index}]`);
    if (source === undefined) return [];
    const key = source.kind === "list" ? `${LIST_PREFIX}${source.name}` : source.kind;
    if (known.has(key))
      violations.add(`${at}[${index}]`, "SOURCE_REPEATED", `\`${shortened(key)}\` is named before; name it once`);
    known.add(key);
    return [source];
  });
}

function sourceFrom(draft: RuleDraft, source: JsonValue, at: string): TrustedSource | undefined {
  const { violations } = draft;
  if (typeof source === "string") {
    const list = listName(source);
    if (list !== undefined) return listFrom(draft, list, undefined, at);
    const kind = SOURCE_NAMES.find((name) => name === source);
    if (kind !== undefined) return { kind };
    const message = `there is no source \`${shortened(source)}\`; a source is one of ${KNOWN}`;
    violations.add(at, "SOURCE_UNKNOWN", message, violations.budget.nearest(source, SOURCE_NAMES));
    return undefined;
  }
  if (!isJsonObject(source) || typeof source.list !== "string") {
    const message = `a source is one of ${KNOWN}, or an object such as \`{"list": "partners", "kinds": ["destination"]}\``;
    violations.add(at, "SOURCE_UNKNOWN", message);
    return undefined;
  }
  const unknown = Object.keys(source).find((name) => name !== "list" && name !== "kinds");
  if (unknown !== undefined) {
    const message = `a list has no \`${shortened(unknown)}\`; it has \`list\` and \`kinds\``;
    violations.add(
      `${at}.${shortened(unknown)}`,
      "SOURCE_UNKNOWN",
      message,
      violations.budget.nearest(unknown, ["list", "kinds"]),
    );
  }
  const kinds = source.kinds === undefined ? undefined : kindsFrom(draft, source.kinds, `${at}.kinds`);
  return listFrom(draft, source.list, kinds, at);
}

function listFrom(
  { lists, violations }: RuleDraft,
  name: string,
  kinds: ReadonlySet<ValueKind> | undefined,
  at: string,
): TrustedSource {
  if (lists.get(name) === undefined) {
    const message = `there is no list \`${shortened(name)}\`; create it first`;
    violations.add(at, "LIST_NOT_FOUND", message, violations.budget.nearest(name, lists.names()));
  }
  return { kind: "list", name, kinds };
}

function kindsFrom({ violations }: RuleDraft, given: JsonValue, at: string): ReadonlySet<ValueKind> {
  const kinds = new Set<ValueKind>();
  if (!Array.isArray(given) || given.length === 0) {
    violations.add(at, "KIND_UNKNOWN", `\`kinds\` is a list of kinds: ${KINDS}; leave it out for all of them`);
    return kinds;
  }
  for (const [index, each] of given.slice(0, VALUE_KINDS.length + 1).entries()) {
    const kind = VALUE_KINDS.find((known) => known === each);
    if (kind !== undefined) kinds.add(kind);
    else {
      const text = typeof each === "string" ? each : JSON.stringify(each);
      const message = `there is no kind \`${shortened(text)}\`; a kind is one of ${KINDS}`;
      violations.add(`${at}[${index}]`, "KIND_UNKNOWN", message, violations.budget.nearest(text, VALUE_KINDS));
    }
  }
  return kinds;
}
