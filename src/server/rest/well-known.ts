import { type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";

/** A message whose properties are reached by the names that a descriptor gives. */
export type LocalMessage = Message & Record<string, unknown>;

/** A singular scalar field. */
export type ScalarField = DescField & { readonly fieldKind: "scalar" };

const WRAPPER = /^google\.protobuf\.(?:Double|Float|U?Int64|U?Int32|Bool|String|Bytes)Value$/;
const OWN_FORM = new Set(["Any", "Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue"]);
const PACKAGE = "google.protobuf.";

/** Whether a message type is `google.protobuf.Struct`. */
export function isStruct(desc: DescMessage): boolean {
  return desc.typeName === "google.protobuf.Struct";
}

/** The `value` field of a wrapper type such as `google.protobuf.Int64Value`; `undefined` for other types. */
export function wrappedField(desc: DescMessage): ScalarField | undefined {
  if (!WRAPPER.test(desc.typeName)) return undefined;
  const field = desc.fields[0];
  return field?.fieldKind === "scalar" ? field : undefined;
}

/** Whether a message type has a JSON form other than an object of its fields. */
export function hasOwnJsonForm(desc: DescMessage): boolean {
  const { typeName } = desc;
  if (!typeName.startsWith(PACKAGE)) return false;
  return OWN_FORM.has(typeName.slice(PACKAGE.length)) || wrappedField(desc) !== undefined;
}

/** Whether a message type is written as one JSON string or number, so that a query parameter can hold it. */
export function isTextual(desc: DescMessage): boolean {
  if (wrappedField(desc) !== undefined) return true;
  return ["Timestamp", "Duration", "FieldMask"].some((name) => desc.typeName === PACKAGE + name);
}

/** Whether a scalar type holds 64-bit integers. */
export function is64Bit(scalar: ScalarType): boolean {
  return SIXTY_FOUR.has(scalar);
}

const SIXTY_FOUR: ReadonlySet<ScalarType> = new Set([
  ScalarType.INT64,
  ScalarType.UINT64,
  ScalarType.SINT64,
  ScalarType.FIXED64,
  ScalarType.SFIXED64,
]);
