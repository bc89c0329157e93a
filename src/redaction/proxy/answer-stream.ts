import type { KindCounts } from "../text/types.ts";
import type { Json, JsonMap } from "./protocol.ts";

/** One event on its way down: its name, if it has one, and its JSON. */
export interface AnswerEvent {
  readonly name: string | undefined;
  readonly json: Json;
}

/** Scrubs the events of one streamed answer. */
export interface AnswerStream {
  /** Takes the next event and gives those that may go out. Throws LLM_UNAVAILABLE for what cannot be scrubbed. */
  push(name: string | undefined, json: JsonMap): readonly AnswerEvent[];
  /** Gives what was held back: before `[DONE]` and at the end of the stream. */
  end(): readonly AnswerEvent[];
  /** What the model leaked in the answer so far. */
  readonly leaked: KindCounts;
}
