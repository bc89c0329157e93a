import type { PersonalKind } from "../text/types.ts";
import { isMap, isMedia, isMediaMember, isOpaque, type Json, type JsonMap } from "./protocol.ts";
import { type AnswerOptions, mediaRefused, openText, scrubAnswer } from "./scrub-answer.ts";
import { addCounts, type TextStream } from "./text-stream.ts";

/** A place in a piece of a message: names of members, and for lists the `index` that items carry. */
type Place = readonly (string | number)[];

/** A piece of a message, scrubbed. */
export interface ScrubbedPiece {
  readonly piece: JsonMap;
  /** Whether it says anything: false when all of its text is held back. */
  readonly isTelling: boolean;
}

/** The texts of one message that come in pieces, each a stream of its own, by their places in the message. */
export interface HeldTexts {
  /** Scrubs the next piece: each text in it continues the text at its place. */
  push(piece: JsonMap): ScrubbedPiece;
  /** Ends all texts. Gives a piece with what was held back; undefined when that is nothing. */
  end(): JsonMap | undefined;
}

interface Held {
  readonly place: Place;
  readonly stream: TextStream;
}

/** Members whose text comes whole: a part of it is nothing to wait for. */
const WHOLE = new Set(["name"]);

// Without a prototype: names come from the model's service, and `__proto__` is one like any other.
const emptyMap = (): Record<string, unknown> => Object.create(null);

const setAt = (target: Record<string, unknown>, place: Place, text: string): void => {
  let at: Record<string, unknown> = target;
  for (const [depth, step] of place.slice(0, -1).entries()) {
    const next = place[depth + 1];
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
  at[place.at(-1) as string] = text;
};

/** Creates the texts of a message. `leaked` is counted up as texts end. */
export function createHeldTexts(options: AnswerOptions, leaked: Map<PersonalKind, number>): HeldTexts {
  const texts = new Map<string, Held>();
  let isTelling = false;

  const streamAt = (place: Place, name: string): TextStream => {
    const key = JSON.stringify(place);
    const known = texts.get(key)?.stream;
    if (known !== undefined) return known;
    const stream = openText(options, name);
    texts.set(key, { place, stream });
    return stream;
  };

  const pushText = (place: Place, name: string, text: string): string => {
    if (isOpaque(name, text) || WHOLE.has(name)) {
      isTelling = true;
      return scrubAnswer(options, text, leaked, name) as string;
    }
    const out = streamAt(place, name).push(text);
    if (out !== "") isTelling = true;
    return out;
  };

  const pushItem = (place: Place, name: string, item: Json, position: number): Json => {
    const step = isMap(item) && typeof item.index === "number" ? item.index : position;
    return pushValue([...place, step], name, item);
  };

  const pushValue = (place: Place, name: string, value: Json): Json => {
    if (typeof value === "string") return pushText(place, name, value);
    if (Array.isArray(value)) return value.map((item: Json, position) => pushItem(place, name, item, position));
    if (!isMap(value)) return value;
    if (isMedia(value) && !options.allowMedia) throw mediaRefused();
    const entries = Object.entries(value).map(([member, inner]): [string, Json] => {
      if (!isMediaMember(member, inner)) return [member, pushValue([...place, member], member, inner)];
      if (!options.allowMedia) throw mediaRefused();
      isTelling = true;
      return [member, inner];
    });
    return Object.fromEntries(entries);
  };

  return {
    push(piece) {
      isTelling = false;
      const scrubbed = pushValue([], "", piece) as JsonMap;
      return { piece: scrubbed, isTelling };
    },
    end() {
      const rest = emptyMap();
      for (const { place, stream } of texts.values()) {
        const text = stream.end();
        addCounts(leaked, stream.leaked);
        if (text !== "") setAt(rest, place, text);
      }
      texts.clear();
      return Object.keys(rest).length === 0 ? undefined : (rest as JsonMap);
    },
  };
}
