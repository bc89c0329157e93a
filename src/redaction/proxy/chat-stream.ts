import type { PersonalKind } from "../text/types.ts";
import type { AnswerEvent, AnswerStream } from "./answer-stream.ts";
import { createHeldTexts, type HeldTexts } from "./held-texts.ts";
import { isMap, type Json, type JsonMap, llmUnavailable } from "./protocol.ts";
import { type AnswerOptions, scrubAnswer } from "./scrub-answer.ts";

/** What of a choice comes in pieces: `delta` of a chat completion, `text` of a completion. */
interface Fragment {
  readonly piece: JsonMap;
  /** The choice with another piece in it. */
  with(piece: JsonMap): JsonMap;
}

function fragmentOf(choice: JsonMap): Fragment {
  const { delta, text, ...rest } = choice;
  if (isMap(delta)) return { piece: delta, with: (piece) => ({ ...rest, delta: piece }) };
  if (typeof text === "string") return { piece: { text }, with: (piece) => ({ text: "", ...piece, ...rest }) };
  return { piece: {}, with: () => rest };
}

const isFinished = (choice: JsonMap): boolean => typeof choice.finish_reason === "string";

/** Creates the stream of `chat/completions` and `completions`: every text of every choice is a stream of its own. */
export function createChatStream(options: AnswerOptions): AnswerStream {
  const leaked = new Map<PersonalKind, number>();
  const choices = new Map<number, { readonly texts: HeldTexts; last: JsonMap }>();
  let envelope: JsonMap = {};

  const choiceAt = (index: number, choice: JsonMap) => {
    const known = choices.get(index) ?? { texts: createHeldTexts(options, leaked), last: choice };
    known.last = choice;
    choices.set(index, known);
    return known;
  };

  /** The chunk that goes before the one with a finish reason: what was held back, and no usage yet. */
  const chunkWith = (choice: JsonMap): AnswerEvent => {
    const { usage: _, ...rest } = envelope;
    return { name: undefined, json: { ...rest, choices: [{ ...choice, finish_reason: null }] } };
  };

  /** Gives the choice as it goes out, undefined if it says nothing yet, and chunks that go out before it. */
  const pushChoice = (given: Json, before: AnswerEvent[]): Json | undefined => {
    if (!isMap(given)) return given;
    const fragment = fragmentOf(given);
    const { logprobs: _, ...bare } = fragment.with({});
    const rest = scrubAnswer(options, bare, leaked) as JsonMap;
    const index = typeof given.index === "number" ? given.index : 0;
    const { texts } = choiceAt(index, rest);
    const { piece, isTelling } = texts.push(fragment.piece);
    const shown = "logprobs" in given ? { ...rest, logprobs: null } : rest;
    const chosen = fragmentOf(shown).with(piece);
    if (!isFinished(given)) return isTelling || Object.keys(fragment.piece).length === 0 ? chosen : undefined;
    const held = texts.end();
    if (held === undefined) return chosen;
    if (isTelling) before.push(chunkWith(chosen));
    before.push(chunkWith(fragmentOf(shown).with(held)));
    return shown;
  };

  return {
    leaked,
    push(name, json) {
      const { choices: given, ...rest } = json;
      const whole = scrubAnswer(options, rest, leaked) as JsonMap;
      if (given === undefined) return [{ name, json: whole }];
      if (!Array.isArray(given)) throw llmUnavailable("the model's service sent an event that cannot be scrubbed");
      envelope = whole;
      const before: AnswerEvent[] = [];
      const shown = given.map((choice: Json) => pushChoice(choice, before)).filter((choice) => choice !== undefined);
      const isEmpty = given.length > 0 && shown.length === 0 && !isMap(json.usage);
      return isEmpty ? before : [...before, { name, json: { ...whole, choices: shown } }];
    },
    end() {
      const events: AnswerEvent[] = [];
      for (const { texts, last } of choices.values()) {
        const held = texts.end();
        if (held !== undefined) events.push(chunkWith(fragmentOf(last).with(held)));
      }
      choices.clear();
      return events;
    },
  };
}
