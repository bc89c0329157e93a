import type { Work } from "../../async/work.ts";
import { isKeptNumber, isKeptText, isVector } from "./kept.ts";
import { isMedia, isMediaAlone, isMediaMember, isMediaText } from "./media.ts";
import { isBytes, isFree, isMap, isPlainName, type Json, type JsonMap } from "./protocol.ts";

/** Members that repeat the text token by token. This form cannot be scrubbed, so they are removed. */
const TOKEN_MEMBERS = new Set(["logprobs"]);
/** Members with text of the model, which may write base64 itself. */
const TEXT_MEMBERS = new Set([
  "content",
  "text",
  "output_text",
  "delta",
  "arguments",
  "input",
  "code",
  "reasoning",
  "reasoning_content",
]);

/** A value's place in an answer. */
export interface Place {
  /** Undefined for the whole value. */
  readonly parent: Place | undefined;
  /** Name of the member, or index of the item in its list, and what is shown of it. */
  readonly key: string | number;
  readonly shown: string | number;
  /** Name of the member, for the items of its list too. */
  readonly name: string;
  /** True inside of an object that a model or a caller makes up: nothing there belongs to the protocol. */
  readonly isFree: boolean;
  /** True inside of media, which the workspace allows. */
  readonly isInMedia: boolean;
}

/** Scrubbing of the texts of an answer. */
export interface AnswerTexts {
  /** Scrubs a number, or the name of a member. */
  alone(text: string): Work<string>;
  /** Scrubs a text that is whole, such as an id. */
  whole(place: Place, text: string): Work<string>;
  /** Scrubs a text that may go on in the next piece of the answer. */
  continued(place: Place, text: string): Work<string>;
  /** Takes note of a text that passes as it is. */
  pass(): void;
  /** Throws unless media may pass. */
  media(): void;
}

/** Members whose text is whole in every piece of an answer. */
const WHOLE_MEMBERS = new Set([
  "id",
  "object",
  "type",
  "role",
  "name",
  "model",
  "status",
  "service_tier",
  "system_fingerprint",
  "finish_reason",
  "call_id",
  "tool_call_id",
  "item_id",
  "response_id",
  "previous_response_id",
  "conversation",
  "file_id",
  "encoding_format",
]);

/** Returns the index of an item: its `index` member, if that is one, else its position. */
function indexOf(item: Json, position: number): number {
  const index = isMap(item) ? item.index : undefined;
  return typeof index === "number" && isKeptNumber("index", index) ? index : position;
}

/** Values that are walked through between two looks at the clock. */
const PIECE = 256;

/** Walks through an answer or a piece of one: every text, number and name of a member is scrubbed, but for what `kept.ts` lists. */
export function* walkAnswer(texts: AnswerTexts, whole: Json, name = ""): Work<Json> {
  let values = 0;

  const walkText = function* (place: Place, text: string): Work<string> {
    const { name: member } = place;
    if (!place.isFree) {
      if ((place.isInMedia && isMediaText(text)) || isKeptText(member, text)) {
        texts.pass();
        return text;
      }
      if (!TEXT_MEMBERS.has(member) && !isBytes(member) && isMediaAlone(text)) texts.media();
    }
    const isWhole = !place.isFree && (WHOLE_MEMBERS.has(member) || isBytes(member));
    return yield* isWhole ? texts.whole(place, text) : texts.continued(place, text);
  };

  const walkNumber = function* (place: Place, number: number): Work<Json> {
    if (!place.isFree && isKeptNumber(place.name, number)) return number;
    const text = String(number);
    const scrubbed = yield* texts.alone(text);
    return scrubbed === text ? number : scrubbed;
  };

  const walkMember = function* (parent: Place, key: string, value: Json): Work<[string, Json]> {
    const { isFree } = parent;
    if (!isFree && TOKEN_MEMBERS.has(key)) return [key, Array.isArray(value) ? [] : null];
    const isMediaHere = !isFree && isMediaMember(key, value);
    if (isMediaHere) texts.media();
    const shown = !isFree && isPlainName(key) ? key : yield* texts.alone(key);
    const isInMedia = parent.isInMedia || isMediaHere;
    const place = { parent, key, shown, name: key, isFree: isFree || isFreeMember(key, value), isInMedia };
    return [shown, !isFree && isVector(key, value) ? value : yield* walk(place, value)];
  };

  const walkMap = function* (place: Place, value: JsonMap): Work<JsonMap> {
    const isMediaHere = !place.isFree && isMedia(value);
    if (isMediaHere) texts.media();
    const own = isMediaHere ? { ...place, isInMedia: true } : place;
    const members: [string, Json][] = [];
    for (const [key, inner] of Object.entries(value)) members.push(yield* walkMember(own, key, inner));
    return Object.fromEntries(members);
  };

  const walk = function* (place: Place, value: Json): Work<Json> {
    values += 1;
    if (values % PIECE === 0) yield;
    if (typeof value === "string") return yield* walkText(place, value);
    if (typeof value === "number") return yield* walkNumber(place, value);
    if (isMap(value)) return yield* walkMap(place, value);
    if (!Array.isArray(value)) return value;
    const items: Json[] = [];
    for (const [position, item] of value.entries()) {
      const key = indexOf(item, position);
      items.push(yield* walk({ ...place, parent: place, key, shown: key }, item));
    }
    return items;
  };

  return yield* walk({ parent: undefined, key: "", shown: "", name, isFree: false, isInMedia: false }, whole);
}

/** True if what is in a member is made up by a model or a caller. */
const isFreeMember = (name: string, value: Json): boolean => isFree(name) && typeof value === "object";
