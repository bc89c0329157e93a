import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { FieldViolation } from "../../errors.ts";
import {
  ANY_TYPE,
  ARRAY,
  isJsonObject,
  maskFromTypes,
  OBJECT,
  ownValue,
  type TypeMask,
  typeBit,
  typesFromMask,
} from "../json-value.ts";
import type { FlattenedArgument, FlattenResult } from "../types.ts";
import { elementPath, memberPath } from "./argument-path.ts";
import {
  createRefResolver,
  type Dialect,
  dialectOf,
  metaSchemaViolations,
  REF_KEYWORDS,
  type RefResolver,
  refViolations,
  SCHEMA_LIMITS,
  type SchemaViolationReason,
  schemaViolation,
  sizeViolations,
} from "./check.ts";
import { ANY_SHAPE, type Bounds, intersect, type SchemaReference, type Shape, settledTypes, unite } from "./shape.ts";

const REFUSAL: Readonly<Partial<Record<SchemaViolationReason, string>>> = {
  SCHEMA_TOO_COMPLEX: `takes more than ${SCHEMA_LIMITS.visits} steps to unfold; use fewer nested \`$ref\` and \`allOf\``,
  SCHEMA_TOO_DEEP: `has an argument deeper than ${SCHEMA_LIMITS.depth} levels`,
  TOO_MANY_PATHS: `has more than ${SCHEMA_LIMITS.paths} argument paths`,
  NOT_AN_OBJECT_SCHEMA: "does not admit an object, which a tool's arguments are",
};

/**
 * Flattens a tool's JSON Schema (draft-07 or 2020-12) into argument paths, sorted by path. A recursive schema is unfolded
 * twice, or less if that exceeds the limits. MUST NOT throw; everything wrong with the schema comes back together.
 */
export function flattenSchema(schema: JsonObject): FlattenResult {
  const tooLarge = sizeViolations(schema);
  if (tooLarge.length > 0) return invalid(tooLarge);
  const dialect = dialectOf(schema);
  if (dialect === undefined) {
    return invalid([schemaViolation("DIALECT_UNKNOWN", "names neither draft-07 nor 2020-12", ["$schema"])]);
  }
  const resolve = createRefResolver(schema);
  const violations = [...metaSchemaViolations(schema, dialect), ...refViolations(schema, resolve)];
  if (violations.length > 0) return invalid(violations);
  let refusal: SchemaViolationReason = "SCHEMA_TOO_COMPLEX";
  for (let recursion: number = SCHEMA_LIMITS.recursion; recursion >= 0; recursion--) {
    const unfolded = unfoldSchema(schema, dialect, resolve, recursion);
    const flattened = typeof unfolded === "string" ? unfolded : argumentsOf(unfolded);
    if (typeof flattened !== "string") return { kind: "flattened", arguments: flattened };
    refusal = flattened;
  }
  return invalid([schemaViolation(refusal, REFUSAL[refusal] ?? "is refused")]);
}

function invalid(violations: readonly FieldViolation[]): FlattenResult {
  return {
    kind: "invalid",
    violations: violations.toSorted((a, b) => (a.field < b.field ? -1 : a.field > b.field ? 1 : 0)),
  };
}

