import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { ANY_TYPE, isJsonObject, maskFromTypes, ownValue, type TypeMask, typeBit, typesFromMask } from "./json-type.ts";
import type { Dialect } from "./schema-check.ts";
import { SCHEMA_LIMITS } from "./schema-limits.ts";
import { REF_KEYWORDS, type RefResolver } from "./schema-refs.ts";
import { ANY_SHAPE, intersect, type Mention, type Shape, unite } from "./schema-shape.ts";
import type { SchemaViolationReason } from "./schema-violation.ts";

/** What unfolding gives: the shape of the arguments, or why the schema cannot be unfolded within the limits. */
export type UnfoldResult =
  | { readonly kind: "unfolded"; readonly shape: Shape }
  | { readonly kind: "refused"; readonly reason: SchemaViolationReason };

/** Where unfolding stands: how deep, and which definitions are open on the way here. */
interface Place {
  readonly depth: number;
  readonly open: ReadonlySet<string>;
  readonly reentries: number;
}

/** Unfolds a schema into one shape. `recursion` is how often a path may lead back into a definition. */
export function unfoldSchema(
  root: JsonObject,
  dialect: Dialect,
  resolve: RefResolver,
  recursion: number,
): UnfoldResult {
  const unfolding = new Unfolding(dialect, resolve, recursion);
  const shape = unfolding.shapeOf(root, { depth: 0, open: new Set([""]), reentries: 0 });
  return unfolding.refusal === undefined ? { kind: "unfolded", shape } : { kind: "refused", reason: unfolding.refusal };
}

class Unfolding {
  refusal: SchemaViolationReason | undefined;
  private visits = 0;
  private readonly dialect: Dialect;
  private readonly resolve: RefResolver;
  private readonly recursion: number;

  constructor(dialect: Dialect, resolve: RefResolver, recursion: number) {
    this.dialect = dialect;
    this.resolve = resolve;
    this.recursion = recursion;
  }

  shapeOf(schema: JsonValue | undefined, place: Place): Shape {
    if (schema === false) return { ...ANY_SHAPE, types: 0 };
    if (!isJsonObject(schema) || !this.enter(place)) return ANY_SHAPE;
    if (this.dialect === "draft-07" && typeof ownValue(schema, "$ref") === "string") {
      return intersect({ ...ANY_SHAPE, description: textOf(schema, "description") }, this.referred(schema, place));
    }
    const parts = [this.ownShape(schema, place), this.referred(schema, place)];
    for (const part of listOf(schema, "allOf")) parts.push(this.shapeOf(part, place));
    for (const key of ["anyOf", "oneOf"]) {
      const choices = listOf(schema, key);
      if (choices.length > 0) parts.push(unite(choices.map((choice) => this.shapeOf(choice, place))));
    }
    parts.push(...this.conditional(schema, place));
    return parts.reduce(intersect);
  }

  private enter(place: Place): boolean {
    if (this.refusal !== undefined) return false;
    if (++this.visits > SCHEMA_LIMITS.visits) this.refusal = "SCHEMA_TOO_COMPLEX";
    else if (place.depth > SCHEMA_LIMITS.depth && place.reentries === 0) this.refusal = "SCHEMA_TOO_DEEP";
    return this.refusal === undefined && place.depth <= SCHEMA_LIMITS.depth;
  }

  private referred(schema: JsonObject, place: Place): Shape {
    return REF_KEYWORDS.map((keyword) => textOf(schema, keyword))
      .map((ref) => (ref === undefined ? ANY_SHAPE : this.target(ref, place)))
      .reduce(intersect);
  }

  private target(ref: string, place: Place): Shape {
    const found = this.resolve(ref);
    if (found === undefined) return ANY_SHAPE;
    if (!place.open.has(found.pointer)) {
      return this.shapeOf(found.schema, { ...place, open: new Set([...place.open, found.pointer]) });
    }
    if (place.reentries >= this.recursion) return leafShape(found.schema);
    return this.shapeOf(found.schema, { ...place, reentries: place.reentries + 1 });
  }

