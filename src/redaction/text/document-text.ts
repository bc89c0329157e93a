/** Strings and numbers of a JSON document. */
const JSON_TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[-+.0-9eE]*/g;

/** Tests whether a text is a JSON document with members or items. */
export function isJsonDocument(text: string): boolean {
  if (!/^\s*[{["]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Hides the personal values of one text. In a JSON document, such as the arguments and results of tools, it hides them in the
 * decoded strings and numbers, so that escapes cannot conceal a value and the text stays JSON.
 */
export function hideInText(hide: (text: string) => string, text: string): string {
  if (!isJsonDocument(text)) return hide(text);
  return text.replace(JSON_TOKENS, (token) => {
    const said = token.startsWith('"') ? (JSON.parse(token) as string) : token;
    const hidden = hideInText(hide, said);
    return hidden === said ? token : JSON.stringify(hidden);
  });
}
