import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";
import { invalidField } from "../errors.ts";

/** Throws INVALID_FIELD for an id that holds U+0000. */
export type IdCheck = (message: Message) => void;

const ID = /_id$|^on_behalf_of$/;

/** A field that is an id, or that holds ids, with its path in the request. */
interface IdField {
  readonly path: string;
  readonly localName: string;
  /** The ids inside; undefined for a field that is an id itself. */
  readonly inner: readonly IdField[] | undefined;
}

/**
 * Creates the check of the ids of a request. PostgreSQL takes no text with U+0000, and one statement asks for the ids of
 * many callers: such an id MUST be refused before it fails the others. A message without ids has no check.
 */
export function createIdCheck(schema: DescMessage): IdCheck | undefined {
  const fields = idFieldsOf(schema, "", new Set());
  return fields.length === 0 ? undefined : (message) => check(message as never, fields);
}

function idFieldsOf(schema: DescMessage, path: string, above: ReadonlySet<DescMessage>): readonly IdField[] {
  const seen = new Set([...above, schema]);
  return schema.fields.flatMap((field) => idField(field, path, seen));
}

function idField(field: DescField, path: string, seen: ReadonlySet<DescMessage>): readonly IdField[] {
  const { localName, name, fieldKind, oneof } = field;
  const at = path + name;
  if (oneof !== undefined) return [];
  if (fieldKind === "scalar") return ID.test(name) ? [{ path: at, localName, inner: undefined }] : [];
  if (fieldKind !== "message" || seen.has(field.message)) return [];
  const inner = idFieldsOf(field.message, `${at}.`, seen);
  return inner.length === 0 ? [] : [{ path: at, localName, inner }];
}

function check(message: Readonly<Record<string, unknown>>, fields: readonly IdField[]): void {
  for (const { path, localName, inner } of fields) {
    const value = message[localName];
    if (typeof value === "string") {
      if (value.includes("\u0000")) throw invalidField(path, "must not hold U+0000");
    } else if (inner !== undefined && value !== undefined) {
      check(value as never, inner);
    }
  }
}
