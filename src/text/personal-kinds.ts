/** Kinds of personal values that detectors find by shape, check digits and context. */
export const DETECTED_KINDS = [
  "email",
  "phone",
  "payment_card",
  "iban",
  "us_ssn",
  "national_id",
  "ip_address",
  "date_of_birth",
] as const;

/** Kinds without a detector, for values that a workspace registers. */
export const REGISTERED_KINDS = ["person_name", "account_number", "other"] as const;

/** Every kind of personal value. A workspace may register values of every kind. */
export const PERSONAL_KINDS = [...DETECTED_KINDS, ...REGISTERED_KINDS] as const;

/** A kind of personal value. */
export type PersonalKind = (typeof PERSONAL_KINDS)[number];

/** A value that a workspace registered. */
export interface RegisteredValue {
  readonly kind: PersonalKind;
  /** 2 to 256 UTF-16 units after trimming. Case, form and runs of white space are ignored in comparisons. */
  readonly value: string;
}

/** A range of a text in UTF-16 units; `end` is exclusive. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** A personal value in a text. */
export interface Finding extends Range {
  readonly kind: PersonalKind;
}

/** Number of found values, by kind; kinds without values are omitted. */
export type KindCounts = ReadonlyMap<PersonalKind, number>;

/** Adds counts to others. */
export function addCounts(into: Map<PersonalKind, number>, from: KindCounts): void {
  for (const [kind, count] of from) into.set(kind, (into.get(kind) ?? 0) + count);
}

/** Returns the sum over all kinds. */
export function totalCount(counts: KindCounts): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}
