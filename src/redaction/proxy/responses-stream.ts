import { totalOf } from "../leakage.ts";
import type { KindCounts, PersonalKind } from "../text/types.ts";
import type { AnswerEvent, AnswerStream } from "./answer-stream.ts";
import { isMap, type Json, type JsonMap, llmUnavailable } from "./protocol.ts";
import { type AnswerOptions, mediaRefused, openText, scrubAnswer } from "./scrub-answer.ts";
import { addCounts, type TextStream } from "./text-stream.ts";

/** A text that comes in `….delta` events, with the last of them. */
interface OpenDelta {
  readonly stream: TextStream;
  readonly name: string | undefined;
  last: JsonMap;
}

const DELTA = ".delta";
const DONE = ".done";
/** Events whose deltas are no text. */
const MEDIA_EVENT = /^response\.(audio\.(delta|done)|image_generation_call\.partial_image)$/;
/** Events after which nothing comes. */
const LAST_EVENT = /^(response\.(completed|failed|incomplete|cancelled)|error)$/;
/** What tells texts of one type apart. */
const PLACE = ["item_id", "output_index", "content_index", "summary_index"];

const baseOf = (type: string, ending: string): string | undefined =>
  type.endsWith(ending) ? type.slice(0, -ending.length) : undefined;

const keyOf = (base: string, json: JsonMap): string =>
  JSON.stringify([base, ...PLACE.map((name) => json[name] ?? null)]);

/** The member that a delta's text ends up in, which says how it is scrubbed. */
const memberOf = (base: string): string => (base.endsWith("arguments") ? "arguments" : "text");

/** Creates the stream of `responses`: every text that comes in deltas is a stream of its own; whole texts are scrubbed whole. */
export function createResponsesStream(options: AnswerOptions): AnswerStream {
  const open = new Map<string, OpenDelta>();
  const streamed = new Map<PersonalKind, number>();
  // Texts are said again in whole by later events: the answer leaked what the fuller account of it holds.
  let leaked: KindCounts = streamed;
  let sequence: number | undefined;

  const count = (counts: KindCounts): void => {
    if (totalOf(counts) > totalOf(leaked)) leaked = counts;
  };

  /** Numbers events anew: what is held back adds events and takes others away. */
  const numbered = (name: string | undefined, json: JsonMap): AnswerEvent => {
    if (typeof json.sequence_number !== "number") return { name, json };
    sequence = sequence === undefined ? json.sequence_number : sequence + 1;
    return { name, json: { ...json, sequence_number: sequence } };
  };

  const close = (key: string): AnswerEvent[] => {
    const delta = open.get(key);
    if (delta === undefined) return [];
    open.delete(key);
    const text = delta.stream.end();
    addCounts(streamed, delta.stream.leaked);
    return text === "" ? [] : [numbered(delta.name, { ...delta.last, delta: text })];
  };

  const closeAll = (): AnswerEvent[] => [...open.keys()].flatMap(close);

  const whole = (json: JsonMap): JsonMap => {
    const counts = new Map<PersonalKind, number>();
    const scrubbed = scrubAnswer(options, json, counts) as JsonMap;
    count(counts);
    return scrubbed;
  };

  const pushDelta = (name: string | undefined, base: string, json: JsonMap): AnswerEvent[] => {
    const { delta, ...rest } = json;
    if (typeof delta !== "string") throw llmUnavailable("the model's service sent a delta that cannot be scrubbed");
    const key = keyOf(base, json);
    const bare = whole(rest);
    const known = open.get(key) ?? { stream: openText(options, memberOf(base)), name, last: bare };
    known.last = bare;
    open.set(key, known);
    const text = known.stream.push(delta);
    return text === "" ? [] : [numbered(name, { ...bare, delta: text })];
  };

  return {
    get leaked() {
      count(streamed);
      return leaked;
    },
    push(name, json) {
      const type = typeof json.type === "string" ? json.type : "";
      if (MEDIA_EVENT.test(type)) {
        if (options.allowMedia) return [numbered(name, json)];
        throw mediaRefused();
      }
      const base = baseOf(type, DELTA);
      if (base !== undefined) return pushDelta(name, base, json);
      const done = baseOf(type, DONE);
      const before = LAST_EVENT.test(type) ? closeAll() : done === undefined ? [] : close(keyOf(done, json));
      return [...before, numbered(name, whole(json))];
    },
    end: closeAll,
  };
}

/** The id of the answer that an event or a whole answer carries; undefined for none. */
export function responseIdOf(json: Json): string | undefined {
  if (!isMap(json)) return undefined;
  const holder = isMap(json.response) ? json.response : json;
  return holder.object === "response" && typeof holder.id === "string" ? holder.id : undefined;
}
