import type { Work } from "../../async/work.ts";
import { addCounts, type PersonalKind } from "../../text/personal-kinds.ts";
import type { ScrubberStream } from "../text/scrubber.ts";
import { type Place, walkAnswer } from "./answer-walk.ts";
import { type JsonMap, llmUnavailable } from "./protocol.ts";
import {
  assertMediaAllowed,
  openText,
  pushText,
  type ResponseOptions,
  scrubValue,
  textNameOf,
} from "./scrub-response.ts";

/** Path in a message: names of members, and for lists the `index` member of items. */
type Path = readonly (string | number)[];

function pathOf(place: Place, step: "key" | "shown"): Path {
  const path: (string | number)[] = [];
  for (let at: Place | undefined = place; at?.parent !== undefined; at = at.parent) path.unshift(at[step]);
  return path;
}

const keyOf = (place: Place): string => JSON.stringify(pathOf(place, "key"));

/** A scrubbed piece of a message. */
export interface ScrubbedPiece {
  readonly piece: JsonMap;
  /** False if all of its text is held back. */
  readonly hasContent: boolean;
}

/** A text of a message that arrives in pieces. */
interface PendingText {
  readonly path: Path;
  readonly stream: ScrubberStream;
}

/** Maximum number of texts of one message. */
const MAX_TEXTS = 1_000;
/** Characters of a whole text that are remembered, since clients join the pieces of a name or an id. */
const MAX_TAIL = 128;

// Without a prototype, since a name from the model's service may be `__proto__`.
const emptyMap = (): Record<string, unknown> => Object.create(null);

const setAt = (target: Record<string, unknown>, path: Path, text: string): void => {
  let at: Record<string, unknown> = target;
  for (const [depth, step] of path.slice(0, -1).entries()) {
    const next = path[depth + 1];
    if (typeof step === "number") continue;
    if (typeof next === "number") {
      at[step] ??= [];
      const list = at[step] as Record<string, unknown>[];
      const item = list.find(({ index }) => index === next) ?? Object.assign(emptyMap(), { index: next });
      if (!list.includes(item)) list.push(item);
      at = item;
    } else {
      at[step] ??= emptyMap();
      at = at[step] as Record<string, unknown>;
    }
  }
  at[path.at(-1) as string] = text;
};

/** Scrubs one message that arrives in pieces. Each text in it is a separate stream, identified by its path. */
export class PendingPieces {
  readonly #options: ResponseOptions;
  readonly #leaked: Map<PersonalKind, number>;
  readonly #texts = new Map<string, PendingText>();
  /** Ends of the whole texts so far, by path. */
  readonly #tails = new Map<string, string>();
  #hasContent = false;

  /** Adds leaks to `leaked` when texts end. */
  constructor(options: ResponseOptions, leaked: Map<PersonalKind, number>) {
    this.#options = options;
    this.#leaked = leaked;
  }

  /** Number of texts that have begun. */
  get size(): number {
    return this.#texts.size;
  }

  /** Scrubs the next piece: each text in it continues the text at its path. */
  *push(piece: JsonMap): Work<ScrubbedPiece> {
    this.#hasContent = false;
    const texts = {
      alone: (text: string) => this.#scrubAlone(text),
      whole: (place: Place, text: string) => this.#pushWhole(place, text),
      continued: (place: Place, text: string) => this.#pushContinued(place, text),
      pass: () => {
        this.#hasContent = true;
      },
      media: () => assertMediaAllowed(this.#options),
    };
    const scrubbed = (yield* walkAnswer(texts, piece)) as JsonMap;
    return { piece: scrubbed, hasContent: this.#hasContent };
  }

  /** Ends all texts. Returns a piece with the text held back, if any. */
  end(): JsonMap | undefined {
    const rest = emptyMap();
    for (const { path, stream } of this.#texts.values()) {
      const text = stream.end();
      addCounts(this.#leaked, stream.leaked);
      if (text !== "") setAt(rest, path, text);
    }
    this.#texts.clear();
    return Object.keys(rest).length === 0 ? undefined : (rest as JsonMap);
  }

  /** Scrubs a text that is whole, such as an id. Throws for one that makes a value together with the text before it. */
  *#pushWhole(place: Place, text: string): Work<string> {
    this.#hasContent = true;
    const scrubbed = yield* this.#scrubAlone(text);
    const key = keyOf(place);
    const before = this.#tails.get(key);
    // Services repeat an id in every piece.
    if (before === text || text === "") return scrubbed;
    if (before !== undefined) {
      const apart = (yield* this.#scrubAlone(before, new Map())) + scrubbed;
      if ((yield* this.#scrubAlone(before + text, new Map())) !== apart) {
        throw llmUnavailable("the model's service sent a name or an id in pieces, which cannot be scrubbed");
      }
    } else if (this.#tails.size >= MAX_TEXTS) throw tooManyTexts();
    this.#tails.set(key, ((before ?? "") + text).slice(-MAX_TAIL));
    return scrubbed;
  }

  *#scrubAlone(text: string, leaked = this.#leaked): Work<string> {
    return (yield* scrubValue(this.#options, text, leaked)) as string;
  }

  *#pushContinued(place: Place, text: string): Work<string> {
    const out = yield* pushText(this.#streamAt(place), text);
    if (out !== "") this.#hasContent = true;
    return out;
  }

  #streamAt(place: Place): ScrubberStream {
    const key = keyOf(place);
    const known = this.#texts.get(key)?.stream;
    if (known !== undefined) return known;
    if (this.#texts.size >= MAX_TEXTS) throw tooManyTexts();
    const stream = openText(this.#options, textNameOf(place));
    this.#texts.set(key, { path: pathOf(place, "shown"), stream });
    return stream;
  }
}

const tooManyTexts = () => llmUnavailable("the model's service sent a message of too many texts");
