import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { FieldViolation } from "../../errors.ts";
import { elementPath, memberPath } from "../../notation/argument-path.ts";
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
import {
  ajvKeywordViolations,
  createRefResolver,
  type Dialect,
  dialectOf,
  metaSchemaViolations,
  patternViolations,
  REF_KEYWORDS,
  type RefResolver,
  refViolations,
  SCHEMA_LIMITS,
  type SchemaViolationReason,
  schemaViolation,
  sizeViolations,
} from "./check.ts";

const REFUSAL: Readonly<Partial<Record<SchemaViolationReason, string>>> = {
  SCHEMA_TOO_COMPLEX: `takes more than ${SCHEMA_LIMITS.visits} steps to unfold; use fewer nested \`$ref\` and \`allOf\``,
  SCHEMA_TOO_DEEP: `has an argument deeper than ${SCHEMA_LIMITS.depth} levels`,
  TOO_MANY_PATHS: `has more than ${SCHEMA_LIMITS.paths} argument paths`,
  NOT_AN_OBJECT_SCHEMA: "does not admit an object, which a tool's arguments are",
};

/** Bounds of a number; undefined for a missing one. */
interface Bounds {
  readonly minimum: number | undefined;
  readonly maximum: number | undefined;
  readonly exclusiveMinimum: number | undefined;
  readonly exclusiveMaximum: number | undefined;
}

/** A member or element that a shape names. */
interface SchemaReference {
  readonly shape: Shape;
  /** True if some alternative of the schema leaves it out, so that it adds paths but no constraint. */
  readonly isOpen: boolean;
}

/** Constraints of a schema on one value, with `$ref`, `allOf`, `anyOf` and the like resolved. */
interface Shape extends Bounds {
  readonly types: TypeMask;
  readonly enum: readonly JsonValue[] | undefined;
  readonly pattern: string | undefined;
  readonly format: string | undefined;
  readonly description: string | undefined;
  readonly required: ReadonlySet<string>;
  readonly members: ReadonlyMap<string, SchemaReference>;
  readonly element: SchemaReference | undefined;
  /** True if an array MUST have an element. */
  readonly hasElement: boolean;
}

