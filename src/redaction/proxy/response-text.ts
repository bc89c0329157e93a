import { addCounts, type KindCounts, type PersonalKind } from "../../text/personal-kinds.ts";
import type { Placeholders } from "../text/placeholders.ts";
import type { Scrubber, ScrubberStream } from "../text/scrubber.ts";

/** Options for the texts of one response. */
export interface TextOptions {
  readonly scrubber: Scrubber;
  /** Placeholders of the request. */
  readonly placeholders: Placeholders;
  /** True replaces placeholders by their values; false keeps them. */
  readonly restore: boolean;
  /** Scrubber of our key for the model's service, if the key is to be masked. */
  readonly llmKey?: Scrubber | undefined;
}

/** Mask of our key for the model's service. */
export const KEY_MASK = "***";

/** Masks our key in a text before the text is scrubbed. The key is not a personal value and does not count as a leak. */
class MaskedText implements ScrubberStream {
  readonly #mask: ScrubberStream;
  readonly #inner: ScrubberStream;

  constructor(mask: ScrubberStream, inner: ScrubberStream) {
    this.#mask = mask;
    this.#inner = inner;
  }

  get leaked(): KindCounts {
    return this.#inner.leaked;
  }

  push(chunk: string): string {
    return this.#inner.push(this.#mask.push(chunk));
  }

  end(): string {
    return this.#inner.push(this.#mask.end()) + this.#inner.end();
  }
}

function masked({ llmKey }: TextOptions, inner: ScrubberStream): ScrubberStream {
  if (llmKey === undefined) return inner;
  return new MaskedText(llmKey.openStream({ restore: false, replace: () => KEY_MASK }), inner);
}

/** Opens a stream for plain text. */
export const openPlainText = (options: TextOptions): ScrubberStream => {
  const { scrubber, placeholders, restore } = options;
  return masked(options, scrubber.openStream({ placeholders, restore }));
};

