import {
  create,
  type DescField,
  type DescMessage,
  type DescOneof,
  fromJson,
  type JsonValue,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { ListValueSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import fc, { type Arbitrary } from "fast-check";

const text = fc.string({ unit: "binary", maxLength: 12 });
// A number is written without the sign of zero.
const json = fc
  .jsonValue({ maxDepth: 2, stringUnit: "binary" })
  .map((value): JsonValue => JSON.parse(JSON.stringify(value)));
const object = fc.dictionary(text, json, { maxKeys: 3 });

const SCALARS: ReadonlyMap<ScalarType, Arbitrary<unknown>> = new Map<ScalarType, Arbitrary<unknown>>([
  [ScalarType.STRING, text],
  [ScalarType.BYTES, fc.uint8Array({ maxLength: 9 })],
  [ScalarType.BOOL, fc.boolean()],
  [ScalarType.DOUBLE, fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0))],
  [ScalarType.INT32, fc.integer()],
  [ScalarType.INT64, fc.oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.bigInt({ min: -9n, max: 9n }))],
]);

/** Messages of a type with random fields; only values that JSON can tell apart. */
export function messageArbitrary(desc: DescMessage): Arbitrary<Message> {
  const members = desc.members.map((member) =>
    (member.kind === "oneof" ? oneofArbitrary(member) : fieldArbitrary(member)).map(
      (value) => [member.localName, value] as const,
    ),
  );
  return fc.tuple(...members).map((pairs) => {
    return create(desc, Object.fromEntries(pairs.filter(([, value]) => value !== undefined)));
  });
}

function oneofArbitrary({ fields }: DescOneof): Arbitrary<unknown> {
  const choices = fields.map((field) => valueArbitrary(field).map((value) => ({ case: field.localName, value })));
  return fc.option(fc.oneof(...choices), { nil: undefined });
}

function fieldArbitrary(field: DescField): Arbitrary<unknown> {
  const value = valueArbitrary(field);
  return field.fieldKind === "list" ? fc.array(value, { maxLength: 2 }) : fc.option(value, { nil: undefined });
}

function valueArbitrary(field: DescField): Arbitrary<unknown> {
  if (field.enum !== undefined) {
    const numbers = field.enum.values.map(({ number }) => number).filter((number) => number !== 0);
    return fc.constantFrom(...numbers);
  }
  if (field.scalar !== undefined) return SCALARS.get(field.scalar) as Arbitrary<unknown>;
  const message = field.message as DescMessage;
  switch (message.typeName) {
    case "google.protobuf.Timestamp":
      return timestamp.map((init) => create(message, init));
    case "google.protobuf.Struct":
      return object;
    case "google.protobuf.ListValue":
      return fc.array(json).map((values) => fromJson(ListValueSchema, values));
    case "google.protobuf.Value":
      return json.filter((value) => value !== null).map((value) => fromJson(ValueSchema, value));
    default:
      return messageArbitrary(message);
  }
}

const timestamp = fc.record({
  seconds: fc.bigInt({ min: -62_135_596_800n, max: 253_402_300_799n }),
  nanos: fc.oneof(
    fc.constant(0),
    fc.integer({ min: 0, max: 999 }).map((ms) => ms * 1e6),
    fc.integer({ min: 0, max: 999_999_999 }),
  ),
});
