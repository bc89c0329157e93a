/** Maximum characters of a name in a message. */
const MAX_NAME = 120;
const CONTROLS_AND_BLANKS = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\s]+/gu;
/** Punctuation that readers of messages take for the start of an address. */
const LINK_MARKS = /([.:/@])(?=\S)/g;

/** Returns a name as one line without control characters and invisible ones, cut after 120 characters. */
export function oneLine(text: string, most = MAX_NAME): string {
  const line = text.replaceAll(CONTROLS_AND_BLANKS, " ").trim();
  const characters = [...line];
  return characters.length <= most ? line : `${characters.slice(0, most - 1).join("")}…`;
}

/**
 * Returns a name as one line that no mail or chat program turns into a link: a word joiner, which nobody sees, stands after each dot,
 * colon, slash and at sign.
 */
export const unlinked = (text: string, most = MAX_NAME): string =>
  oneLine(text, most).replaceAll(LINK_MARKS, "$1\u2060");
