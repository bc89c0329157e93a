import type { Work } from "../../async/work.ts";
import { addCounts, type KindCounts, type PersonalKind, totalCount } from "../../text/personal-kinds.ts";
import type { ScrubberStream } from "../text/scrubber.ts";
import { isMap, type Json, type JsonMap, llmUnavailable } from "./protocol.ts";
import {
  assertMediaAllowed,
  type EventScrubber,
  type ModelEvent,
  openText,
  pushText,
  type ResponseOptions,
  scrubEventName,
  scrubValue,
} from "./scrub-response.ts";

/** A text that arrives in `….delta` events, with the latest event. */
interface DeltaText {
  readonly stream: ScrubberStream;
  readonly name: string | undefined;
  latest: JsonMap;
}

/** Maximum number of texts that arrive at the same time. */
const MAX_TEXTS = 1_000;
const DELTA = ".delta";
const DONE = ".done";
/** Events whose deltas are media. */
const MEDIA_EVENT = /^response\.(audio\.(delta|done)|image_generation_call\.partial_image)$/;
/** Events that end a response. */
const LAST_EVENT = /^(response\.(completed|failed|incomplete|cancelled)|error)$/;
/** Members that distinguish texts of one type. */
const KEY_MEMBERS = ["item_id", "output_index", "content_index", "summary_index"];

const withoutSuffix = (type: string, suffix: string): string | undefined =>
  type.endsWith(suffix) ? type.slice(0, -suffix.length) : undefined;

const textKey = (type: string, json: JsonMap): string =>
  JSON.stringify([type, ...KEY_MEMBERS.map((name) => json[name] ?? null)]);

/** Member of the whole response in which a delta's text ends up. It decides how the text is scrubbed. */
const memberOf = (type: string): string => (type.endsWith("arguments") ? "arguments" : "text");

/**
 * Scrubs the events of `responses`. Every text that arrives in deltas is a separate stream; whole texts are scrubbed as a whole.
 */
export class ResponsesStream implements EventScrubber {
  readonly #options: ResponseOptions;
  readonly #texts = new Map<string, DeltaText>();
  readonly #streamed = new Map<PersonalKind, number>();
  /** Leaks of the event with the most complete text, since later events repeat texts as a whole. */
  #leaked: KindCounts = this.#streamed;
  #sequence: number | undefined;

  constructor(options: ResponseOptions) {
    this.#options = options;
  }

  get leaked(): KindCounts {
    this.#countLeaks(this.#streamed);
    return this.#leaked;
  }

  get held(): number {
    return this.#texts.size;
  }

  *push(given: string | undefined, json: JsonMap): Work<readonly ModelEvent[]> {
    const type = typeof json.type === "string" ? json.type : "";
    const name = scrubEventName(this.#options, given, this.#streamed);
    if (MEDIA_EVENT.test(type)) {
      assertMediaAllowed(this.#options);
      return [this.#numbered(name, yield* this.#scrubWhole(json))];
    }
    const delta = withoutSuffix(type, DELTA);
    if (delta !== undefined) return yield* this.#pushDelta(name, delta, json);
    const ended = this.#endTexts(type, json);
    return [...ended, this.#numbered(name, yield* this.#scrubWhole(json))];
  }

  end(): readonly ModelEvent[] {
    return [...this.#texts.keys()].flatMap((key) => this.#endText(key));
  }

  *#pushDelta(name: string | undefined, type: string, json: JsonMap): Work<ModelEvent[]> {
    const { delta, ...rest } = json;
    if (typeof delta !== "string") throw llmUnavailable("the model's service sent a delta that cannot be scrubbed");
    const key = textKey(type, json);
    const latest = yield* this.#scrubWhole(rest);
    const known = this.#texts.get(key);
    if (known === undefined && this.#texts.size >= MAX_TEXTS) {
      throw llmUnavailable("the model's service sent too many texts at once");
    }
    const text = known ?? { stream: openText(this.#options, memberOf(type)), name, latest };
    text.latest = latest;
    this.#texts.set(key, text);
    const out = yield* pushText(text.stream, delta);
    return out === "" ? [] : [this.#numbered(name, { ...latest, delta: out })];
  }

  #endTexts(type: string, json: JsonMap): readonly ModelEvent[] {
    if (LAST_EVENT.test(type)) return this.end();
    const done = withoutSuffix(type, DONE);
    return done === undefined ? [] : this.#endText(textKey(done, json));
  }

  #endText(key: string): ModelEvent[] {
    const text = this.#texts.get(key);
    if (text === undefined) return [];
    this.#texts.delete(key);
    const rest = text.stream.end();
    addCounts(this.#streamed, text.stream.leaked);
    return rest === "" ? [] : [this.#numbered(text.name, { ...text.latest, delta: rest })];
  }

  *#scrubWhole(json: JsonMap): Work<JsonMap> {
    const counts = new Map<PersonalKind, number>();
    const scrubbed = (yield* scrubValue(this.#options, json, counts)) as JsonMap;
    this.#countLeaks(counts);
    return scrubbed;
  }

  #countLeaks(counts: KindCounts): void {
    if (totalCount(counts) > totalCount(this.#leaked)) this.#leaked = counts;
  }

  /** Renumbers an event, since holding text back adds and removes events. */
  #numbered(name: string | undefined, json: JsonMap): ModelEvent {
    if (typeof json.sequence_number !== "number") return { name, json };
    this.#sequence = this.#sequence === undefined ? json.sequence_number : this.#sequence + 1;
    return { name, json: { ...json, sequence_number: this.#sequence } };
  }
}

/** Returns the id of the response in an event or a whole body. */
export function responseIdOf(json: Json): string | undefined {
  if (!isMap(json)) return undefined;
  const holder = isMap(json.response) ? json.response : json;
  return holder.object === "response" && typeof holder.id === "string" ? holder.id : undefined;
}
