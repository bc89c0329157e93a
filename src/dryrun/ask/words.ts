import { invalidField } from "../../errors.ts";

/** A word of a question, or the text between quotes. */
export interface Word {
  readonly text: string;
  /** True for a text in quotes, which is never a key word. */
  readonly isQuoted: boolean;
}

/** The words of a question, and the text from its first unquoted `{` on. */
interface QuestionWords {
  readonly words: readonly Word[];
  readonly json: string | undefined;
}

const BLANKS = /\s*/y;
const QUOTED = /"((?:[^"\\]|\\.)*)"(?=\s|$)/sy;
const PLAIN = /\S+/y;

/** Splits a question into words. Question marks at its end are left out. Throws INVALID_FIELD for quotes that are not closed. */
export function readWords(question: string): QuestionWords {
  const text = question.trim().replace(/[?\s]+$/, "");
  const words: Word[] = [];
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found !== null) at = pattern.lastIndex;
    return found;
  };
  for (take(BLANKS); at < text.length; take(BLANKS)) {
    if (text[at] === "{") return { words, json: text.slice(at) };
    if (text[at] === '"') words.push({ text: unescaped(take(QUOTED)), isQuoted: true });
    else words.push({ text: take(PLAIN)?.[0] ?? "", isQuoted: false });
  }
  return { words, json: undefined };
}

function unescaped(found: RegExpExecArray | null): string {
  const [, text] = found ?? [];
  if (text !== undefined) return text.replace(/\\(.)/gs, "$1");
  throw invalidField("question", "has a quotation mark that is not closed, or text that follows one without a blank");
}
