import { randomInt } from "node:crypto";
import { Turns } from "../../async/turns.ts";
import type { PhoneLookups } from "../../text/detectors/phone-lookups.ts";
import type { Finding, PersonalKind } from "../../text/personal-kinds.ts";
import type { PlaceholderReader, PlaceholderReading, Scrubber } from "./scrubber.ts";

/**
 * Placeholders of one request or conversation, such as `[EMAIL_1_KXVRT]`. Equal values get equal placeholders. The last part is a
 * salt, so that similar text from elsewhere is not mistaken for a placeholder.
 */
export interface Placeholders extends PlaceholderReader {
  /**
   * Replaces every personal value by its placeholder. Restoring the result gives `text` again, even if it contains text that
   * looks like one of these placeholders. Works over several event-loop turns. Rejects if a detector throws.
   */
  hide(text: string, options?: HideOptions): Promise<string>;
  /** Number of hidden values. */
  readonly size: number;
  /** Number of characters of the remembered values. */
  readonly textLength: number;
}

/** Options of `createPlaceholders`. */
export interface PlaceholdersOptions {
  /** Finds the values to hide. */
  readonly scrubber: Scrubber;
  /** Five upper-case consonants. Default: random. */
  readonly salt?: string;
}

/** Options of hiding the values of one text. */
export interface HideOptions {
  /** Event-loop turns, shared by all texts of a request. Default: turns for this text only. */
  readonly turns?: Turns;
  readonly lookups?: PhoneLookups;
  /** Called for each hidden value. */
  readonly onFinding?: (finding: Finding) => void;
}

/** Characters that are scrubbed in one turn of the event loop. */
const PIECE = 256;

/** Labels of placeholders. The last one is for text that only looks like a placeholder. */
const LABELS: Readonly<Record<PersonalKind, string>> = {
  email: "EMAIL",
  phone: "PHONE",
  payment_card: "CARD",
  iban: "IBAN",
  us_ssn: "SSN",
  national_id: "ID",
  ip_address: "IP",
  date_of_birth: "BIRTHDATE",
  person_name: "PERSON",
  account_number: "ACCOUNT",
  other: "VALUE",
};
const LITERAL_LABEL = "TEXT";
const ALL_LABELS = [...Object.values(LABELS), LITERAL_LABEL];

/** Letters of a salt: without vowels and look-alikes, so that it spells no word and is not misread. */
const SALT_LETTERS = "BCDFGHJKLMNPQRSTVWXZ";
const SALT_LENGTH = 5;
const NUMBER_DIGITS = 9;
/** Pattern for the separator: models escape underscores for Markdown, and sometimes write other marks. */
const MARK = "(?:\\\\?_|[- ])";
const NONE: PlaceholderReading = { kind: "none" };
const OPEN: PlaceholderReading = { kind: "open" };

const randomSalt = (): string =>
  Array.from({ length: SALT_LENGTH }, () => SALT_LETTERS[randomInt(SALT_LETTERS.length)]).join("");

/** Returns the expression for every prefix of a sequence of atoms. */
const prefixPattern = (atoms: readonly string[]): string =>
  atoms.reduceRight((rest, atom) => `(?:${atom}${rest})?`, "");

interface Shape {
  /** Captures label and number. */
  readonly whole: RegExp;
  /** Matches a prefix that reaches the end of the text. */
  readonly prefix: RegExp;
}

function shapeWith(salt: string): Shape {
  const tail = [`(?:\\\\|${MARK})`, "_?", `\\d{1,${NUMBER_DIGITS}}`, `(?:\\\\|${MARK})`, "_?", ...salt];
  const prefixes = ALL_LABELS.map((label) => prefixPattern([...label, ...tail]));
  return {
    whole: new RegExp(`\\[(${ALL_LABELS.join("|")})${MARK}(\\d{1,${NUMBER_DIGITS}})${MARK}${salt}\\]`, "iy"),
    prefix: new RegExp(`\\[(?:${prefixes.join("|")})$`, "iy"),
  };
}

interface Read {
  readonly end: number;
  readonly label: string;
  readonly number: number;
}

/** Reads text in the shape of a placeholder, issued or not. */
function readShape({ whole, prefix }: Shape, text: string, start: number): Read | PlaceholderReading {
  whole.lastIndex = start;
  const found = whole.exec(text);
  if (found !== null) {
    const [all, label = "", number = ""] = found;
    return { end: start + all.length, label: label.toUpperCase(), number: Number(number) };
  }
  prefix.lastIndex = start;
  return prefix.test(text) ? OPEN : NONE;
}

/** Creates placeholders. Throws RangeError for a malformed salt. */
export function createPlaceholders({ scrubber, salt = randomSalt() }: PlaceholdersOptions): Placeholders {
  if (!new RegExp(`^[${SALT_LETTERS}]{${SALT_LENGTH}}$`).test(salt)) throw new RangeError("the salt is malformed");
  return new SaltedPlaceholders(scrubber, salt);
}

class SaltedPlaceholders implements Placeholders {
  readonly #scrubber: Scrubber;
  readonly #salt: string;
  readonly #shape: Shape;
  readonly #entries: { readonly label: string; readonly value: string }[] = [];
  /** One more than the index of an entry, by label and value. */
  readonly #numbers = new Map<string, number>();
  #literals = 0;
  #textLength = 0;

  constructor(scrubber: Scrubber, salt: string) {
    this.#scrubber = scrubber;
    this.#salt = salt;
    this.#shape = shapeWith(salt);
  }

  get size(): number {
    return this.#entries.length - this.#literals;
  }

  get textLength(): number {
    return this.#textLength;
  }

  read(text: string, start: number): PlaceholderReading {
    const found = readShape(this.#shape, text, start);
    if ("kind" in found) return found;
    const entry = this.#entries[found.number - 1];
    if (entry === undefined || entry.label !== found.label) return NONE;
    return { kind: "placeholder", end: found.end, value: entry.value };
  }

  async hide(text: string, { turns = new Turns(), lookups, onFinding }: HideOptions = {}): Promise<string> {
    const stream = this.#scrubber.openStream({
      ...(lookups === undefined ? {} : { lookups }),
      ...(onFinding === undefined ? {} : { onFinding }),
      placeholders: { read: (given, start) => this.#readLiteral(given, start) },
      restore: true,
      write: (literal) => this.#placeholder(LITERAL_LABEL, literal),
      replace: (kind, value) => this.#placeholder(LABELS[kind], value),
    });
    const out: string[] = [];
    for (let start = 0; start < text.length; start += PIECE) {
      out.push(stream.push(text.slice(start, start + PIECE)));
      await turns.giveWay();
    }
    return out.join("") + stream.end();
  }

  /** Reads text of this shape in the input as literal text, since only `hide` creates placeholders. */
  #readLiteral(text: string, start: number): PlaceholderReading {
    const found = readShape(this.#shape, text, start);
    if ("kind" in found) return found;
    return { kind: "placeholder", end: found.end, value: text.slice(start, found.end) };
  }

  #placeholder(label: string, value: string): string {
    const key = `${label} ${value}`;
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.#entries.push({ label, value });
      this.#numbers.set(key, number);
      this.#textLength += value.length;
      if (label === LITERAL_LABEL) this.#literals += 1;
    }
    return `[${label}_${number}_${this.#salt}]`;
  }
}
