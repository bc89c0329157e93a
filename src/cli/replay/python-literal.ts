import type { JsonValue } from "../../verify/json.ts";

/** Maximum characters of a literal, open brackets in it, and values. */
const MAX_LENGTH = 4_194_304;
const MAX_DEPTH = 60;
const MAX_VALUES = 200_000;
/** Digits up to which a whole number is exact as a double; longer ones become their text. */
const MAX_EXACT_DIGITS = 15;
/** Maximum digits of a hexadecimal, octal or binary number. */
const MAX_BASE_DIGITS = 256;

/** Error for a text that is no Python literal. `position` is the index of the character at fault. */
export class PythonLiteralError extends Error {
  override readonly name = "PythonLiteralError";
  readonly position: number;

  constructor(message: string, position: number) {
    super(`${message} (at character ${position + 1})`);
    this.position = position;
  }
}

/**
 * Reads a Python literal, as `repr` writes it, as JSON: tuples and sets become lists, bytes become texts, `None` becomes null, and whole
 * numbers beyond 15 digits become their text. A call such as `Mail(subject='x')` becomes its arguments, `datetime.datetime(…)` and
 * `datetime.date(…)` a time in ISO 8601, and a member of an enumeration, `<Kind.FILE: 'file'>`, its value. Nothing is evaluated. Throws
 * `PythonLiteralError`.
 */
export function jsonFromPython(text: string): JsonValue {
  if (text.length > MAX_LENGTH) throw new PythonLiteralError(`has more than ${MAX_LENGTH} characters`, MAX_LENGTH);
  return new LiteralReader(text).readWhole();
}

