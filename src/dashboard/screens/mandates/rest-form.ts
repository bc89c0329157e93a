import {
  create,
  type DescEnum,
  type DescField,
  type DescMessage,
  fromJson,
  isMessage,
  type JsonObject,
  type JsonValue,
  type MessageShape,
  toJson,
} from "@bufbuild/protobuf";

/**
 * Converts between messages and REST JSON, the form of mandate files: enum words in lower case without their prefix, whole
 * numbers as numbers.
 */

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const prefixOf = ({ sharedPrefix = "", values }: DescEnum): string => {
  const first = values[0]?.name ?? "";
  return sharedPrefix !== "" && first.startsWith(sharedPrefix.toUpperCase()) ? sharedPrefix.toUpperCase() : "";
};

/** Lists the words of an enum, without the unspecified one. */
export function wordsOf(desc: DescEnum): readonly string[] {
  const prefix = prefixOf(desc);
  return desc.values.filter(({ number }) => number !== 0).map(({ name }) => name.slice(prefix.length).toLowerCase());
}

function enumOf(field: DescField): DescEnum | undefined {
  return field.fieldKind === "enum" || (field.fieldKind === "list" && field.listKind === "enum")
    ? field.enum
    : undefined;
}

function messageOf(field: DescField): DescMessage | undefined {
  const isOne = field.fieldKind === "message" || (field.fieldKind === "list" && field.listKind === "message");
  const message = isOne ? field.message : undefined;
  return message?.typeName.startsWith("google.protobuf.") === true ? undefined : message;
}

const isLong = (field: DescField): boolean =>
  (field.fieldKind === "scalar" || (field.fieldKind === "list" && field.listKind === "scalar")) &&
  [3, 4, 6, 16, 18].includes(field.scalar);

type Convert = (value: JsonValue, field: DescField) => JsonValue;

/** Converts the members of an object by their fields; members without a field stay. */
function convert(desc: DescMessage, json: JsonObject, leaf: Convert): JsonObject {
  const fields = new Map(desc.fields.map((field) => [field.name, field]));
  const entries = Object.entries(json).map(([name, value]) => {
    const field = fields.get(name);
    if (field === undefined) return [name, value];
    const inner = messageOf(field);
    const one = (each: JsonValue): JsonValue =>
      inner !== undefined && isObject(each) ? convert(inner, each, leaf) : leaf(each, field);
    return [name, Array.isArray(value) && field.fieldKind === "list" ? value.map(one) : one(value)];
  });
  return Object.fromEntries(entries) as JsonObject;
}

/** Reads a message from its REST JSON. Throws an `Error` that names the member at fault. */
export function messageFromRest<D extends DescMessage>(desc: D, json: JsonObject): MessageShape<D> {
  const words = convert(desc, json, (value, field) => {
    const words = enumOf(field);
    if (words === undefined || typeof value !== "string") return value;
    if (!wordsOf(words).includes(value.toLowerCase())) {
      throw new Error(`\`${field.name}\` must be one of ${wordsOf(words).join(", ")}, not \`${value}\``);
    }
    return `${prefixOf(words)}${value.toUpperCase()}`;
  });
  return fromJson(desc, words);
}

/** Writes a message as REST JSON, without unset members. */
export function restFromMessage<D extends DescMessage>(desc: D, message: MessageShape<D>): JsonObject {
  const json = toJson(desc, isMessage(message) ? message : create(desc), { useProtoFieldName: true });
  return convert(desc, json as JsonObject, (value, field) => {
    const words = enumOf(field);
    if (words !== undefined && typeof value === "string") return value.slice(prefixOf(words).length).toLowerCase();
    return isLong(field) && typeof value === "string" && Number.isSafeInteger(Number(value)) ? Number(value) : value;
  });
}