  private conditional(schema: JsonObject, place: Place): readonly Shape[] {
    const parts: Shape[] = [];
    const [then, otherwise] = [ownValue(schema, "then"), ownValue(schema, "else")];
    if (ownValue(schema, "if") !== undefined && (then ?? otherwise) !== undefined) {
      parts.push(unite([this.shapeOf(then, place), this.shapeOf(otherwise, place)]));
    }
    for (const key of ["dependentSchemas", "dependencies"]) {
      for (const dependent of Object.values(mapOf(schema, key))) {
        if (isJsonObject(dependent)) parts.push(unite([this.shapeOf(dependent, place), ANY_SHAPE]));
      }
    }
    return parts;
  }

  private ownShape(schema: JsonObject, place: Place): Shape {
    const below = { ...place, depth: place.depth + 1 };
    const members = new Map<string, Mention>();
    const properties = mapOf(schema, "properties");
    for (const name of Object.keys(properties)) {
      members.set(name, { shape: this.shapeOf(properties[name], below), weak: false });
    }
    return {
      types: ownTypes(schema),
      enum: ownEnum(schema),
      minimum: numberOf(schema, "minimum"),
      maximum: numberOf(schema, "maximum"),
      exclusiveMinimum: numberOf(schema, "exclusiveMinimum"),
      exclusiveMaximum: numberOf(schema, "exclusiveMaximum"),
      pattern: textOf(schema, "pattern"),
      format: textOf(schema, "format"),
      description: textOf(schema, "description"),
      required: new Set(listOf(schema, "required").filter((name) => typeof name === "string")),
      members,
      element: this.element(schema, below),
      hasElement: (numberOf(schema, "minItems") ?? 0) >= 1,
    };
  }

  private element(schema: JsonObject, below: Place): Mention | undefined {
    const items = ownValue(schema, "items");
    const fixed = Array.isArray(items) ? items : listOf(schema, "prefixItems");
    const rest = Array.isArray(items) ? ownValue(schema, "additionalItems") : items;
    if (fixed.length === 0 && rest === undefined) return undefined;
    const shapes = fixed.map((item) => this.shapeOf(item, below));
    if (rest !== false || shapes.length === 0) shapes.push(this.shapeOf(rest, below));
    return { shape: unite(shapes), weak: false };
  }
}

// What is left of a definition where recursion is cut: its types, without its members.
function leafShape(schema: JsonValue): Shape {
  if (!isJsonObject(schema)) return ANY_SHAPE;
  const types = ownTypes(schema);
  const inferred =
    types === ANY_TYPE && ownValue(schema, "properties") !== undefined ? maskFromTypes(["object"]) : types;
  return { ...ANY_SHAPE, types: inferred, description: textOf(schema, "description") };
}

function ownTypes(schema: JsonObject): TypeMask {
  const type = ownValue(schema, "type");
  if (typeof type === "string") return maskFromTypes([type]);
  if (Array.isArray(type)) return maskFromTypes(type);
  const values = ownEnum(schema);
  if (values === undefined) return ANY_TYPE;
  return maskFromTypes(values.flatMap((value) => typesFromMask(typeBit(value))));
}

function ownEnum(schema: JsonObject): readonly JsonValue[] | undefined {
  const fixed = ownValue(schema, "const");
  if (fixed !== undefined) return [fixed];
  const values = ownValue(schema, "enum");
  return Array.isArray(values) ? values : undefined;
}

function listOf(schema: JsonObject, key: string): readonly JsonValue[] {
  const list = ownValue(schema, key);
  return Array.isArray(list) ? list : [];
}

function mapOf(schema: JsonObject, key: string): JsonObject {
  const map = ownValue(schema, key);
  return isJsonObject(map) ? map : {};
}

function textOf(schema: JsonObject, key: string): string | undefined {
  const text = ownValue(schema, key);
  return typeof text === "string" ? text : undefined;
}

function numberOf(schema: JsonObject, key: string): number | undefined {
  const number = ownValue(schema, key);
  return typeof number === "number" ? number : undefined;
}
