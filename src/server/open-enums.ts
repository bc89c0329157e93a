import { type DescEnum, type DescField, type DescMessage, hasOption, type JsonValue } from "@bufbuild/protobuf";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

/** Number that stands for an unknown word of an open enum. */
export const UNKNOWN_WORD = -1;

/**
 * True for a singular enum field without a rule for its values. The service itself reports an unknown word there, with all other
 * faults.
 */
export function isOpenEnum(field: DescField): field is DescField & { readonly enum: DescEnum } {
  return field.fieldKind === "enum" && !hasOption(field, fieldRules);
}

/** Replaces unknown words of open enums by `UNKNOWN_WORD` in a message's protobuf JSON. Returns true if it replaced any. */
export type ReplaceUnknownWords = (json: JsonValue) => boolean;

/** Returns the replacer for a message type; undefined for one without open enums. */
export function unknownWordsOf(desc: DescMessage): ReplaceUnknownWords | undefined {
  const fields = openFieldsOf(desc, new Map());
  return fields.length === 0 ? undefined : (json) => replaceIn(json, fields);
}

/** A field that is an open enum, or a message field with an open enum below it. */
interface OpenField {
  readonly keys: readonly string[];
  /** Words of the enum; undefined for a field of messages. */
  readonly words: ReadonlySet<string> | undefined;
  readonly fields: readonly OpenField[];
}

function openFieldsOf(desc: DescMessage, known: Map<DescMessage, OpenField[]>): readonly OpenField[] {
  const found = known.get(desc);
  if (found !== undefined) return found;
  const open: OpenField[] = [];
  // Registered before its fields are visited, so that a recursive type finds itself.
  known.set(desc, open);
  for (const field of desc.fields) {
    const keys = [field.jsonName, field.name];
    if (isOpenEnum(field)) open.push({ keys, words: new Set(field.enum.values.map(({ name }) => name)), fields: [] });
    else if (field.message !== undefined && field.fieldKind !== "map") {
      const fields = openFieldsOf(field.message, known);
      if (fields.length > 0 || fields === open) open.push({ keys, words: undefined, fields });
    }
  }
  return open;
}

function replaceIn(json: JsonValue | undefined, fields: readonly OpenField[]): boolean {
  if (Array.isArray(json)) return json.filter((item) => replaceIn(item, fields)).length > 0;
  if (typeof json !== "object" || json === null) return false;
  let isReplaced = false;
  for (const { keys, words, fields: below } of fields) {
    for (const key of keys) {
      const value = json[key];
      if (words === undefined) isReplaced = replaceIn(value, below) || isReplaced;
      else if (typeof value === "string" && !words.has(value)) {
        json[key] = UNKNOWN_WORD;
        isReplaced = true;
      }
    }
  }
  return isReplaced;
}
