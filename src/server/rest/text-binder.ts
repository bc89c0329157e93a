import { create, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { fieldFault } from "./field-path.ts";
import { emptyContext, type FieldSetter, type JsonDecoder } from "./json-decoder.ts";
import { is64Bit, isTextual, type LocalMessage, wrappedField } from "./well-known.ts";

/** A request field that a path variable or a query parameter can fill. */
export interface BoundField {
  readonly repeated: boolean;
  /** Sets the field from decoded text, one item for each value given. Throws INVALID_FIELD. */
  set(message: Message, texts: readonly string[]): void;
  /** The field's value; `undefined` while a message on the way to it is absent. */
  get(message: Message): unknown;
}

/** Finds the fields that text can fill. */
export interface TextBinder {
  /** The field at a dotted snake_case path; `undefined` when there is none or text cannot fill it. */
  bind(desc: DescMessage, fieldPath: string): BoundField | undefined;
}

/** Creates a binder whose values obey the same rules as JSON bodies. `maxDepth` bounds the steps of a path. */
export function createTextBinder(decoder: JsonDecoder, maxDepth: number): TextBinder {
  return {
    bind(desc, fieldPath) {
      const steps = fieldPath.split(".");
      if (steps.length > maxDepth) return undefined;
      const fields = fieldsOnPath(desc, steps);
      const last = fields?.pop();
      if (fields === undefined || last === undefined || !isTextField(last)) return undefined;
      return boundField(fieldPath, fields, last, decoder.fieldSetter(last));
    },
  };
}

function fieldsOnPath(desc: DescMessage, steps: readonly string[]): DescField[] | undefined {
  const fields: DescField[] = [];
  let parent: DescMessage | undefined = desc;
  for (const step of steps) {
    const field: DescField | undefined = parent?.fields.find((each) => each.name === step);
    if (field === undefined) return undefined;
    fields.push(field);
    parent = field.fieldKind === "message" && !isTextual(field.message) ? field.message : undefined;
  }
  return fields;
}

function isTextField(field: DescField): boolean {
  if (field.fieldKind === "map") return false;
  return field.message === undefined || isTextual(field.message);
}

function boundField(fieldPath: string, parents: readonly DescField[], last: DescField, set: FieldSetter): BoundField {
  const form = textForm(last);
  const repeated = last.fieldKind === "list";
  return {
    repeated,
    get: (message) => localValue(walk(message as LocalMessage, parents), last),
    set(message, texts) {
      const target = parents.reduce(ownedChild, message as LocalMessage);
      const values = texts.map((text) => form.toJson(text));
      const context = emptyContext();
      context.path.push(...parents.map((field) => field.name));
      if (values.includes(undefined)) throw fieldFault("INVALID_FIELD", fieldPath, `must be ${form.wanted}`);
      set(target, repeated ? values : values[0], context);
    },
  };
}

function localValue(message: LocalMessage | undefined, field: DescField): unknown {
  if (message === undefined || !field.oneof) return message?.[field.localName];
  const selected = message[field.oneof.localName] as { readonly case?: string; readonly value?: unknown };
  return selected.case === field.localName ? selected.value : undefined;
}

function walk(message: LocalMessage, parents: readonly DescField[]): LocalMessage | undefined {
  let at: LocalMessage | undefined = message;
  for (const field of parents) at = localValue(at, field) as LocalMessage | undefined;
  return at;
}

function ownedChild(message: LocalMessage, field: DescField): LocalMessage {
  const known = localValue(message, field);
  if (known !== undefined) return known as LocalMessage;
  const child = create(field.message as DescMessage) as LocalMessage;
  if (!field.oneof) message[field.localName] = child;
  else takeOneof(message, field, field.oneof.localName, child);
  return child;
}

function takeOneof(message: LocalMessage, field: DescField, group: string, value: unknown): void {
  const selected = message[group] as { readonly case?: string };
  if (selected.case !== undefined) {
    throw fieldFault("INVALID_FIELD", field.name, `cannot be set together with another member of \`${group}\``);
  }
  message[group] = { case: field.localName, value };
}

interface TextForm {
  /** What the text must be, for the error. */
  readonly wanted: string;
  /** The JSON value that the text stands for; `undefined` when it stands for none. */
  toJson(text: string): unknown;
}

// JSON's own form of a number, so that text cannot say more than a body can.
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["false", false],
]);
const ANY_TEXT: TextForm = { wanted: "text", toJson: (text) => text };
const BOOLEAN: TextForm = { wanted: "true or false", toJson: (text) => BOOLEANS.get(text) };
const isInteger = (text: string) => /^-?\d+$/.test(text);
const INT64: TextForm = { wanted: "an integer", toJson: (text) => (isInteger(text) ? text : undefined) };
const INT32: TextForm = { wanted: "an integer", toJson: (text) => (isInteger(text) ? Number(text) : undefined) };
const DECIMAL: TextForm = { wanted: "a number", toJson: (text) => (NUMBER.test(text) ? Number(text) : undefined) };

function textForm(field: DescField): TextForm {
  const scalar = (field.message && wrappedField(field.message)?.scalar) ?? field.scalar;
  if (scalar === undefined || scalar === ScalarType.STRING || scalar === ScalarType.BYTES) return ANY_TEXT;
  if (is64Bit(scalar)) return INT64;
  if (scalar === ScalarType.DOUBLE || scalar === ScalarType.FLOAT) return DECIMAL;
  return scalar === ScalarType.BOOL ? BOOLEAN : INT32;
}