const SPACE = /[ \t\f\r\n]*(?:#[^\n]*[ \t\f\r\n]*|\\\r?\n[ \t\f\r\n]*)*/y;
const STRING_START = /([rRuUbB]{0,2})("""|'''|"|')/y;
const PREFIXES: ReadonlySet<string> = new Set(["", "r", "u", "b", "br", "rb"]);
const NUMBER =
  /0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d(?:_?\d)*(?:\.(?:\d(?:_?\d)*)?)?|\.\d(?:_?\d)*)(?:[eE][+-]?\d(?:_?\d)*)?/y;
const NAME = /[\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*)*/uy;
const KEYWORD = /([\p{L}_][\p{L}\p{N}_]*)[ \t]*=(?!=)/uy;
const ENUM_START = /<[\p{L}_][\p{L}\p{N}_.]*:/uy;

const CONSTANTS: ReadonlyMap<string, JsonValue> = new Map<string, JsonValue>([
  ["None", null],
  ["True", true],
  ["False", false],
  // JSON has no such numbers.
  ["nan", "nan"],
  ["inf", "inf"],
  ["datetime.timezone.utc", "UTC"],
]);

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ["\n", ""],
  ["\\", "\\"],
  ["'", "'"],
  ['"', '"'],
  ["a", "\u0007"],
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["v", "\v"],
]);
/** Hexadecimal digits after the escapes that have a number. */
const CODE_DIGITS: ReadonlyMap<string, number> = new Map([
  ["x", 2],
  ["u", 4],
  ["U", 8],
]);

class LiteralReader {
  readonly #text: string;
  #at = 0;
  #depth = 0;
  #values = 0;

  constructor(text: string) {
    this.#text = text;
  }

  readWhole(): JsonValue {
    const value = this.#value();
    this.#skipSpace();
    if (this.#at < this.#text.length) throw this.#fault("continues after the literal");
    return value;
  }

  #value(): JsonValue {
    this.#skipSpace();
    this.#values += 1;
    if (this.#values > MAX_VALUES) throw this.#fault(`has more than ${MAX_VALUES} values`);
    const next = this.#text[this.#at];
    if (next === undefined) throw this.#fault("ends before a value");
    if (next === "[") return this.#nested(() => this.#items("]").items);
    if (next === "(") return this.#nested(() => this.#group());
    if (next === "{") return this.#nested(() => this.#braces());
    if (next === "<") return this.#nested(() => this.#enumMember());
    if (/[-+\d.]/.test(next)) return this.#signedNumber();
    if (this.#peek(STRING_START) !== undefined) return this.#strings();
    return this.#named();
  }

  /** Reads what stands in brackets, within the depth. */
  #nested<T>(read: () => T): T {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw this.#fault(`is nested more than ${MAX_DEPTH} levels deep`);
    const value = read();
    this.#depth -= 1;
    return value;
  }

  /** Reads the items from an opening bracket to the closing one. */
  #items(close: string): { readonly items: JsonValue[]; readonly hasComma: boolean } {
    this.#at += 1;
    const items: JsonValue[] = [];
    let hasComma = false;
    while (!this.#takes(close)) {
      items.push(this.#value());
      if (this.#takes(",")) hasComma = true;
      else {
        this.#expect(close);
        break;
      }
    }
    return { items, hasComma };
  }

  /** Reads a tuple, or a value in parentheses. */
  #group(): JsonValue {
    const { items, hasComma } = this.#items(")");
    const [only] = items;
    return items.length === 1 && !hasComma && only !== undefined ? only : items;
  }

  /** Reads a dictionary or a set. */
  #braces(): JsonValue {
    this.#at += 1;
    if (this.#takes("}")) return {};
    const first = this.#value();
    if (!this.#takes(":")) return this.#restOfSet(first);
    const members: [string, JsonValue][] = [[keyFrom(first), this.#value()]];
    while (this.#takes(",")) {
      if (this.#takes("}")) return Object.fromEntries(members);
      const key = keyFrom(this.#value());
      this.#expect(":");
      members.push([key, this.#value()]);
    }
    this.#expect("}");
    // Never assigns, so that a member `__proto__` stays a member.
    return Object.fromEntries(members);
  }

  #restOfSet(first: JsonValue): JsonValue {
    const items = [first];
    while (this.#takes(",")) {
      if (this.#takes("}")) return items;
      items.push(this.#value());
    }
    this.#expect("}");
    return items;
  }

  #enumMember(): JsonValue {
    const start = this.#peek(ENUM_START);
    if (start === undefined) throw this.#fault("has an object that is no literal");
    this.#at += start.length;
    const value = this.#value();
    this.#expect(">");
    return value;
  }

  #signedNumber(): JsonValue {
    let sign = "";
    for (let next = this.#text[this.#at]; next === "-" || next === "+"; next = this.#text[this.#at]) {
      sign = (sign === "-") === (next === "-") ? "" : "-";
      this.#at += 1;
      this.#skipSpace();
    }
    const start = this.#at;
    const digits = this.#peek(NUMBER);
    if (digits === undefined) {
      const name = this.#peek(NAME);
      if (name !== "inf" && name !== "nan") throw this.#fault("expects a number");
      this.#at += name.length;
      return `${sign}${name}`;
    }
    this.#at += digits.length;
    if (/[\p{L}\p{N}_]/u.test(this.#text[this.#at] ?? "")) throw new PythonLiteralError("has no such number", start);
    return numberFrom(sign, digits.replaceAll("_", ""), start);
  }

  /** Reads strings that stand side by side, which are one. */
  #strings(): JsonValue {
    const parts: string[] = [];
    for (;;) {
      STRING_START.lastIndex = this.#at;
      const [start, prefix = "", quote = ""] = STRING_START.exec(this.#text) ?? [];
      if (start === undefined) return parts.join("");
      if (!PREFIXES.has(prefix.toLowerCase())) throw this.#fault("has a string with an unknown prefix");
      this.#at += start.length;
      parts.push(this.#restOfString(quote, prefix.toLowerCase()));
      this.#skipSpace();
    }
  }

  #restOfString(quote: string, prefix: string): string {
    const start = this.#at;
    const isRaw = prefix.includes("r");
    const parts: string[] = [];
    let from = this.#at;
    for (;;) {
      const next = this.#text[this.#at];
      if (next === undefined || (quote.length === 1 && next === "\n"))
        throw new PythonLiteralError("has a string without an end", start);
      if (this.#text.startsWith(quote, this.#at)) break;
      if (next !== "\\") this.#at += 1;
      else if (isRaw) this.#at += 2;
      else {
        parts.push(this.#text.slice(from, this.#at), this.#escape(prefix === "b"));
        from = this.#at;
      }
    }
    parts.push(this.#text.slice(from, this.#at));
    this.#at += quote.length;
    return parts.join("");
  }

  /** Reads an escape, after which the reader stands. */
  #escape(isBytes: boolean): string {
    const start = this.#at;
    const letter = this.#text[start + 1] ?? "";
    this.#at += 2;
    if (letter === "\r" && this.#text[this.#at] === "\n") {
      this.#at += 1;
      return "";
    }
    const known = ESCAPES.get(letter);
    if (known !== undefined) return known;
    if (/[0-7]/.test(letter)) {
      const [octal = ""] = /^[0-7]{1,3}/.exec(this.#text.slice(start + 1, start + 4)) ?? [];
      this.#at = start + 1 + octal.length;
      return String.fromCharCode(Number.parseInt(octal, 8));
    }
    const digits = CODE_DIGITS.get(letter);
    if (digits !== undefined && (letter === "x" || !isBytes)) return this.#coded(start, digits);
    if (letter === "N" && !isBytes) throw new PythonLiteralError("names a character, which is not read", start);
    // Python keeps the backslash of an unknown escape.
    return `\\${letter}`;
  }

  #coded(start: number, digits: number): string {
    const code = this.#text.slice(this.#at, this.#at + digits);
    const point = /^[\da-fA-F]+$/.test(code) && code.length === digits ? Number.parseInt(code, 16) : Number.NaN;
    if (!(point <= 0x10ffff)) throw new PythonLiteralError("has no such escape", start);
    this.#at += digits;
    return String.fromCodePoint(point);
  }

  /** Reads a constant, or a call with its arguments. */
  #named(): JsonValue {
    const start = this.#at;
    const name = this.#peek(NAME);
    if (name === undefined) throw this.#fault("expects a value");
    this.#at += name.length;
    this.#skipSpace();
    if (this.#text[this.#at] === "(") return this.#nested(() => callFrom(name, this.#arguments()));
    const constant = CONSTANTS.get(name);
    if (constant === undefined) throw new PythonLiteralError(`has the name \`${name.slice(0, 40)}\``, start);
    return constant;
  }

  #arguments(): CallArguments {
    this.#at += 1;
    const positional: JsonValue[] = [];
    const named: [string, JsonValue][] = [];
    while (!this.#takes(")")) {
      this.#skipSpace();
      KEYWORD.lastIndex = this.#at;
      const [keyword, name = ""] = KEYWORD.exec(this.#text) ?? [];
      if (keyword !== undefined) this.#at += keyword.length;
      const value = this.#value();
      if (keyword === undefined) positional.push(value);
      else named.push([name, value]);
      if (this.#takes(",")) continue;
      this.#expect(")");
      break;
    }
    return { positional, named };
  }

  #skipSpace(): void {
    this.#at += this.#peek(SPACE)?.length ?? 0;
  }

  /** Returns what a pattern matches here. */
  #peek(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#text)?.[0];
  }

  /** Skips space and, if it comes next, a sign. */
  #takes(sign: string): boolean {
    this.#skipSpace();
    if (this.#text[this.#at] !== sign) return false;
    this.#at += 1;
    return true;
  }

  #expect(sign: string): void {
    if (!this.#takes(sign)) throw this.#fault(`expects \`${sign}\``);
  }

  #fault(message: string): PythonLiteralError {
    return new PythonLiteralError(message, this.#at);
  }
}

interface CallArguments {
  readonly positional: readonly JsonValue[];
  readonly named: readonly (readonly [string, JsonValue])[];
}

const keyFrom = (value: JsonValue): string => (typeof value === "string" ? value : JSON.stringify(value));

function numberFrom(sign: string, digits: string, position: number): JsonValue {
  if (/^0[xob]/i.test(digits)) {
    if (digits.length > MAX_BASE_DIGITS || digits.length < 3)
      throw new PythonLiteralError("has no such number", position);
    return numberFrom(sign, BigInt(digits).toString(), position);
  }
  if (/^\d+$/.test(digits)) {
    const plain = digits.replace(/^0+(?=\d)/, "");
    if (plain !== digits && plain !== "0") throw new PythonLiteralError("has no such number", position);
    return plain.length > MAX_EXACT_DIGITS ? `${sign}${plain}` : Number(`${sign}${plain}`) + 0;
  }
  const number = Number(`${sign}${digits}`);
  return Number.isFinite(number) ? number + 0 : `${sign}inf`;
}

function callFrom(name: string, { positional, named }: CallArguments): JsonValue {
  const time = timeFrom(name, positional);
  if (time !== undefined) return time;
  if (/^(?:set|frozenset|list|tuple|dict)$/.test(name) && named.length === 0 && positional.length <= 1)
    return positional[0] ?? (name === "dict" ? {} : []);
  if (named.length === 0)
    return positional.length === 1 && positional[0] !== undefined ? positional[0] : [...positional];
  const members = Object.fromEntries(named);
  return positional.length === 0 ? members : { ...members, args: [...positional] };
}

/** Writes the time of a call such as `datetime.datetime(2026, 1, 31, 9, 30)` in ISO 8601; undefined for another call. */
function timeFrom(name: string, parts: readonly JsonValue[]): string | undefined {
  const kind = /^(?:datetime\.)?(datetime|date|time)$/.exec(name)?.[1];
  const numbers = parts.filter((part) => typeof part === "number");
  if (kind === undefined || numbers.length < (kind === "time" ? 2 : 3)) return undefined;
  const two = (number: number | undefined): string => String(number ?? 0).padStart(2, "0");
  const [date, [hour, minute, second, micros]] =
    kind === "time" ? [[], numbers] : [numbers.slice(0, 3), numbers.slice(3)];
  const [year, month, day] = date;
  const dayText = year === undefined ? "" : `${String(year).padStart(4, "0")}-${two(month)}-${two(day)}`;
  if (kind === "date") return dayText;
  const fraction = micros === undefined || micros === 0 ? "" : `.${String(micros).padStart(6, "0")}`;
  return `${dayText}${dayText === "" ? "" : "T"}${two(hour)}:${two(minute)}:${two(second)}${fraction}`;
}
