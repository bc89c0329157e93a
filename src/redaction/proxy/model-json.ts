import { type JsonBounds, JsonFault, readJson } from "../../json/read-json.ts";
import { type Json, llmUnavailable } from "./protocol.ts";

/** Bounds of an answer or an event, beside its bytes: room for 300 embeddings in numbers. */
const BOUNDS: JsonBounds = { maxDepth: 128, maxValues: 500_000 };

/**
 * Reads a JSON text of the model's service over several turns of the event loop; undefined for other text. Rejects with
 * LLM_UNAVAILABLE, before anything is built, for a text that holds too much.
 */
export async function readModelJson(text: string): Promise<Json | undefined> {
  try {
    return (await readJson(text, BOUNDS)) as Json;
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    if (error.kind === "too_deep") throw llmUnavailable("the model's service sent an answer that nests too deeply");
    if (error.kind === "too_many_values") {
      const most = BOUNDS.maxValues.toLocaleString("en");
      throw llmUnavailable(`the model's service sent an answer of more than ${most} values; ask for less at once`);
    }
    return undefined;
  }
}