const STRUCTURE = /[\s{}[\],:]/;
const SPACE = /\s/;
const SCALAR = /[-+.0-9A-Za-z]/;
const LITERAL = /^(true|false|null)$/;
const NUMBER = /^-?\d[-+.0-9eE]*$/;
/** Maximum length of a scalar; text with a longer one is not JSON. */
const MAX_SCALAR = 400;
/** End of a run of plain characters inside a string. */
const RUN_END = /["\\]/;
const UNICODE_ESCAPE = /^\\u[0-9a-fA-F]{4}$/;
const PART_OF_UNICODE = /^\\u[0-9a-fA-F]{0,3}$/;
const SHORT_ESCAPE = /^\\["\\/bfnrt]$/;

const encodeString = (text: string): string => JSON.stringify(text).slice(1, -1);

type State = "structure" | "scalar" | "string" | "escape" | "plain";

/**
 * Scrubs the text of a JSON document by its values. Strings are decoded, scrubbed and encoded again, so that a value behind
 * escapes is found and a restored value is escaped. A number that is a personal value becomes a string. Text that turns out not
 * to be JSON is scrubbed as plain text from there on.
 */
class JsonText implements ScrubberStream {
  readonly #options: TextOptions;
  readonly #leaked = new Map<PersonalKind, number>();
  #state: State = "structure";
  #waiting = "";
  /** Stream of the current string, number or plain text. */
  #inner: ScrubberStream | undefined;

  constructor(options: TextOptions) {
    this.#options = options;
  }

  get leaked(): KindCounts {
    const all = new Map(this.#leaked);
    if (this.#inner !== undefined) addCounts(all, this.#inner.leaked);
    return all;
  }

  push(chunk: string): string {
    let out = "";
    let at = 0;
    while (at < chunk.length) {
      const [text, next] = this.#step(chunk, at);
      out += text;
      at = next;
    }
    return out;
  }

  end(): string {
    if (this.#state === "scalar") return this.#endScalar() + this.#closeInner();
    if (this.#state === "plain") return this.#closeInner();
    const open = this.#state === "escape" ? this.#pushDecoded(this.#waiting) : "";
    return open + encodeString(this.#closeInner());
  }

  /** Consumes at least one character from `at` on. Returns the output and the index of the next step. */
  #step(chunk: string, at: number): [string, number] {
    switch (this.#state) {
      case "structure":
        return this.#structure(chunk, at);
      case "scalar":
        return this.#scalar(chunk, at);
      case "string":
        return this.#string(chunk, at);
      case "escape":
        return this.#escape(chunk, at);
      default:
        return [this.#inner?.push(chunk.slice(at)) ?? "", chunk.length];
    }
  }

  #structure(chunk: string, at: number): [string, number] {
    const character = chunk[at] as string;
    if (STRUCTURE.test(character)) return [character, at + 1];
    if (character === '"') {
      this.#state = "string";
      this.#inner = openPlainText(this.#options);
      return [character, at + 1];
    }
    if (!SCALAR.test(character)) return [this.#becomePlain(""), at];
    this.#state = "scalar";
    this.#waiting = "";
    return ["", at];
  }

  #scalar(chunk: string, at: number): [string, number] {
    const character = chunk[at] as string;
    const isSpace = SPACE.test(character);
    if (!isSpace && !SCALAR.test(character)) return [this.#endScalar(), at];
    // Two scalars with only white space between them are not JSON, but may be one value: `4111 1111 1111 1111`.
    const isSecond = !isSpace && SPACE.test(this.#waiting.at(-1) ?? "");
    this.#waiting += character;
    return [isSecond || this.#waiting.length > MAX_SCALAR ? this.#becomePlain(this.#waiting) : "", at + 1];
  }

  #endScalar(): string {
    const waited = this.#waiting;
    const text = waited.trimEnd();
    if (!LITERAL.test(text) && !NUMBER.test(text)) return this.#becomePlain(waited);
    this.#waiting = "";
    this.#state = "structure";
    if (LITERAL.test(text)) return waited;
    this.#inner = openPlainText(this.#options);
    const scrubbed = this.#inner.push(text) + this.#closeInner();
    return scrubbed === text ? waited : JSON.stringify(scrubbed) + waited.slice(text.length);
  }

  #string(chunk: string, at: number): [string, number] {
    const length = chunk.slice(at).search(RUN_END);
    const end = length === -1 ? chunk.length : at + length;
    if (end > at) return [this.#pushDecoded(chunk.slice(at, end)), end];
    if (chunk[at] === "\\") {
      this.#state = "escape";
      this.#waiting = "\\";
      return ["", at + 1];
    }
    this.#state = "structure";
    return [`${encodeString(this.#closeInner())}"`, at + 1];
  }

  #escape(chunk: string, at: number): [string, number] {
    this.#waiting += chunk[at];
    const text = this.#waiting;
    if (PART_OF_UNICODE.test(text)) return ["", at + 1];
    this.#state = "string";
    // A malformed escape is kept as plain characters.
    const isEscape = SHORT_ESCAPE.test(text) || UNICODE_ESCAPE.test(text);
    return [this.#pushDecoded(isEscape ? (JSON.parse(`"${text}"`) as string) : text), at + 1];
  }

  #pushDecoded(text: string): string {
    return encodeString(this.#inner?.push(text) ?? "");
  }

  #becomePlain(text: string): string {
    this.#state = "plain";
    this.#inner = openPlainText(this.#options);
    return this.#inner.push(text);
  }

  #closeInner(): string {
    const inner = this.#inner;
    if (inner === undefined) return "";
    const rest = inner.end();
    addCounts(this.#leaked, inner.leaked);
    this.#inner = undefined;
    return rest;
  }
}

/** Opens a stream for the text of a JSON document. Our key is masked in the text itself and in the decoded values. */
export function openJsonText(options: TextOptions): ScrubberStream {
  return masked(options, new JsonText(options));
}
