import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { FieldViolation } from "../errors.ts";
import { isJsonObject, ownValue } from "./json-type.ts";
import { fieldFrom } from "./schema-violation.ts";

/** Finds what a `$ref` leads to within its own document; undefined when it leads nowhere. */
export type RefResolver = (ref: string) => { readonly pointer: string; readonly schema: JsonValue } | undefined;

const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const MAPS = ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"];
const SINGLES = [
  "items",
  "additionalItems",
  "additionalProperties",
  "unevaluatedItems",
  "unevaluatedProperties",
  "contains",
  "propertyNames",
  "not",
  "if",
  "then",
  "else",
];

/** The keywords that lead to another schema by its address. */
export const REF_KEYWORDS = ["$ref", "$dynamicRef"] as const;

/** Calls `visit` with every schema under a schema, itself first, each once, with its path in the document. */
export function visitSchemas(
  root: JsonObject,
  visit: (schema: JsonObject, path: readonly string[]) => void,
  resolve?: RefResolver,
): void {
  const seen = new Set<JsonObject>();
  const waiting: [JsonValue | undefined, readonly string[]][] = [[root, []]];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [schema, path] = next;
    if (!isJsonObject(schema) || seen.has(schema)) continue;
    seen.add(schema);
    visit(schema, path);
    waiting.push(...children(schema, path));
    if (resolve !== undefined) waiting.push(...targets(schema, resolve));
  }
}

function children(schema: JsonObject, path: readonly string[]): [JsonValue | undefined, readonly string[]][] {
  const found: [JsonValue | undefined, readonly string[]][] = SINGLES.map((key) => [
    ownValue(schema, key),
    [...path, key],
  ]);
  for (const key of LISTS) {
    const list = ownValue(schema, key);
    if (Array.isArray(list)) list.forEach((item, index) => void found.push([item, [...path, key, `${index}`]]));
  }
  for (const key of MAPS) {
    const map = ownValue(schema, key);
    if (isJsonObject(map)) for (const name of Object.keys(map)) found.push([map[name], [...path, key, name]]);
  }
  return found;
}

function targets(schema: JsonObject, resolve: RefResolver): [JsonValue | undefined, readonly string[]][] {
  return REF_KEYWORDS.flatMap((keyword) => {
    const ref = ownValue(schema, keyword);
    const target = typeof ref === "string" ? resolve(ref) : undefined;
    return target === undefined ? [] : [[target.schema, target.pointer.split("/").slice(1)]];
  });
}

/** Builds the resolver of a document: JSON pointers, anchors and the document's own `$id`. */
export function createRefResolver(root: JsonObject): RefResolver {
  const anchors = new Map<string, { pointer: string; schema: JsonValue }>();
  visitSchemas(root, (schema, path) => {
    for (const keyword of ["$anchor", "$dynamicAnchor", "$id"]) {
      const name = ownValue(schema, keyword);
      const anchor = typeof name === "string" && keyword === "$id" ? anchorFromId(name) : name;
      if (typeof anchor === "string" && !anchors.has(anchor))
        anchors.set(anchor, { pointer: pointerFrom(path), schema });
    }
  });
  const own = ownValue(root, "$id");
  return (ref) => {
    const fragment = localFragment(ref, typeof own === "string" ? own : undefined);
    if (fragment === undefined) return undefined;
    return anchors.get(fragment) ?? pointed(root, fragment);
  };
}

/** Every `$ref` that leaves the document or leads nowhere in it. */
export function refViolations(root: JsonObject, resolve: RefResolver): readonly FieldViolation[] {
  const violations: FieldViolation[] = [];
  const own = ownValue(root, "$id");
  const visit = (schema: JsonObject, path: readonly string[]): void => {
    for (const keyword of REF_KEYWORDS) {
      const ref = ownValue(schema, keyword);
      if (typeof ref !== "string" || resolve(ref) !== undefined) continue;
      const isRemote = localFragment(ref, typeof own === "string" ? own : undefined) === undefined;
      violations.push({
        field: fieldFrom([...path, keyword]),
        reason: isRemote ? "REF_REMOTE" : "REF_UNRESOLVED",
        description: isRemote
          ? `leads out of the schema to \`${ref}\`; copy what it needs into \`$defs\``
          : `leads to \`${ref}\`, which the schema does not contain`,
      });
    }
  };
  visitSchemas(root, visit, resolve);
  return violations;
}

function anchorFromId(id: string): string | undefined {
  return id.startsWith("#") && id.length > 1 ? id.slice(1) : undefined;
}

function localFragment(ref: string, own: string | undefined): string | undefined {
  const hash = ref.indexOf("#");
  const document = hash === -1 ? ref : ref.slice(0, hash);
  if (document !== "" && document !== own?.replace(/#$/, "")) return undefined;
  try {
    return hash === -1 ? "" : decodeURIComponent(ref.slice(hash + 1));
  } catch {
    return ref.slice(hash + 1);
  }
}

function pointed(root: JsonObject, fragment: string): { pointer: string; schema: JsonValue } | undefined {
  if (fragment === "") return { pointer: "", schema: root };
  if (!fragment.startsWith("/")) return undefined;
  let value: JsonValue | undefined = root;
  for (const step of fragment.slice(1).split("/")) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) value = /^\d+$/.test(name) ? value[Number(name)] : undefined;
    else value = isJsonObject(value) ? ownValue(value, name) : undefined;
  }
  return isJsonObject(value) || typeof value === "boolean" ? { pointer: fragment, schema: value } : undefined;
}

function pointerFrom(path: readonly string[]): string {
  return path.map((step) => `/${step.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}
