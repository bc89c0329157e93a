import {
  create,
  type DescField,
  type DescMessage,
  fromJson,
  type JsonValue,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { anyPack, ListValueSchema, StructSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import fc, { type Arbitrary } from "fast-check";

const MAX_LEVELS = 2;
const text = fc.string({ unit: "binary", maxLength: 12 });
// A number is written without the sign of zero.
const json = fc
  .jsonValue({ maxDepth: 2, stringUnit: "binary" })
  .map((value): JsonValue => JSON.parse(JSON.stringify(value)));
const object = fc.dictionary(text, json, { maxKeys: 3 }) as Arbitrary<Record<string, JsonValue>>;

/** Messages of a type with random fields, a few levels deep; only values that JSON can tell apart. */
export function messageArbitrary(desc: DescMessage, level = 0): Arbitrary<Message> {
  const members = desc.members.map((member) => {
    if (member.kind === "oneof") return fc.oneof(...member.fields.map((field) => oneofMember(field, level)));
    return fieldArbitrary(member, level);
  });
  const build = (values: unknown[]) => {
    const names = desc.members.map((member) => member.localName);
    const given = values
      .map((value, index) => [names[index], value] as const)
      .filter(([, value]) => value !== undefined);
    return create(desc, Object.fromEntries(given));
  };
  return fc.tuple(...members).map(build);
}

function oneofMember(field: DescField, level: number): Arbitrary<unknown> {
  if (isTooDeep(field, level)) return fc.constant(undefined);
  return valueArbitrary(field, level).map((value) => ({ case: field.localName, value }));
}

function isTooDeep(field: DescField, level: number): boolean {
  return level >= MAX_LEVELS && field.message?.typeName.startsWith("resttest.") === true;
}

function fieldArbitrary(field: DescField, level: number): Arbitrary<unknown> {
  if (isTooDeep(field, level)) return fc.constant(undefined);
  const value = valueArbitrary(field, level);
  if (field.fieldKind === "list") return fc.array(value, { maxLength: 2 });
  if (field.fieldKind === "map") return fc.dictionary(mapKey(field.mapKey), value, { maxKeys: 2 });
  return fc.option(value, { nil: undefined });
}

function mapKey(scalar: ScalarType): Arbitrary<string> {
  if (scalar === ScalarType.STRING) return text;
  if (scalar === ScalarType.BOOL) return fc.boolean().map(String);
  return fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String);
}

function valueArbitrary(field: DescField, level: number): Arbitrary<unknown> {
  if (field.enum)
    return fc.constantFrom(...field.enum.values.filter((value) => value.number !== 0).map((value) => value.number));
  if (field.scalar !== undefined) return scalarArbitrary(field.scalar, "longAsString" in field && field.longAsString);
  const message = field.message as DescMessage;
  const wrapped = message.typeName.endsWith("Value") ? message.fields[0] : undefined;
  if (wrapped?.fieldKind === "scalar" && message.fields.length === 1) {
    const scalar = scalarArbitrary(wrapped.scalar, false);
    return field.fieldKind === "message" && !field.oneof ? scalar : scalar.map((value) => create(message, { value }));
  }
  return wellKnownArbitrary(message) ?? messageArbitrary(message, level + 1);
}

function scalarArbitrary(scalar: ScalarType, longAsString: boolean): Arbitrary<unknown> {
  const signed = fc.oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.bigInt({ min: -9n, max: 9n }));
  switch (scalar) {
    case ScalarType.STRING:
      return text;
    case ScalarType.BYTES:
      return fc.uint8Array({ maxLength: 9 });
    case ScalarType.BOOL:
      return fc.boolean();
    case ScalarType.DOUBLE:
      return fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0));
    case ScalarType.FLOAT:
      return fc.float({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0));
    case ScalarType.INT32:
      return fc.integer();
    case ScalarType.UINT32:
      return fc.nat();
    case ScalarType.UINT64:
      return fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    default:
      return longAsString ? signed.map(String) : signed;
  }
}

function wellKnownArbitrary(desc: DescMessage): Arbitrary<unknown> | undefined {
  const nanos = fc.oneof(
    fc.constant(0),
    fc.integer({ min: 0, max: 999 }).map((ms) => ms * 1e6),
    fc.integer({ min: 0, max: 999_999_999 }),
  );
  switch (desc.typeName) {
    case "google.protobuf.Timestamp":
      return fc
        .record({ seconds: fc.bigInt({ min: -62_135_596_800n, max: 253_402_300_799n }), nanos })
        .map((init) => create(desc, init));
    case "google.protobuf.Duration":
      return fc
        .record({ seconds: fc.bigInt({ min: 0n, max: 315_575_999_999n }), nanos, sign: fc.constantFrom(1, -1) })
        .map(({ seconds, nanos: n, sign }) => create(desc, { seconds: seconds * BigInt(sign), nanos: n * sign || 0 }));
    case "google.protobuf.FieldMask":
      return fc.array(fc.constantFrom("a", "b_c", "d.e_f"), { maxLength: 3 }).map((paths) => create(desc, { paths }));
    case "google.protobuf.Struct":
      return object;
    case "google.protobuf.Value":
      return json.filter((value) => value !== null).map((value) => fromJson(ValueSchema, value));
    case "google.protobuf.ListValue":
      return fc.array(json, { maxLength: 3 }).map((value) => fromJson(ListValueSchema, value));
    case "google.protobuf.Any":
      return object.map((value) => anyPack(StructSchema, fromJson(StructSchema, value)));
    default:
      return undefined;
  }
}
