import { RE2JS } from "@bufbuild/re2";

/** A quoted part, an escape, a count, or a brace that begins none of them. */
const BRACES = /\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{|\\[\s\S]|\{(?:0|[1-9]\d*)(?:,(?:0|[1-9]\d*)?)?\}|\{/g;

/**
 * Escapes each brace that is a literal. The engine takes it for a count, so that it refuses an operator behind it: `{+`, which RE2 has.
 */
const withLiteralBraces = (pattern: string): string =>
  pattern.replace(BRACES, (found) => (found === "{" ? "\\{" : found));

/** Finds a named list; undefined if there is none of this name. */
export type NaiveLists = (name: string) => { readonly kind: string; readonly values: readonly string[] } | undefined;

/**
 * RE2 expressions of one mandate, each compiled on first use by another engine than the compiled rules use, and the lists that its
 * conditions name.
 */
export class NaivePatterns {
  /** Default: no lists. */
  readonly lists: NaiveLists;
  readonly #compiled = new Map<string, RE2JS>();

  constructor(lists: NaiveLists = () => undefined) {
    this.lists = lists;
  }

  /** Tests whether an expression is found in a text or in its plain form; for a rule that allows, in both. */
  isFoundIn(pattern: string, text: string, isAllow: boolean): boolean {
    const forms = [text, plainForm(text)].map((form) => this.isFound(pattern, form));
    return isAllow ? forms.every(Boolean) : forms.some(Boolean);
  }

  /** Tests whether an expression is found anywhere in a text, ignoring case. Throws for a text that is not an expression. */
  isFound(pattern: string, text: string, { ignoreCase = true } = {}): boolean {
    const key = `${ignoreCase} ${pattern}`;
    let compiled = this.#compiled.get(key);
    if (compiled === undefined) {
      compiled = new RE2JS(withLiteralBraces(pattern), ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
      this.#compiled.set(key, compiled);
    }
    return compiled.test(text);
  }
}

const BLANKS = [..."\t\n\v\f\r"];
/** The empty braille pattern, and the marks around annotations. */
const EMPTY_SIGNS = [..."\u2800\ufff9\ufffa\ufffb"];

const isSeen = (character: string): boolean =>
  BLANKS.includes(character) ||
  !(/\p{Cc}|\p{Default_Ignorable_Code_Point}/u.test(character) || EMPTY_SIGNS.includes(character));

const isMark = (character: string): boolean => /\p{M}|[\uff9e\uff9f]/u.test(character);

/** Writes a text without what nobody sees, without marks beyond ten in a row, and without compatibility forms. */
export function plainForm(text: string): string {
  const seen = [...text].filter(isSeen);
  const isKept = (_: string, at: number): boolean => at < 10 || !seen.slice(at - 10, at + 1).every(isMark);
  return seen.filter(isKept).join("").normalize("NFKC");
}

/** Removes blanks and unseen characters around a text. */
export function trimmed(text: string): string {
  const isInner = (character: string): boolean => isSeen(character) && character.trim() !== "";
  const characters = [...text];
  if (!characters.some(isInner)) return "";
  return characters.slice(characters.findIndex(isInner), characters.findLastIndex(isInner) + 1).join("");
}

/** Writes a name or a value in the form in which both compare. */
export function foldNaively(text: string): string {
  const letters = [...plainForm(text).toLowerCase()];
  const folded = letters.map((letter) => (letter === "ı" ? letter : letter.toUpperCase().toLowerCase()));
  return folded.join("").replaceAll("ς", "σ").normalize("NFKC").trim();
}

/** Tests an action type against patterns in which `*` stands for any characters. */
export function matchesAny(patterns: readonly string[], actionType: string): boolean {
  const type = foldNaively(actionType);
  return patterns.map(foldNaively).some((pattern) => {
    // Each place of the pattern with all places of the type that it can stand at.
    let places = new Set([0]);
    for (const sign of pattern) {
      const next = [...places].flatMap((at) => {
        if (sign === "*") return Array.from({ length: type.length - at + 1 }, (_, more) => at + more);
        return type.startsWith(sign, at) ? [at + sign.length] : [];
      });
      places = new Set(next);
    }
    return places.has(type.length);
  });
}
