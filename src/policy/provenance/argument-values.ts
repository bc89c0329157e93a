import { isDeepStrictEqual } from "node:util";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ArgumentStep } from "../../notation/argument-path.ts";
import { charactersOf, MAX_CHARACTERS, MAX_VALUES } from "../../provenance/argument-values.ts";
import { type ArgumentValue, readArgument } from "../../provenance/read-argument.ts";
import type { SessionKnowledge, Sighting, ValueKind } from "../../provenance/sources.ts";
import { ARRAY, isJsonObject, ownValue, type TypeMask, typeBit } from "../json-value.ts";

/** A place on the path to an argument. */
export interface Place {
  /** Types that the schema gives the value. */
  readonly types: TypeMask;
  /** Values that the schema declares as default. */
  readonly defaults: readonly JsonValue[];
  /** Step to the next place; undefined for the argument itself. */
  readonly step: ArgumentStep | undefined;
}

/** An argument whose values a rule looks for. */
export interface SoughtArgument {
  readonly path: string;
  readonly kind: ValueKind;
  /** Places from the arguments as a whole to the argument. */
  readonly places: readonly Place[];
}

/** A value of an argument, as given and in the forms in which it compares. */
export interface SoughtValue extends ArgumentValue {
  readonly text: string;
}

/** Values of one argument; undefined where reading them takes more than an action has. */
export type ArgumentReading =
  | {
      readonly values: readonly SoughtValue[] /** True if one has a shape that the kind cannot read. */;
      readonly hasUnreadable: boolean;
    }
  | undefined;

/** Maximum forms in which values are looked for, and looks into lists, of one decision. */
export const MAX_FORMS = 4_000;
const MAX_LOOKS = 8_000;

/**
 * Values of arguments that one decision looks for, each read and looked up once. Its bounds are counted rather than timed, so that every
 * process decides alike.
 */
export class ArgumentValues {
  #valuesLeft = MAX_VALUES;
  #charactersLeft = MAX_CHARACTERS;
  #formsLeft = MAX_FORMS;
  #looksLeft = MAX_LOOKS;
  readonly #listed = new Map<string, Map<string, boolean>>();
  readonly #readings = new WeakMap<JsonObject, Map<string, ArgumentReading>>();
  readonly #sightings = new WeakMap<SessionKnowledge, Map<string, readonly Sighting[]>>();
  readonly #literals = new Map<ValueKind, ReadonlySet<string>>();

  /** Reads the values of an argument. Missing, null, empty and default ones are none. */
  read(argument: SoughtArgument, args: JsonObject): ArgumentReading {
    const known = this.#readings.get(args) ?? new Map<string, ArgumentReading>();
    this.#readings.set(args, known);
    const key = `${argument.kind} ${argument.path}`;
    if (!known.has(key)) known.set(key, this.#readAnew(argument, args));
    return known.get(key);
  }

  /** Lists where a session saw a form of a value. */
  sightingsOf(knowledge: SessionKnowledge, form: string): readonly Sighting[] {
    const known = this.#sightings.get(knowledge) ?? new Map<string, readonly Sighting[]>();
    this.#sightings.set(knowledge, known);
    const found = known.get(form) ?? knowledge.sightingsOf(form);
    known.set(form, found);
    return found;
  }

  /** True once a text was not looked up in a list, because the decision had its looks. */
  get hasLeftOut(): boolean {
    return this.#looksLeft < 0;
  }

  /** Looks a text up in a list, unless the decision did before. Past the bound of looks no text is listed. */
  isListed(list: string, text: string, lookUp: () => boolean): boolean {
    const known = this.#listed.get(list) ?? new Map<string, boolean>();
    this.#listed.set(list, known);
    const found = known.get(text) ?? (--this.#looksLeft >= 0 && lookUp());
    known.set(text, found);
    return found;
  }

  /** Returns the forms of the literals of intent contracts, as a kind reads them. `list` is called for the first rule alone. */
  literalForms(kind: ValueKind, list: () => readonly JsonValue[]): ReadonlySet<string> {
    const known = this.#literals.get(kind);
    if (known !== undefined) return known;
    const forms = new Set<string>();
    for (const literal of list()) {
      const read = readArgument(kind, literal);
      if (read.kind !== "value") continue;
      for (const form of [...read.value.whole, ...read.value.parts]) forms.add(form);
    }
    this.#literals.set(kind, forms);
    return forms;
  }

  #readAnew({ kind, places }: SoughtArgument, args: JsonObject): ArgumentReading {
    const found: JsonValue[] = [];
    const isWhole = this.#collect(places, 0, args, found);
    if (!isWhole) return undefined;
    const values: SoughtValue[] = [];
    let hasUnreadable = false;
    for (const value of found) {
      const characters = charactersOf(value);
      if (characters > this.#charactersLeft) return undefined;
      this.#charactersLeft -= characters;
      const read = readArgument(kind, value);
      if (read.kind === "unreadable") hasUnreadable = true;
      if (read.kind !== "value") continue;
      const { whole, parts, folders } = read.value;
      this.#formsLeft -= whole.length + parts.length + folders.length;
      if (this.#formsLeft < 0) return undefined;
      values.push({ ...read.value, text: String(value) });
    }
    return { values, hasUnreadable };
  }

  /** Adds the values at the end of a path. Returns false past the bound of values. */
  #collect(places: readonly Place[], depth: number, value: JsonValue | undefined, found: JsonValue[]): boolean {
    const place = places[depth];
    if (place === undefined || value === undefined || value === null) return true;
    if (depth > 0 && place.defaults.some((each) => isDeepStrictEqual(each, value))) return true;
    const { step, types } = place;
    if (Array.isArray(value)) {
      // An argument that may be a list or a single value has one path for both.
      const isElements = step === null || (step === undefined && (types & ARRAY) !== 0);
      if (!isElements && value.length > 0) return this.#add(value, found);
      if (value.length > this.#valuesLeft) return false;
      return value.every((each) =>
        step === null ? this.#collect(places, depth + 1, each, found) : this.#add(each, found),
      );
    }
    if (step === undefined) return this.#add(value, found);
    if (step === null) {
      const isElement = !isJsonObject(value) && (typeBit(value) & types) !== 0;
      return isElement ? this.#collect(places, depth + 1, value, found) : this.#add(asUnreadable(value), found);
    }
    if (isJsonObject(value)) return this.#collect(places, depth + 1, ownValue(value, step), found);
    return this.#add(asUnreadable(value), found);
  }

  #add(value: JsonValue, found: JsonValue[]): boolean {
    if (--this.#valuesLeft < 0) return false;
    found.push(value);
    return true;
  }
}

/** Makes a value that stands where a list or an object should be one that no kind reads; an empty one stays empty. */
const asUnreadable = (value: JsonValue): JsonValue => (readArgument("text", value).kind === "empty" ? null : {});
