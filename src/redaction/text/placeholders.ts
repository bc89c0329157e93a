import { randomInt } from "node:crypto";
import type {
  PersonalKind,
  PlaceholderReader,
  PlaceholderReading,
  Placeholders,
  PlaceholdersOptions,
} from "./types.ts";

/** Words of placeholders. The last is for text that looks like a placeholder and is none. */
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

/** No vowels and no look-alikes: no word of a language, and one writing only. */
const SALT_LETTERS = "BCDFGHJKLMNPQRSTVWXZ";
const SALT_LENGTH = 5;
const NUMBER_DIGITS = 9;
/** Models escape underscores for Markdown, and now and then write other marks. */
const MARK = "(?:\\\\?_|[- ])";
const NONE: PlaceholderReading = { kind: "none" };
const OPEN: PlaceholderReading = { kind: "open" };

const randomSalt = (): string =>
  Array.from({ length: SALT_LENGTH }, () => SALT_LETTERS[randomInt(SALT_LETTERS.length)]).join("");

/** An expression for every beginning of a sequence of atoms. */
const beginningOf = (atoms: readonly string[]): string => atoms.reduceRight((rest, atom) => `(?:${atom}${rest})?`, "");

interface Shape {
  /** The whole: label, number. */
  readonly whole: RegExp;
  /** What may become one, up to the end of the text. */
  readonly beginning: RegExp;
}

function shapeWith(salt: string): Shape {
  const tail = [`(?:\\\\|${MARK})`, "_?", `\\d{1,${NUMBER_DIGITS}}`, `(?:\\\\|${MARK})`, "_?", ...salt];
  const beginnings = ALL_LABELS.map((label) => beginningOf([...label, ...tail]));
  return {
    whole: new RegExp(`\\[(${ALL_LABELS.join("|")})${MARK}(\\d{1,${NUMBER_DIGITS}})${MARK}${salt}\\]`, "iy"),
    beginning: new RegExp(`\\[(?:${beginnings.join("|")})$`, "iy"),
  };
}

interface Read {
  readonly end: number;
  readonly label: string;
  readonly number: number;
}

/** Reads what has the shape; whether it was given out is another question. */
function readShape({ whole, beginning }: Shape, text: string, start: number): Read | PlaceholderReading {
  whole.lastIndex = start;
  const found = whole.exec(text);
  if (found !== null) {
    const [all, label = "", number = ""] = found;
    return { end: start + all.length, label: label.toUpperCase(), number: Number(number) };
  }
  beginning.lastIndex = start;
  return beginning.test(text) ? OPEN : NONE;
}

/** Creates placeholders. Throws RangeError for a salt that is none. */
export function createPlaceholders({ scrubber, salt = randomSalt() }: PlaceholdersOptions): Placeholders {
  if (!new RegExp(`^[${SALT_LETTERS}]{${SALT_LENGTH}}$`).test(salt)) throw new RangeError("the salt is none");
  const shape = shapeWith(salt);
  const entries: { readonly label: string; readonly value: string }[] = [];
  const numbers = new Map<string, number>();
  const sizeByKind = new Map<PersonalKind, number>();

  const read = (text: string, start: number): PlaceholderReading => {
    const found = readShape(shape, text, start);
    if ("kind" in found) return found;
    const entry = entries[found.number - 1];
    if (entry === undefined || entry.label !== found.label) return NONE;
    return { kind: "placeholder", end: found.end, value: entry.value };
  };

  // Text that has the shape before anything was hidden in it is no placeholder, whatever it says.
  const literals: PlaceholderReader = {
    read(text, start) {
      const found = readShape(shape, text, start);
      if ("kind" in found) return found;
      return { kind: "placeholder", end: found.end, value: text.slice(start, found.end) };
    },
  };

  const placeholderOf = (label: string, value: string, count: () => void): string => {
    const key = `${label} ${value}`;
    let number = numbers.get(key);
    if (number === undefined) {
      number = entries.push({ label, value });
      numbers.set(key, number);
      count();
    }
    return `[${label}_${number}_${salt}]`;
  };

  return {
    read,
    hide(text) {
      const stream = scrubber.openStream({
        placeholders: literals,
        restore: true,
        write: (literal) => placeholderOf(LITERAL_LABEL, literal, () => {}),
        replace: (kind, value) =>
          placeholderOf(LABELS[kind], value, () => sizeByKind.set(kind, (sizeByKind.get(kind) ?? 0) + 1)),
      });
      return stream.push(text) + stream.end();
    },
    restore(text) {
      let out = "";
      let from = 0;
      for (let start = text.indexOf("["); start !== -1; start = text.indexOf("[", start + 1)) {
        const reading = read(text, start);
        if (reading.kind !== "placeholder") continue;
        out += text.slice(from, start) + reading.value;
        from = reading.end;
      }
      return out + text.slice(from);
    },
    get size() {
      return [...sizeByKind.values()].reduce((sum, count) => sum + count, 0);
    },
    get sizeByKind() {
      return new Map(sizeByKind);
    },
  };
}
