/** A spelling of other languages in an expression. */
export interface Slip {
  /** Its place in the text, in UTF-16 units. */
  readonly at: number;
  readonly found: string;
  /** Spelling of CEL. */
  readonly suggestion: string;
}

/** A text in quotes, a comment, a word, a number, an operator, or any other character. */
const TOKEN =
  /[rR]?(?:"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|\/\/[^\n]*|[A-Za-z_]\w*|\d[\w.]*|[=!<>&|]+|\S/g;
/** Token that ends a value. */
const ENDS_VALUE = /[\w)\]}"']$/;

/** Operators of other languages, with those of CEL. */
const OPERATORS: ReadonlyMap<string, string> = new Map([
  ["=", "=="],
  ["===", "=="],
  ["!==", "!="],
  ["<>", "!="],
  ["=>", ">="],
  ["=<", "<="],
  ["&", "&&"],
  ["|", "||"],
  ["≥", ">="],
  ["≤", "<="],
  ["≠", "!="],
  ["“", '"'],
  ["”", '"'],
  ["„", '"'],
  ["‘", "'"],
  ["’", "'"],
  ["`", '"'],
]);
/** Words that stand between two values in other languages. */
const WORDS: ReadonlyMap<string, string> = new Map([
  ["and", "&&"],
  ["or", "||"],
  ["is", "=="],
  ["equals", "=="],
  ["contains", ".contains(…)"],
  ["startswith", ".startsWith(…)"],
  ["endswith", ".endsWith(…)"],
  ["matches", ".matches(…)"],
  ["then", "?"],
  ["else", ":"],
]);

/** Finds the first spelling of another language in an expression that does not parse. */
export function findSlip(text: string): Slip | undefined {
  const tokens = [...text.matchAll(TOKEN)].filter(([token]) => !token.startsWith("//"));
  for (const [index, { 0: found, index: at }] of tokens.entries()) {
    const operator = OPERATORS.get(found);
    if (operator !== undefined) return { at, found, suggestion: operator };
    const [previous = "", next = ""] = [tokens[index - 1]?.[0], tokens[index + 1]?.[0]];
    const word = found.toLowerCase();
    // A word of these may also be a member, or a function that there is not.
    const isBetween = previous !== "." && ENDS_VALUE.test(previous) && next !== "";
    const suggestion = isBetween ? WORDS.get(word) : undefined;
    if (suggestion !== undefined) return { at, found, suggestion };
    if (word === "not" && previous !== "." && /^[\w(!"']/.test(next)) return { at, found, suggestion: "!" };
  }
  return undefined;
}

/** Finds the first bracket that is not closed. */
export function findOpenBracket(text: string): { readonly at: number; readonly bracket: string } | undefined {
  const open: { readonly at: number; readonly bracket: string }[] = [];
  for (const { 0: token, index: at } of text.matchAll(TOKEN)) {
    if (token === "(" || token === "[" || token === "{") open.push({ at, bracket: token });
    else if (token === ")" || token === "]" || token === "}") open.pop();
  }
  return open[0];
}
