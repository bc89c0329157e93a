import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
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
