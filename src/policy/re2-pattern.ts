import { RE2JS } from "@bufbuild/re2";

/** A compiled RE2 expression, or the reason why the text is invalid. */
export type Re2Result =
  | { readonly kind: "compiled"; readonly found: (text: string) => boolean }
  | { readonly kind: "invalid"; readonly message: string };

/** Compiles an RE2 expression that is searched for ignoring case, in time linear in the text. */
export function compileRe2(pattern: string): Re2Result {
  try {
    const expression = new RE2JS(`(?i)${pattern}`);
    return { kind: "compiled", found: (text) => expression.test(text) };
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    return { kind: "invalid", message: cause.replace(/\s+/g, " ").trim() };
  }
}

/** Says that a pattern does not compile, and why. */
export function patternMessage(pattern: string, cause: string): string {
  return `\`${pattern}\` is not an RE2 expression: ${cause}`;
}
