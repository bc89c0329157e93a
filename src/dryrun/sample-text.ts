import type { NaivePatterns } from "./naive/naive-patterns.ts";

/** Texts that a negated class may match, the plainest first. */
const ANYTHING = [..."a0-_ ~.A%"];
/** Maximum characters of a sample; counted repeats would make it long. */
const MAX_SAMPLE = 1_000;

/** Error for an expression from which no sample can be derived. */
class NotDerivable extends Error {}

const CLASS_SAMPLES: Readonly<Record<string, string>> = { d: "0", w: "a", s: " ", D: "a", W: "-", S: "a" };
const CLASS_MEMBERS: Readonly<Record<string, RegExp>> = {
  d: /\d/,
  w: /\w/,
  s: /\s/,
  D: /\D/,
  W: /\W/,
  S: /\S/,
};
const CONTROLS: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", f: "\f", v: "\v" };
/** Escapes that take no text. */
const ZERO_WIDTH = ["b", "A", "z"];

/** Reads an RE2 expression from left to right and writes the plainest text that it matches. */
class SampleReader {
  readonly #pattern: string;
  #at = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  /** Returns the sample of the whole expression. Throws `NotDerivable`. */
  read(): string {
    const sample = this.#readChoices();
    if (this.#at < this.#pattern.length) throw new NotDerivable();
    return sample;
  }

  /** Takes the first of several choices; the others are read past. */
  #readChoices(): string {
    const first = this.#readSequence();
    while (this.#take("|")) this.#readSequence();
    return first;
  }

  #readSequence(): string {
    let sample = "";
    while (this.#at < this.#pattern.length && !["|", ")"].includes(this.#next)) {
      sample += this.#readRepeated();
      if (sample.length > MAX_SAMPLE) throw new NotDerivable();
    }
    return sample;
  }

  #readRepeated(): string {
    const atom = this.#readAtom();
    const times = this.#readTimes();
    if (atom.length * times > MAX_SAMPLE) throw new NotDerivable();
    return atom.repeat(times);
  }

  #readTimes(): number {
    const counted = /^\{(\d+)(?:,(\d*))?\}/.exec(this.#pattern.slice(this.#at));
    let times = 1;
    if (counted !== null) {
      times = Number(counted[1]) || (counted[2] === "0" || counted[2] === undefined ? 0 : 1);
      this.#at += counted[0].length;
    } else if (!["*", "+", "?"].includes(this.#next)) return 1;
    else this.#at++;
    this.#take("?");
    return times;
  }

  #readAtom(): string {
    const character = this.#pattern[this.#at++] as string;
    if (character === "(") return this.#readGroup();
    if (character === "[") return this.#readClass();
    if (character === "\\") return this.#readEscape();
    if (character === ".") return "x";
    return character === "^" || character === "$" ? "" : character;
  }

  #readGroup(): string {
    const flags = /^\?(?:P?<\w+>|[imsU-]*(:|\)))/.exec(this.#pattern.slice(this.#at));
    if (flags !== null) this.#at += flags[0].length;
    else if (this.#next === "?") throw new NotDerivable();
    if (flags?.[1] === ")") return "";
    const sample = this.#readChoices();
    if (!this.#take(")")) throw new NotDerivable();
    return sample;
  }

  #readEscape(): string {
    const character = this.#pattern[this.#at++] ?? "";
    if (ZERO_WIDTH.includes(character)) return "";
    const sample = CLASS_SAMPLES[character] ?? CONTROLS[character];
    if (sample !== undefined) return sample;
    if (/[\w]/.test(character) || character === "") throw new NotDerivable();
    return character;
  }

  #readClass(): string {
    const isNegated = this.#take("^");
    const tests: ((character: string) => boolean)[] = [];
    const samples: string[] = [];
    do this.#readMember(tests, samples);
    while (this.#next !== "]" && this.#at < this.#pattern.length);
    if (!this.#take("]")) throw new NotDerivable();
    const candidates = isNegated ? ANYTHING : samples;
    const found = candidates.find((candidate) => tests.some((test) => test(candidate)) !== isNegated);
    if (found === undefined) throw new NotDerivable();
    return found;
  }

  #readMember(tests: ((character: string) => boolean)[], samples: string[]): void {
    if (this.#pattern.startsWith("[:", this.#at)) throw new NotDerivable();
    const isEscaped = this.#next === "\\";
    const first = this.#readClassCharacter();
    const set = isEscaped ? CLASS_MEMBERS[first] : undefined;
    if (set !== undefined) {
      samples.push(CLASS_SAMPLES[first] as string);
      tests.push((character) => set.test(character));
      return;
    }
    const low = isEscaped ? (CONTROLS[first] ?? first) : first;
    samples.push(low);
    const isRange = this.#next === "-" && this.#pattern[this.#at + 1] !== "]";
    if (isRange) this.#at++;
    const high = isRange ? this.#readClassCharacter() : low;
    tests.push((character) => low <= character && character <= high);
  }

  #readClassCharacter(): string {
    this.#take("\\");
    const character = this.#pattern[this.#at++];
    if (character === undefined) throw new NotDerivable();
    return character;
  }

  get #next(): string {
    return this.#pattern[this.#at] ?? "";
  }

  #take(wanted: string): boolean {
    if (this.#next !== wanted) return false;
    this.#at++;
    return true;
  }
}

/** Returns a text in which an RE2 expression is found; undefined if none can be derived from the expression. */
export function sampleText(
  pattern: string,
  patterns: NaivePatterns,
  options?: { ignoreCase: boolean },
): string | undefined {
  try {
    const sample = new SampleReader(pattern).read();
    return patterns.isFound(pattern, sample, options) ? sample : undefined;
  } catch (error) {
    if (error instanceof NotDerivable) return undefined;
    throw error;
  }
}

/** Maximum number of characters of a sample that are each left out in turn. */
const MAX_LEFT_OUT = 24;

/** Returns texts close to a sample of an expression in which the expression is not found. */
export function nearMisses(pattern: string, sample: string, patterns: NaivePatterns): readonly string[] {
  const characters = [...sample];
  const close = [
    characters.slice(0, -1).join(""),
    ...characters.slice(0, MAX_LEFT_OUT).map((_, index) => characters.toSpliced(index, 1).join("")),
    `x${sample}`,
    `${sample}x`,
    "nothing to see",
    "",
  ];
  return [...new Set(close)].filter((text) => !patterns.isFound(pattern, text));
}

/** From an ASCII sign to its full-width form. */
const FULL_WIDTH = 0xfee0;

/** Returns spellings that show the same as a text: in full-width letters, and with an invisible character inside. */
export function disguisesOf(text: string): readonly (readonly [name: string, text: string])[] {
  const wide = text.replace(/[!-~]/g, (sign) => String.fromCharCode(sign.charCodeAt(0) + FULL_WIDTH));
  const [first = "", ...rest] = text;
  return [
    ["in full-width letters", wide],
    ["with an invisible character inside", `${first}\u200b${rest.join("")}`],
  ];
}
