import type { KindCounts, PersonalKind, Placeholders, Scrubber } from "../text/types.ts";

/** A text of an answer on its way down, in chunks split anywhere. */
export interface TextStream {
  /** Takes the next chunk and gives what may go out. */
  push(chunk: string): string;
  /** Gives the rest. Nothing may be pushed afterwards. */
  end(): string;
  /** What was leaked so far. */
  readonly leaked: KindCounts;
}

/** How the texts of one answer are scrubbed. */
export interface AnswerTexts {
  readonly scrubber: Scrubber;
  /** The placeholders of the request. */
  readonly placeholders: Placeholders;
  /** Whether placeholders become values again. */
  readonly restore: boolean;
}

/** Adds counts to others. */
export function addCounts(into: Map<PersonalKind, number>, from: KindCounts): void {
  for (const [kind, count] of from) into.set(kind, (into.get(kind) ?? 0) + count);
}

/** Opens a stream of plain text. */
export function openPlainText({ scrubber, placeholders, restore }: AnswerTexts): TextStream {
  const stream = scrubber.openStream({ placeholders, restore });
  return {
    push: (chunk) => stream.push(chunk),
    end: () => stream.end(),
    get leaked() {
      return stream.leakedByKind;
    },
  };
}
