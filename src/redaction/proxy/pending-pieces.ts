import type { Work } from "../../async/work.ts";
import { addCounts, type PersonalKind } from "../../text/personal-kinds.ts";
import type { ScrubberStream } from "../text/scrubber.ts";
import { isMap, isMedia, isMediaMember, isOpaque, type Json, type JsonMap, llmUnavailable } from "./protocol.ts";
import { assertMediaAllowed, openText, pushText, type ResponseOptions, scrubValue } from "./scrub-response.ts";

/** Path in a message: names of members, and for lists the `index` member of items. */
type Path = readonly (string | number)[];

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
/** Members whose text arrives whole. */
const WHOLE_MEMBERS = new Set(["name"]);

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
    const scrubbed = (yield* this.#pushValue([], "", piece)) as JsonMap;
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

  *#pushValue(path: Path, name: string, value: Json): Work<Json> {
    if (typeof value === "string") return yield* this.#pushText(path, name, value);
    if (Array.isArray(value)) {
      const items: Json[] = [];
      for (const [index, item] of value.entries())
        items.push(yield* this.#pushValue([...path, indexOf(item, index)], name, item));
      return items;
    }
    if (!isMap(value)) return value;
    if (isMedia(value)) assertMediaAllowed(this.#options);
    const members: [string, Json][] = [];
    for (const [member, inner] of Object.entries(value)) {
      members.push([member, yield* this.#pushMember(path, member, inner)]);
    }
    return Object.fromEntries(members);
  }

  *#pushMember(path: Path, member: string, value: Json): Work<Json> {
    if (!isMediaMember(member, value)) return yield* this.#pushValue([...path, member], member, value);
    assertMediaAllowed(this.#options);
    this.#hasContent = true;
    return value;
  }

  *#pushText(path: Path, name: string, text: string): Work<string> {
    if (isOpaque(name, text) || WHOLE_MEMBERS.has(name)) {
      this.#hasContent = true;
      return (yield* scrubValue(this.#options, text, this.#leaked, name)) as string;
    }
    const out = yield* pushText(this.#streamAt(path, name), text);
    if (out !== "") this.#hasContent = true;
    return out;
  }

  #streamAt(path: Path, name: string): ScrubberStream {
    const key = JSON.stringify(path);
    const known = this.#texts.get(key)?.stream;
    if (known !== undefined) return known;
    if (this.#texts.size >= MAX_TEXTS) throw llmUnavailable("the model's service sent a message of too many texts");
    const stream = openText(this.#options, name);
    this.#texts.set(key, { path, stream });
    return stream;
  }
}

/** Returns the `index` member of an item, else its position. */
const indexOf = (item: Json, position: number): number =>
  isMap(item) && typeof item.index === "number" ? item.index : position;