function argumentsOf(root: Shape): readonly FlattenedArgument[] | SchemaViolationReason {
  if ((settledTypes(root) & OBJECT) === 0) return "NOT_AN_OBJECT_SCHEMA";
  const found: FlattenedArgument[] = [];
  // Arguments are always an object, even if the schema admits other types.
  collect({ ...root, types: OBJECT }, "", true, found);
  if (found.length > SCHEMA_LIMITS.paths) return "TOO_MANY_PATHS";
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function collect(shape: Shape, path: string, required: boolean, found: FlattenedArgument[]): void {
  const types = settledTypes(shape);
  const below = (reference: SchemaReference, at: string, always: boolean): void => {
    if (found.length > SCHEMA_LIMITS.paths) return;
    found.push(argumentFrom(reference.shape, at, always));
    collect(reference.shape, at, always, found);
  };
  for (const [name, reference] of shape.members) {
    below(reference, memberPath(path, name), required && types === OBJECT && shape.required.has(name));
  }
  if (path !== "" && shape.element !== undefined) {
    below(shape.element, elementPath(path), required && types === ARRAY && shape.hasElement);
  }
}

function argumentFrom(shape: Shape, path: string, required: boolean): FlattenedArgument {
  return {
    path,
    types: typesFromMask(settledTypes(shape)),
    required,
    enum: shape.enum ?? [],
    ...boundsFrom(shape),
    ...(shape.pattern !== undefined && { pattern: shape.pattern }),
    ...(shape.format !== undefined && { format: shape.format }),
    ...(shape.description !== undefined && { description: shape.description }),
  };
}

function boundsFrom(bounds: Bounds): Partial<Pick<FlattenedArgument, keyof Bounds>> {
  return {
    ...(bounds.minimum !== undefined && { minimum: bounds.minimum }),
    ...(bounds.maximum !== undefined && { maximum: bounds.maximum }),
    ...(bounds.exclusiveMinimum !== undefined && { exclusiveMinimum: bounds.exclusiveMinimum }),
    ...(bounds.exclusiveMaximum !== undefined && { exclusiveMaximum: bounds.exclusiveMaximum }),
  };
}

/** Position of unfolding in the schema. */
interface Place {
  readonly depth: number;
  /** Pointers of the definitions being unfolded on the way here. */
  readonly open: ReadonlySet<string>;
  /** Times that the way here led back into one of them. */
  readonly reentries: number;
}

/** Unfolds a schema into one shape, or returns why it cannot be unfolded within the limits. */
function unfoldSchema(
  root: JsonObject,
  dialect: Dialect,
  resolve: RefResolver,
  recursion: number,
): Shape | SchemaViolationReason {
  const unfolding = new Unfolding(dialect, resolve, recursion);
  const shape = unfolding.shapeOf(root, { depth: 0, open: new Set([""]), reentries: 0 });
  return unfolding.refusal ?? shape;
}

class Unfolding {
  refusal: SchemaViolationReason | undefined;
  #visits = 0;
  readonly #dialect: Dialect;
  readonly #resolve: RefResolver;
  /** Times that one path may lead back into a definition. */
  readonly #recursion: number;

  constructor(dialect: Dialect, resolve: RefResolver, recursion: number) {
    this.#dialect = dialect;
    this.#resolve = resolve;
    this.#recursion = recursion;
  }

  shapeOf(schema: JsonValue | undefined, place: Place): Shape {
    if (schema === false) return { ...ANY_SHAPE, types: 0 };
    if (!isJsonObject(schema) || !this.#enter(place)) return ANY_SHAPE;
    if (this.#dialect === "draft-07" && typeof ownValue(schema, "$ref") === "string") {
      return intersect({ ...ANY_SHAPE, description: textOf(schema, "description") }, this.#referred(schema, place));
    }
    const parts = [this.#ownShape(schema, place), this.#referred(schema, place)];
    for (const part of listOf(schema, "allOf")) parts.push(this.shapeOf(part, place));
    for (const key of ["anyOf", "oneOf"]) {
      const choices = listOf(schema, key);
      if (choices.length > 0) parts.push(unite(choices.map((choice) => this.shapeOf(choice, place))));
    }
    parts.push(...this.#conditional(schema, place));
    return parts.reduce(intersect);
  }

  #enter(place: Place): boolean {
    if (this.refusal !== undefined) return false;
    if (++this.#visits > SCHEMA_LIMITS.visits) this.refusal = "SCHEMA_TOO_COMPLEX";
    else if (place.depth > SCHEMA_LIMITS.depth && place.reentries === 0) this.refusal = "SCHEMA_TOO_DEEP";
    return this.refusal === undefined && place.depth <= SCHEMA_LIMITS.depth;
  }

  #referred(schema: JsonObject, place: Place): Shape {
    return REF_KEYWORDS.map((keyword) => textOf(schema, keyword))
      .map((ref) => (ref === undefined ? ANY_SHAPE : this.#target(ref, place)))
      .reduce(intersect);
  }

  #target(ref: string, place: Place): Shape {
    const found = this.#resolve(ref);
    if (found === undefined) return ANY_SHAPE;
    if (!place.open.has(found.pointer)) {
      return this.shapeOf(found.schema, { ...place, open: new Set([...place.open, found.pointer]) });
    }
    if (place.reentries >= this.#recursion) return leafShape(found.schema);
    return this.shapeOf(found.schema, { ...place, reentries: place.reentries + 1 });
  }

  #conditional(schema: JsonObject, place: Place): readonly Shape[] {
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

  #ownShape(schema: JsonObject, place: Place): Shape {
    const below = { ...place, depth: place.depth + 1 };
    const members = new Map<string, SchemaReference>();
    const properties = mapOf(schema, "properties");
    for (const name of Object.keys(properties)) {
      members.set(name, { shape: this.shapeOf(properties[name], below), isOpen: false });
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
      element: this.#element(schema, below),
      hasElement: (numberOf(schema, "minItems") ?? 0) >= 1,
    };
  }

  #element(schema: JsonObject, below: Place): SchemaReference | undefined {
    const items = ownValue(schema, "items");
    const fixed = Array.isArray(items) ? items : listOf(schema, "prefixItems");
    const rest = Array.isArray(items) ? ownValue(schema, "additionalItems") : items;
    if (fixed.length === 0 && rest === undefined) return undefined;
    const shapes = fixed.map((item) => this.shapeOf(item, below));
    if (rest !== false || shapes.length === 0) shapes.push(this.shapeOf(rest, below));
    return { shape: unite(shapes), isOpen: false };
  }
}

/** Cuts a recursive definition to its types and description. */
function leafShape(schema: JsonValue): Shape {
  if (!isJsonObject(schema)) return ANY_SHAPE;
  const types = ownTypes(schema);
  const inferred = types === ANY_TYPE && ownValue(schema, "properties") !== undefined ? OBJECT : types;
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
