import type { DescEnum } from "@bufbuild/protobuf";

/** Values of an enum in JSON, queries and paths. */
export interface EnumWords {
  /** Lower-case word of each number, `null` for the zero value `…_UNSPECIFIED`; undeclared numbers have no entry. */
  readonly wordByNumber: ReadonlyMap<number, string | null>;
  /** Number of each word and of each full protobuf name, except those of the unspecified value. */
  readonly numberByWord: ReadonlyMap<string, number>;
  /** Words in the order of declaration, without the unspecified value. */
  readonly words: readonly string[];
}

const UNSPECIFIED = /(?:^|_)UNSPECIFIED$/;

/** Derives the words of an enum: lower-case value names without their shared prefix. */
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
