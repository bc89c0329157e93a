import { basename, dirname, join } from "node:path";
import { isJsonRecord, type JsonRecord, type JsonValue, stringFrom } from "../../verify/json.ts";
import { CommandError } from "../command.ts";
import { isCall, MAX_ID_LENGTH, type RecordedCall, type RecordedStep, type Recording } from "./episode.ts";
import { filesAt, linesOf, parseRecorded } from "./read-recording.ts";

/** Names of the files in which newer versions write what a subagent did. */
const AGENT_FILE = /^agent-.+\.jsonl$/;

/**
 * Reads transcripts of Claude Code: one episode a session, with the calls of its subagents at the time at which they were made. What the
 * user wrote is a prompt; what a subagent was asked, what a model summarised and what the program itself said is none. Throws
 * `CommandError` that names file and line.
 */
export async function* episodesOfTranscripts(paths: readonly string[]): AsyncGenerator<Recording> {
  const files = await filesAt(paths, ".jsonl");
  const sessions = files.filter((file) => !AGENT_FILE.test(basename(file)));
  const ofSession = await agentFiles(files.filter((file) => AGENT_FILE.test(basename(file))));
  const ids = new Set<string>();
  for (const file of sessions) {
    const id = basename(file, ".jsonl");
    const agents = [...(ofSession.get(keyOf(dirname(file), id)) ?? [])];
    ofSession.delete(keyOf(dirname(file), id));
    yield await recordingFrom(uniqueId(ids, id), [file, ...agents]);
  }
  // Calls of subagents whose sessions are not among the files.
  for (const [key, agents] of ofSession) yield await recordingFrom(uniqueId(ids, basename(key)), agents);
}

function uniqueId(ids: Set<string>, id: string): string {
  let unique = id.slice(0, MAX_ID_LENGTH).toWellFormed();
  for (let count = 2; ids.has(unique); count += 1) {
    const end = ` (${count})`;
    unique = id.slice(0, MAX_ID_LENGTH - end.length).toWellFormed() + end;
  }
  ids.add(unique);
  return unique;
}

const keyOf = (folder: string, sessionId: string): string => join(folder, sessionId);

/** Groups the files of subagents by the session that their lines name. They lie beside its file, or in a folder below. */
async function agentFiles(files: readonly string[]): Promise<Map<string, string[]>> {
  const groups = new Map<string, string[]>();
  for (const file of files) {
    const key = keyOf(folderOfSession(file), (await sessionOf(file)) ?? basename(file, ".jsonl"));
    groups.set(key, [...(groups.get(key) ?? []), file]);
  }
  return groups;
}

/** `PROJECT/agent-1.jsonl` and `PROJECT/SESSION/subagents/agent-1.jsonl` both belong to `PROJECT`. */
function folderOfSession(file: string): string {
  const folder = dirname(file);
  return basename(folder) === "subagents" ? dirname(dirname(folder)) : folder;
}

async function sessionOf(file: string): Promise<string | undefined> {
  for await (const { text, number } of linesOf(file)) {
    const line = parseRecorded(text, `${file}:${number}`);
    if (isJsonRecord(line) && typeof line.sessionId === "string") return line.sessionId;
  }
  return undefined;
}

/** A line with the time at which it was written. */
interface Entry {
  readonly line: JsonRecord;
  readonly place: string;
  readonly atMs: number;
}

async function recordingFrom(id: string, files: readonly string[]): Promise<Recording> {
  const entries: Entry[] = [];
  const seen = new Set<string>();
  for (const file of files) {
    let atMs = 0;
    for await (const { number, text } of linesOf(file)) {
      const place = `${file}:${number}`;
      const line = parseRecorded(text, place);
      if (!isJsonRecord(line)) throw new CommandError(`${place}: is not an object`);
      if (typeof line.uuid === "string") {
        if (seen.has(line.uuid)) continue;
        seen.add(line.uuid);
      }
      const written = typeof line.timestamp === "string" ? Date.parse(line.timestamp) : Number.NaN;
      // A line without a time, or with an earlier one, stays behind the one before it.
      atMs = Number.isNaN(written) ? atMs : Math.max(atMs, written);
      entries.push({ line, place, atMs });
    }
  }
  entries.sort((a, b) => a.atMs - b.atMs);
  const session = new SessionReader();
  for (const entry of entries) session.add(entry);
  const [file = ""] = files;
  return { file, episode: { id, ...session.episode() } };
}

/** Collects the prompts, calls and results of one session, from its lines in the order of their times. */
class SessionReader {
  readonly #steps: RecordedStep[] = [];
  /** Places of the calls, by their ids. */
  readonly #calls = new Map<string, number>();
  #lastMessage: string | undefined;