/** The shape of a schema that admits everything. */
const ANY_SHAPE: Shape = {
  types: ANY_TYPE,
  enum: undefined,
  minimum: undefined,
  maximum: undefined,
  exclusiveMinimum: undefined,
  exclusiveMaximum: undefined,
  pattern: undefined,
  format: undefined,
  description: undefined,
  required: new Set(),
  members: new Map(),
  element: undefined,
  hasElement: false,
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
  const violations = [
    ...metaSchemaViolations(schema, dialect),
    ...refViolations(schema, resolve),
    ...ajvKeywordViolations(schema, resolve),
    ...patternViolations(schema, resolve),
  ];
  if (violations.length > 0) return invalid(violations);
  let refusal: SchemaViolationReason = "SCHEMA_TOO_COMPLEX";
  for (let recursion: number = SCHEMA_LIMITS.recursion; recursion >= 0; recursion--) {
    const unfolding = new Unfolding(dialect, resolve, recursion);
    const shape = unfolding.shapeOf(schema, { depth: 0, open: new Set([""]), reentries: 0 });
    const flattened = unfolding.refusal ?? argumentsOf(shape);
    if (typeof flattened !== "string") return { kind: "flattened", arguments: flattened };
    refusal = flattened;
    // Less unfolding would give the same.
    if (!unfolding.isRecursive) break;
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
  /** Times that the path to here led back into one of them. */
  readonly reentries: number;
}

/** Unfolds a schema into one shape. */
class Unfolding {
  /** Reason why the schema cannot be unfolded within the limits. */
  refusal: SchemaViolationReason | undefined;
  /** True once a path has led back into a definition. */
  isRecursive = false;
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
    this.isRecursive = true;
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

/** Returns the types of a shape; one that names members or elements and no type is taken for an object or array. */
function settledTypes(shape: Shape): TypeMask {
  if (shape.types !== ANY_TYPE) return shape.types;
  const inferred = (shape.members.size > 0 ? OBJECT : 0) | (shape.element === undefined ? 0 : ARRAY);
  return inferred === 0 ? ANY_TYPE : inferred;
}

/** Builds the shape of values that fit both shapes. */
function intersect(left: Shape, right: Shape): Shape {
  if (left === ANY_SHAPE) return right;
  if (right === ANY_SHAPE) return left;
  return {
    types: left.types & right.types,
    enum: commonValues(left.enum, right.enum),
    minimum: tighter(left.minimum, right.minimum, Math.max),
    maximum: tighter(left.maximum, right.maximum, Math.min),
    exclusiveMinimum: tighter(left.exclusiveMinimum, right.exclusiveMinimum, Math.max),
    exclusiveMaximum: tighter(left.exclusiveMaximum, right.exclusiveMaximum, Math.min),
    pattern: left.pattern ?? right.pattern,
    format: left.format ?? right.format,
    description: left.description ?? right.description,
    required: new Set([...left.required, ...right.required]),
    members: joinMembers(left.members, right.members),
    element: joinReferences(left.element, right.element),
    hasElement: left.hasElement || right.hasElement,
  };
}

/** Builds the shape of values that fit at least one of the shapes. MUST get at least one. */
function unite(shapes: readonly Shape[]): Shape {
  const [first = ANY_SHAPE, ...rest] = shapes;
  if (rest.length === 0) return first;
  const looser = (pick: (shape: Shape) => number | undefined, choose: (a: number, b: number) => number) =>
    shapes.map(pick).reduce((a, b) => (a === undefined || b === undefined ? undefined : choose(a, b)));
  return {
    types: shapes.reduce((mask, shape) => mask | settledTypes(shape), 0),
    enum: unitedValues(shapes),
    minimum: looser((shape) => shape.minimum, Math.min),
    maximum: looser((shape) => shape.maximum, Math.max),
    exclusiveMinimum: looser((shape) => shape.exclusiveMinimum, Math.min),
    exclusiveMaximum: looser((shape) => shape.exclusiveMaximum, Math.max),
    pattern: rest.every((shape) => shape.pattern === first.pattern) ? first.pattern : undefined,
    format: rest.every((shape) => shape.format === first.format) ? first.format : undefined,
    description: shapes.find((shape) => shape.description !== undefined)?.description,
    required: new Set([...first.required].filter((name) => rest.every((shape) => shape.required.has(name)))),
    members: uniteMembers(shapes.filter((shape) => settledTypes(shape) & OBJECT)),
    element: uniteReferences(shapes.filter((shape) => settledTypes(shape) & ARRAY).map((shape) => shape.element)),
    hasElement: shapes.every((shape) => shape.hasElement),
  };
}

function tighter(left: number | undefined, right: number | undefined, choose: (a: number, b: number) => number) {
  return left === undefined || right === undefined ? (left ?? right) : choose(left, right);
}

function commonValues(left: Shape["enum"], right: Shape["enum"]): Shape["enum"] {
  if (left === undefined || right === undefined) return left ?? right;
  const known = new Set(right.map((value) => JSON.stringify(value)));
  return left.filter((value) => known.has(JSON.stringify(value)));
}

function unitedValues(shapes: readonly Shape[]): Shape["enum"] {
  const lists = shapes.map((shape) => shape.enum);
  return lists.includes(undefined) ? undefined : distinct(lists.flatMap((values) => values ?? []));
}

function distinct(values: readonly JsonValue[]): readonly JsonValue[] {
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
}

function joinMembers(left: Shape["members"], right: Shape["members"]): Shape["members"] {
  if (left.size === 0) return right;
  if (right.size === 0) return left;
  const joined = new Map(left);
  for (const [name, reference] of right) {
    const both = joinReferences(joined.get(name), reference);
    if (both !== undefined) joined.set(name, both);
  }
  return joined;
}

function joinReferences(
  left: SchemaReference | undefined,
  right: SchemaReference | undefined,
): SchemaReference | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  if (left.isOpen && right.isOpen) return { shape: unite([left.shape, right.shape]), isOpen: true };
  const strict = ({ shape, isOpen }: SchemaReference): Shape => (isOpen ? withoutConstraints(shape) : shape);
  return { shape: intersect(strict(left), strict(right)), isOpen: false };
}

function withoutConstraints(shape: Shape): Shape {
  const open = (reference: SchemaReference): SchemaReference => ({ shape: reference.shape, isOpen: true });
  return {
    ...ANY_SHAPE,
    description: shape.description,
    members: new Map([...shape.members].map(([name, reference]) => [name, open(reference)])),
    element: shape.element && open(shape.element),
  };
}

function uniteMembers(shapes: readonly Shape[]): Shape["members"] {
  const names = new Set(shapes.flatMap((shape) => [...shape.members.keys()]));
  const members = new Map<string, SchemaReference>();
  for (const name of names) {
    const united = uniteReferences(shapes.map((shape) => shape.members.get(name)));
    if (united !== undefined) members.set(name, united);
  }
  return members;
}

function uniteReferences(references: readonly (SchemaReference | undefined)[]): SchemaReference | undefined {
  const named = references.filter((reference) => reference !== undefined);
  if (named.length === 0) return undefined;
  const isOpen = named.length < references.length || named.some((reference) => reference.isOpen);
  return { shape: unite(named.map(({ shape }) => shape)), isOpen };
}
