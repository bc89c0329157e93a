import { createHash } from "node:crypto";
import type { Work } from "../../async/work.ts";
import { fold } from "../../text/fold.ts";
import { coveringValues, type ListKind } from "./kinds.ts";

/** Result of looking a text up: in the list or not, or that the text cannot be read as the list's kind. */
export type Lookup = "listed" | "not_listed" | "unreadable";

/** Values that work handles before others may have a turn. */
const AT_ONCE = 2_000;

/** The values of a list: sorted by UTF-16 code units, without duplicates, in the form in which they compare. Immutable. */
export type SortedValues = readonly string[];

/** A named list at one moment. Immutable: a change makes another one. */
export class NamedList {
  readonly name: string;
  readonly kind: ListKind;
  readonly values: SortedValues;
  /** As `digestOfValues` gives it. */
  readonly digest: string;
  /** Bytes of its values in UTF-8. */
  readonly bytes: number;

  constructor({ name, kind, values, digest, bytes }: Pick<NamedList, "name" | "kind" | "values" | "digest" | "bytes">) {
    this.name = name;
    this.kind = kind;
    this.values = values;
    this.digest = digest;
    this.bytes = bytes;
  }

  /** Looks a text up. `folded` is the text as `fold` gives it. */
  lookUp(text: string, folded: string): Lookup {
    return this.find(text, folded).found;
  }

  /** Looks a text up, and returns the first value that covers it with the result: the text itself before `*.` of what it lies below. */
  find(text: string, folded: string): { readonly found: Lookup; readonly value?: string | undefined } {
    const covering = coveringValues(this.kind, text, folded);
    if (covering === undefined) return { found: "unreadable" };
    const value = covering.find((each) => has(this.values, each));
    return { found: value === undefined ? "not_listed" : "listed", value };
  }

  /** Finds the first `size` values after one that contain a text, in the form in which they compare, and one more if there are more. */
  *search(
    text: string,
    { size, after }: { readonly size: number; readonly after?: string | undefined },
  ): Work<string[]> {
    const { values } = this;
    const found: string[] = [];
    const wanted = fold(text);
    for (let index = after === undefined ? 0 : placeOf(values, after); index < values.length; index++) {
      const each = values[index] as string;
      if (each !== after && each.includes(wanted)) found.push(each);
      if (found.length > size) break;
      if (index % AT_ONCE === 0) yield;
    }
    return found;
  }
}

/** Finds lists by their names. */
export interface ListLookup {
  /** Returns a list; undefined if there is none of this name. */
  readonly get: (name: string) => NamedList | undefined;
  /** The names of all lists. */
  readonly names: () => Iterable<string>;
}

/** Lookup without lists. */
export const NO_LISTS: ListLookup = { get: () => undefined, names: () => [] };

/** Returns the index at which a value stands or would stand. */
export function placeOf(values: SortedValues, wanted: string): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] as string) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Tests whether sorted values hold one. */
export const has = (values: SortedValues, wanted: string): boolean => values[placeOf(values, wanted)] === wanted;

/** Sorts texts by code units and drops duplicates. Pauses, since many take longer than a turn. */
export function* sortedValues(texts: readonly string[]): Work<SortedValues> {
  let runs: SortedValues[] = [];
  for (let first = 0; first < texts.length; first += AT_ONCE) {
    runs.push([...new Set(texts.slice(first, first + AT_ONCE))].sort());
    yield;
  }
  while (runs.length > 1) {
    const merged: SortedValues[] = [];
    for (let index = 0; index < runs.length; index += 2) {
      const [one = [], other] = runs.slice(index, index + 2);
      merged.push(other === undefined ? one : yield* union(one, other));
    }
    runs = merged;
  }
  return runs[0] ?? [];
}

/** Merges sorted values; those that both have are taken once. */
export function* union(one: SortedValues, other: SortedValues): Work<SortedValues> {
  const merged: string[] = [];
  let left = 0;
  let right = 0;
  while (left < one.length || right < other.length) {
    const a = one[left];
    const b = other[right];
    if (b === undefined || (a !== undefined && a <= b)) {
      merged.push(a as string);
      left += 1;
      if (a === b) right += 1;
    } else {
      merged.push(b);
      right += 1;
    }
    if (merged.length % AT_ONCE === 0) yield;
  }
  return merged;
}

/** Returns the values that some sorted values have and others do not. */
export function* difference(one: SortedValues, other: SortedValues): Work<SortedValues> {
  const left: string[] = [];
  let place = 0;
  for (const [index, each] of one.entries()) {
    while (place < other.length && (other[place] as string) < each) {
      place += 1;
      if (place % AT_ONCE === 0) yield;
    }
    if (other[place] !== each) left.push(each);
    if (index % AT_ONCE === 0) yield;
  }
  return left;
}

/**
 * Returns the digest of sorted values: the SHA-256 of their RFC 8785 array, lower-case hexadecimal. Well-formed texts are written in
 * RFC 8785 as `JSON.stringify` writes them.
 */
export function* digestOfValues(values: SortedValues): Work<string> {
  const hash = createHash("sha256").update("[");
  for (let first = 0; first < values.length; first += AT_ONCE) {
    const text = JSON.stringify(values.slice(first, first + AT_ONCE)).slice(1, -1);
    hash.update(first === 0 ? text : `,${text}`);
    yield;
  }
  return hash.update("]").digest("hex");
}

/** Returns the bytes of values in UTF-8. */
export function* bytesOfValues(values: SortedValues): Work<number> {
  let bytes = 0;
  for (const [index, each] of values.entries()) {
    bytes += Buffer.byteLength(each);
    if (index % AT_ONCE === 0) yield;
  }
  return bytes;
}
