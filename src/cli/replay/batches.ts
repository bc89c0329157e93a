import { isToolName } from "../../notation/tool-name.ts";
import { isJsonRecord, type JsonRecord, type JsonValue } from "../../verify/json.ts";
import { CommandError } from "../command.ts";
import { isCall, NAMELESS_TOOL, type RecordedStep, type Recording } from "./episode.ts";

/** Bounds of a request, below those of the service. */
const MAX_EPISODES = 200;
const MAX_BYTES = 3_670_016;
const MAX_VALUES = 119_000;
/** Bounds of one episode. */
const MAX_STEPS = 10_000;
const MAX_EPISODE_BYTES = 3_145_728;
/** Maximum characters of a result, of which a session reads no more, and bytes of a prompt, which the service refuses above. */
const MAX_TEXT = 1_048_576;
/** Bytes that a result keeps at least when an episode is too large. */
const MIN_RESULT = 256;

/** An episode as it is sent. */
export interface SentEpisode {
  readonly recording: Recording;
  readonly message: JsonRecord;
}

/** Episodes of one request. */
export interface Batch {
  readonly episodes: readonly SentEpisode[];
  /** Number of results and prompts that were cut because they or their episode are too large. */
  readonly cut: number;
}

/** Joins recordings to batches, each as large as a request may be beside the drafts, lists and tools that it supposes. */
export async function* batchesOf(recordings: AsyncIterable<Recording>, supposed: JsonRecord): AsyncGenerator<Batch> {
  const room = MAX_BYTES - Buffer.byteLength(JSON.stringify(supposed));
  const valuesRoom = MAX_VALUES - valuesIn(supposed);
  if (room < MAX_EPISODE_BYTES / 4 || valuesRoom < MAX_VALUES / 4)
    throw new CommandError("the mandates, lists and tools are too large for one request");
  let episodes: SentEpisode[] = [];
  let [bytes, values, cut] = [0, 0, 0];
  for await (const recording of recordings) {
    const sent = messageOf(recording, Math.min(MAX_EPISODE_BYTES, room));
    if (sent.values > valuesRoom) {
      const { file, episode } = recording;
      throw new CommandError(`${file}: episode \`${episode.id}\` has too many steps and arguments for one request`);
    }
    const isFull = episodes.length === MAX_EPISODES || bytes + sent.bytes > room || values + sent.values > valuesRoom;
    if (isFull && episodes.length > 0) {
      yield { episodes, cut };
      episodes = [];
      [bytes, values, cut] = [0, 0, 0];
    }
    episodes.push({ recording, message: sent.message });
    bytes += sent.bytes;
    values += sent.values;
    cut += sent.cut;
  }
  if (episodes.length > 0) yield { episodes, cut };
}

interface SizedMessage {
  readonly message: JsonRecord;
  readonly bytes: number;
  readonly values: number;
  readonly cut: number;
}

function messageOf({ episode, file }: Recording, maxBytes: number): SizedMessage {
  const { id, prompt, contract, steps, labels = [] } = episode;
  if (steps.length > MAX_STEPS) throw new CommandError(`${file}: episode \`${id}\` has more than ${MAX_STEPS} steps`);
  let cut = 0;
  const textWithin = (recorded: string, max: number, maxBytes?: number): CutText => {
    const whole = withoutRefused(recorded);
    const start = whole.slice(0, max).toWellFormed();
    const text = maxBytes === undefined ? start : startOf(start, maxBytes);
    const isCut = text.length < whole.length;
    if (isCut) cut += 1;
    return { text, isCut };
  };
  const built = (maxText: number): JsonRecord => {
    cut = 0;
    return {
      id,
      ...(prompt !== undefined && { prompt: textWithin(prompt, maxText * 16, MAX_TEXT).text }),
      ...(contract !== undefined && { contract }),
      steps: steps.map((step) => stepMessage(step, (text, maxBytes) => textWithin(text, maxText, maxBytes))),
      ...(labels.length > 0 && { labels: labels.map(({ step, role }): JsonRecord => ({ step, role })) }),
    };
  };
  for (let maxText = MAX_TEXT; ; maxText = Math.floor(maxText / 2)) {
    const message = built(maxText);
    const bytes = Buffer.byteLength(JSON.stringify(message)) + 1;
    if (bytes <= maxBytes) return { message, bytes, values: valuesIn(message), cut };
    if (maxText <= MIN_RESULT)
      throw new CommandError(`${file}: the arguments of episode \`${id}\` are too large for one request`);
  }
}

/** The part of a text that is sent. */
interface CutText {
  readonly text: string;
  readonly isCut: boolean;
}

/** Returns the start of a text that has at most `maxBytes` bytes. A character of which only a part fits is left out. */
function startOf(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(0, maxBytes), { stream: true });
}

function stepMessage(step: RecordedStep, cut: (text: string, maxBytes?: number) => CutText): JsonRecord {
  const at = step.at === undefined ? {} : { at: step.at };
  if (!isCall(step)) {
    const { text, isCut } = cut(step.prompt, MAX_TEXT);
    return { prompt: text, ...(isCut && { is_cut: true }), ...at };
  }
  const { tool, arguments: args, action_type, content, result, is_error, parallel } = step;
  // As text, which the service reads as the same JSON.
  const sent = result === undefined ? undefined : cut(typeof result === "string" ? result : JSON.stringify(result));
  return {
    tool: isToolName(tool.trim()) ? tool : NAMELESS_TOOL,
    arguments: valueWithoutRefused(args),
    ...(action_type !== undefined && { action_type }),
    ...(content !== undefined && { action_content: content }),
    ...(sent !== undefined && { result: sent.text, ...(sent.isCut && { is_cut: true }) }),
    ...(is_error === true && { is_error }),
    ...(parallel === true && { parallel }),
    ...at,
  };
}

/** Replaces characters that the service refuses: NUL and halves of surrogate pairs. */
const withoutRefused = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd");

function valueWithoutRefused(value: JsonValue): JsonValue {
  if (typeof value === "string") return withoutRefused(value);
  if (Array.isArray(value)) return value.map(valueWithoutRefused);
  if (!isJsonRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, valueWithoutRefused(each)]));
}

/** Counts the values of JSON as the service does: members and items. */
function valuesIn(value: JsonValue): number {
  let count = 0;
  const open: JsonValue[] = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    count += 1;
    if (typeof next === "object" && next !== null) for (const each of Object.values(next)) open.push(each);
  }
  return count;
}