  episode(): { readonly prompt?: string; readonly steps: readonly RecordedStep[] } {
    const [first, ...rest] = this.#steps;
    return first !== undefined && !isCall(first) ? { prompt: first.prompt, steps: rest } : { steps: this.#steps };
  }

  add({ line, place, atMs }: Entry): void {
    const message = isJsonRecord(line.message) ? line.message : undefined;
    const at = atMs === 0 ? {} : { at: new Date(atMs).toISOString() };
    if (line.type === "assistant" && message !== undefined) this.#addCalls(message, at, place);
    else if (line.type === "user" && message !== undefined) {
      const blocks = blocksOf(message.content);
      for (const block of blocks) if (block.type === "tool_result") this.#addResult(block);
      if (isByUser(line)) this.#addPrompt(blocks.flatMap(textOfBlock).map(writtenIn), at);
    } else if (line.type === "attachment") this.#addPrompt(queuedIn(line.attachment), at);
  }

  #addCalls(message: JsonRecord, at: Pick<RecordedCall, "at">, place: string): void {
    for (const block of blocksOf(message.content)) {
      if (block.type !== "tool_use") continue;
      const [id, tool] = [stringFrom(block.id), stringFrom(block.name) ?? ""];
      if (tool.trim() === "") throw new CommandError(`${place}: has a tool_use without \`name\``);
      if (block.input != null && !isJsonRecord(block.input))
        throw new CommandError(`${place}: the \`input\` of \`${tool}\` must be an object`);
      if (id !== undefined && this.#calls.has(id)) continue;
      // The blocks of one message stand on lines of their own.
      const messageId = stringFrom(message.id);
      const isParallel = messageId !== undefined && messageId === this.#lastMessage && this.#isAfterCall();
      this.#lastMessage = messageId;
      if (id !== undefined) this.#calls.set(id, this.#steps.length);
      this.#steps.push({ tool, arguments: block.input ?? {}, ...(isParallel && { parallel: true }), ...at });
    }
  }

  #isAfterCall(): boolean {
    const last = this.#steps.at(-1);
    return last !== undefined && isCall(last);
  }

  #addResult(block: JsonRecord): void {
    const place = this.#calls.get(stringFrom(block.tool_use_id) ?? "");
    const call = place === undefined ? undefined : this.#steps[place];
    // A result whose call is not in the transcript, as after a summary, belongs to no step.
    if (place === undefined || call === undefined || !isCall(call)) return;
    const result = blocksOf(block.content).flatMap(textOfBlock).join("\n");
    this.#steps[place] = { ...call, result, ...(block.is_error === true && { is_error: true }) };
  }

  #addPrompt(texts: readonly string[], at: Pick<RecordedCall, "at">): void {
    const prompt = texts.filter((text) => text !== "").join("\n");
    if (prompt !== "") this.#steps.push({ prompt, ...at });
  }
}

const isByUser = ({ isMeta, isSidechain, isCompactSummary }: JsonRecord): boolean =>
  isMeta !== true && isSidechain !== true && isCompactSummary !== true;

/** Lists the blocks of a content; a text is a block of its own. */
function blocksOf(content: JsonValue | undefined): readonly JsonRecord[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? content.filter(isJsonRecord) : [];
}

const textOfBlock = ({ type, text }: JsonRecord): readonly string[] =>
  type === "text" && typeof text === "string" ? [text.toWellFormed()] : [];

/**
 * Names of tags around what the program adds to a user's message: reminders, what the editor shows, commands with their output, and what
 * hooks and other agents say.
 */
const ADDED = [
  "system-reminder",
  "ide_opened_file",
  "ide_selection",
  "ide_diagnostics",
  "local-command-caveat",
  "local-command-stdout",
  "local-command-stderr",
  "bash-stdout",
  "bash-stderr",
  "command-message",
  "command-name",
  "task-notification",
  "teammate-message",
  "user-prompt-submit-hook",
].join("|");
const START = new RegExp(`<(?:${ADDED})[\\s>]`);
const END = new RegExp(`</(?:${ADDED})>`, "g");
/** Tags around what the user typed after a command. */
const TYPED = /<\/?(?:command-args|bash-input)>/g;

/**
 * Returns the part of a user's message that the user wrote. Everything from the first start of an addition to the last end of any is left
 * out, because an output may hold ends and starts itself and would otherwise go on as the user's words.
 */
function writtenIn(text: string): string {
  const start = text.search(START);
  const written = start < 0 ? text : `${text.slice(0, start)}${afterAdditions(text.slice(start))}`;
  return written.replaceAll(TYPED, "").trim();
}

/** Returns the text behind the last addition; none of it, if that has no end. */
function afterAdditions(text: string): string {
  const end = [...text.matchAll(END)].at(-1);
  const [after = ""] = end === undefined ? [] : text.slice(end.index + end[0].length).split(START);
  return after;
}

/** Returns what the user wrote while the agent was at work. */
function queuedIn(attachment: JsonValue | undefined): readonly string[] {
  if (!isJsonRecord(attachment) || attachment.type !== "queued_command") return [];
  if (attachment.commandMode !== undefined && attachment.commandMode !== "prompt") return [];
  return blocksOf(attachment.prompt).flatMap(textOfBlock).map(writtenIn);
}
