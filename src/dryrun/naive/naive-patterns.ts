import { RE2JS } from "@bufbuild/re2";

/** A quoted part, an escape, a count, or a brace that begins none of them. */
const BRACES = /\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{|\\[\s\S]|\{(?:0|[1-9]\d*)(?:,(?:0|[1-9]\d*)?)?\}|\{/g;

/**
 * Escapes each brace that is a literal. The engine takes it for a count, so that it refuses an operator behind it: `{+`, which RE2 has.
 */
const withLiteralBraces = (pattern: string): string =>
  pattern.replace(BRACES, (found) => (found === "{" ? "\\{" : found));

/** RE2 expressions of one mandate, each compiled on first use by another engine than the compiled rules use. */
export class NaivePatterns {
  readonly #compiled = new Map<string, RE2JS>();

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

/** Writes a name in the form in which names compare. */
export function foldName(name: string): string {
  const letters = [...name.normalize("NFKC").toLowerCase()];
  const folded = letters.map((letter) => (letter === "ı" ? letter : letter.toUpperCase().toLowerCase()));
  return folded.join("").replaceAll("ς", "σ").normalize("NFKC").trim();
}

/** Tests an action type against patterns that are exact or end in `*`. */
export function matchesAny(patterns: readonly string[], actionType: string): boolean {
  const type = foldName(actionType);
  return patterns.map(foldName).some((pattern) => {
    if (pattern.at(-1) !== "*") return pattern === type;
    return type.slice(0, pattern.length - 1) === pattern.slice(0, -1);
  });
}
