import type { DescEnum } from "@bufbuild/protobuf";

/** The values of an enum as JSON, queries and paths write them. */
export interface EnumWords {
  /** The lower-case word of a number, `null` for the zero value `…_UNSPECIFIED`; no entry for an undeclared number. */
  readonly wordByNumber: ReadonlyMap<number, string | null>;
  /** The number of a word or of a full protobuf name; the unspecified value has neither. */
  readonly numberByWord: ReadonlyMap<string, number>;
  /** The words in the order of their declaration, without the unspecified value. */
  readonly words: readonly string[];
}

const UNSPECIFIED = /(?:^|_)UNSPECIFIED$/;

/** Derives the words of an enum: its value names in lower case without the prefix that all of them share. */
export function enumWordsFromDesc(desc: DescEnum): EnumWords {
  const wordByNumber = new Map<number, string | null>();
  const numberByWord = new Map<string, number>();
  const words: string[] = [];
  for (const { name, number } of desc.values) {
    if (number === 0 && UNSPECIFIED.test(name)) {
      wordByNumber.set(number, null);
      continue;
    }
    const word = name.slice(desc.sharedPrefix?.length ?? 0).toLowerCase();
    words.push(word);
    wordByNumber.set(number, word);
    numberByWord.set(word, number);
    numberByWord.set(name, number);
  }
  return { wordByNumber, numberByWord, words };
}
