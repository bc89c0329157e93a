import { type ListValue, type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { invalidField } from "../errors.ts";

/** Converts milliseconds since 1970 to a timestamp; null and undefined become an absent field. */
export function optionalTimestamp(ms: number | null | undefined): Timestamp | undefined {
  return ms === null || ms === undefined ? undefined : timestampFromMs(ms);
}

/** Converts an int64 field; absent stays absent. */
export function optionalNumber(value: bigint | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}

/** Converts trust from 0 to 100 to tenths. Throws INVALID_FIELD unless it is a multiple of 0.1. */
export function trustTenths(field: string, trust: number | undefined): number | undefined {
  if (trust === undefined) return undefined;
  const tenths = Math.round(trust * 10);
  if (tenths / 10 !== trust) throw invalidField(field, "must be a multiple of 0.1");
  return tenths;
}

/** Longest list of member names, and longest name in characters. */
const MAX_NAMES = 50;
const MAX_NAME_LENGTH = 128;

/** Converts a list of names, such as those of metadata members; absent stays absent. Throws INVALID_FIELD. */
export function memberNames(field: string, list: ListValue | undefined): readonly string[] | undefined {
  if (list === undefined) return undefined;
  if (list.values.length > MAX_NAMES) throw invalidField(field, `must hold at most ${MAX_NAMES} names`);
  return list.values.map(({ kind }, index) => {
    const isName = kind.case === "stringValue" && kind.value !== "" && kind.value.length <= MAX_NAME_LENGTH;
    if (!isName) throw invalidField(`${field}[${index}]`, `must be a text of 1 to ${MAX_NAME_LENGTH} characters`);
    return kind.value;
  });
}
