import type { JsonValue } from "@bufbuild/protobuf";
import { ANY_TYPE, ARRAY, OBJECT, type TypeMask } from "../json-value.ts";

/** Bounds of a number; undefined for a missing one. */
export interface Bounds {
  readonly minimum: number | undefined;
  readonly maximum: number | undefined;
  readonly exclusiveMinimum: number | undefined;
  readonly exclusiveMaximum: number | undefined;
}

/** A member or element that a shape names. */
export interface SchemaReference {
  readonly shape: Shape;
  /** True if some alternative of the schema leaves it out, so that it adds paths but no constraint. */
  readonly isOpen: boolean;
}

/** Constraints of a schema on one value, with `$ref`, `allOf`, `anyOf` and the like resolved. */
export interface Shape extends Bounds {
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
export const ANY_SHAPE: Shape = {
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

/** Returns the types of a shape; one that names members or elements and no type is taken for an object or array. */
export function settledTypes(shape: Shape): TypeMask {
  if (shape.types !== ANY_TYPE) return shape.types;
  const inferred = (shape.members.size > 0 ? OBJECT : 0) | (shape.element === undefined ? 0 : ARRAY);
  return inferred === 0 ? ANY_TYPE : inferred;
}

/** Builds the shape of values that fit both shapes. */
export function intersect(left: Shape, right: Shape): Shape {
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
export function unite(shapes: readonly Shape[]): Shape {
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
