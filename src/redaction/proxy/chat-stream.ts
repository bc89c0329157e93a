import type { Work } from "../../async/work.ts";
import type { PersonalKind } from "../../text/personal-kinds.ts";
import { PendingPieces } from "./pending-pieces.ts";
import { isMap, type Json, type JsonMap, llmUnavailable } from "./protocol.ts";
import {
  type EventScrubber,
  type ModelEvent,
  type ResponseOptions,
  scrubEventName,
  scrubValue,
} from "./scrub-response.ts";

/** Part of a choice that arrives in pieces: `delta` of a chat completion, `text` of a completion. */
interface Fragment {
  readonly piece: JsonMap;
  /** Returns the choice with another piece. */
  with(piece: JsonMap): JsonMap;
}

function fragmentOf(choice: JsonMap): Fragment {
  const { delta, text, ...rest } = choice;
  if (isMap(delta)) return { piece: delta, with: (piece) => ({ ...rest, delta: piece }) };
  if (typeof text === "string") return { piece: { text }, with: (piece) => ({ text: "", ...piece, ...rest }) };
  return { piece: {}, with: () => rest };
}

/** True for the part of a choice that arrives in pieces, which is an object, and for none. */
const isPiece = (delta: Json | undefined): boolean => delta === undefined || delta === null || isMap(delta);

const unfit = () => llmUnavailable("the model's service sent an event that cannot be scrubbed");

const isFinished = (choice: JsonMap): boolean => typeof choice.finish_reason === "string";

/** Maximum number of choices of a response: as many as a request may ask for. */
const MAX_CHOICES = 128;

/** A choice of the response with its latest chunk. */
interface Choice {
  readonly pieces: PendingPieces;
  latest: JsonMap;
}

/** Scrubs the events of `chat/completions` and `completions`. Every text of every choice is a separate stream. */
export class ChatStream implements EventScrubber {
  readonly leaked = new Map<PersonalKind, number>();
  readonly #options: ResponseOptions;
  readonly #choices = new Map<number, Choice>();
  /** Texts of all choices that have begun. */
  #texts = 0;
  /** The latest event without its choices. */
  #envelope: JsonMap = {};

  constructor(options: ResponseOptions) {
    this.#options = options;
  }

  get held(): number {
    return this.#texts + this.#choices.size;
  }

  *push(given: string | undefined, json: JsonMap): Work<readonly ModelEvent[]> {
    const { choices: all, ...rest } = json;
    const name = scrubEventName(this.#options, given, this.leaked);
    const envelope = (yield* scrubValue(this.#options, rest, this.leaked)) as JsonMap;
    if (all === undefined) return [{ name, json: envelope }];
    if (!Array.isArray(all)) throw unfit();
    this.#envelope = envelope;
    const before: ModelEvent[] = [];
    const choices: Json[] = [];
    for (const choice of all) {
      const shown = yield* this.#pushChoice(choice, before);
      if (shown !== undefined) choices.push(shown);
    }
    const isEmpty = all.length > 0 && choices.length === 0 && !isMap(json.usage);
    return isEmpty ? before : [...before, { name, json: { ...envelope, choices } }];
  }

  end(): readonly ModelEvent[] {
    const events: ModelEvent[] = [];
    for (const { pieces, latest } of this.#choices.values()) {
      const rest = pieces.end();
      if (rest !== undefined) events.push(this.#unfinished(fragmentOf(latest).with(rest)));
    }
    this.#choices.clear();
    this.#texts = 0;
    return events;
  }

  /** Returns the choice to send, or undefined if it has no content yet. Adds events that must be sent first to `before`. */
  *#pushChoice(given: Json, before: ModelEvent[]): Work<Json | undefined> {
    if (!isMap(given) || !isPiece(given.delta)) throw unfit();
    const fragment = fragmentOf(given);
    const { logprobs: _, ...bare } = fragment.with({});
    const rest = (yield* scrubValue(this.#options, bare, this.leaked)) as JsonMap;
    const { pieces } = this.#choiceAt(typeof given.index === "number" ? given.index : 0, rest);
    this.#texts -= pieces.size;
    const { piece, hasContent } = yield* pieces.push(fragment.piece);
    this.#texts += pieces.size;
    const shown = "logprobs" in given ? { ...rest, logprobs: null } : rest;
    const scrubbed = fragmentOf(shown).with(piece);
    if (!isFinished(given)) return hasContent || Object.keys(fragment.piece).length === 0 ? scrubbed : undefined;
    this.#texts -= pieces.size;
    const held = pieces.end();
    if (held === undefined) return scrubbed;
    if (hasContent) before.push(this.#unfinished(scrubbed));
    before.push(this.#unfinished(fragmentOf(shown).with(held)));
    return shown;
  }

  #choiceAt(index: number, latest: JsonMap): Choice {
    const known = this.#choices.get(index);
    if (known === undefined && this.#choices.size >= MAX_CHOICES) {
      throw llmUnavailable("the model's service sent too many choices");
    }
    const choice = known ?? { pieces: new PendingPieces(this.#options, this.leaked), latest };
    choice.latest = latest;
    this.#choices.set(index, choice);
    return choice;
  }

  /** Returns an event with the text held back, to be sent before the finish reason and the usage. */
  #unfinished(choice: JsonMap): ModelEvent {
    const { usage: _, ...rest } = this.#envelope;
    return { name: undefined, json: { ...rest, choices: [{ ...choice, finish_reason: null }] } };
  }
}
