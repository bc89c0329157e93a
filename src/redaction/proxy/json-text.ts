import type { PersonalKind } from "../text/types.ts";
import { type AnswerTexts, addCounts, openPlainText, type TextStream } from "./text-stream.ts";

const STRUCTURE = /[\s{}[\],:]/;
const SPACE = /\s/;
const SCALAR = /[-+.0-9A-Za-z]/;
const LITERAL = /^(true|false|null)$/;
const NUMBER = /^-?\d[-+.0-9eE]*$/;
/** Longest scalar that is waited for; a longer one is no JSON. */
const MAX_SCALAR = 400;
/** The end of a run of plain characters inside a string. */
const RUN_END = /["\\]/g;
const UNICODE_ESCAPE = /^\\u[0-9a-fA-F]{4}$/;
const PART_OF_UNICODE = /^\\u[0-9a-fA-F]{0,3}$/;
const SHORT_ESCAPE = /^\\["\\/bfnrt]$/;

const encoded = (text: string): string => JSON.stringify(text).slice(1, -1);

type State = "structure" | "scalar" | "string" | "escape" | "plain";

/**
 * The text of a JSON document, scrubbed as what it says: strings are decoded, scrubbed and written again, so that a value
 * hidden by escapes is found and one with a quotation mark in it is put back escaped; a number that is a personal value
 * becomes a string. What turns out to be no JSON is scrubbed as plain text from there on.
 */
class JsonText implements TextStream {
  readonly #texts: AnswerTexts;
  readonly #leaked = new Map<PersonalKind, number>();
  #state: State = "structure";
  #waiting = "";
  #inner: TextStream | undefined;

  constructor(texts: AnswerTexts) {
    this.#texts = texts;
  }

  get leaked(): ReadonlyMap<PersonalKind, number> {
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
    return open + encoded(this.#closeInner());
  }

  /** Takes at least one character from `at` on; gives what may go out, and where the next step begins. */
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
      this.#inner = openPlainText(this.#texts);
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
    // Two scalars with nothing but white space between are no JSON, and may be one value: `4111 1111 1111 1111`.
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
    this.#inner = openPlainText(this.#texts);
    const scrubbed = this.#inner.push(text) + this.#closeInner();
    return scrubbed === text ? waited : JSON.stringify(scrubbed) + waited.slice(text.length);
  }

  #string(chunk: string, at: number): [string, number] {
    RUN_END.lastIndex = at;
    const end = RUN_END.exec(chunk)?.index ?? chunk.length;
    if (end > at) return [this.#pushDecoded(chunk.slice(at, end)), end];
    if (chunk[at] === "\\") {
      this.#state = "escape";
      this.#waiting = "\\";
      return ["", at + 1];
    }
    this.#state = "structure";
    return [`${encoded(this.#closeInner())}"`, at + 1];
  }

  #escape(chunk: string, at: number): [string, number] {
    this.#waiting += chunk[at];
    const text = this.#waiting;
    if (PART_OF_UNICODE.test(text)) return ["", at + 1];
    this.#state = "string";
    // What is no escape is no JSON either; it is kept as the characters that it is.
    const isEscape = SHORT_ESCAPE.test(text) || UNICODE_ESCAPE.test(text);
    return [this.#pushDecoded(isEscape ? JSON.parse(`"${text}"`) : text), at + 1];
  }

  #pushDecoded(text: string): string {
    return encoded(this.#inner?.push(text) ?? "");
  }

  #becomePlain(text: string): string {
    this.#state = "plain";
    this.#inner = openPlainText(this.#texts);
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

/** Opens a stream of the text of a JSON document. */
export function openJsonText(texts: AnswerTexts): TextStream {
  return new JsonText(texts);
}
