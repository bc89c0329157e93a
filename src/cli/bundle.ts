import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readFile, rename, rm } from "node:fs/promises";
import {
  type BundleHead,
  bundleHeadFrom,
  DECISION_FORMAT,
  decisionProofFrom,
  entryFrom,
  LOG_FORMAT,
} from "../verify/bundle.ts";
import type { DecisionProof } from "../verify/decision.ts";
import type { LogEntry } from "../verify/entry.ts";
import { isJsonRecord, type JsonRecord } from "../verify/json.ts";
import { VerificationError } from "../verify/verification-error.ts";
import { CommandError, type CommandIo } from "./command.ts";

/** A whole log, read from disk on demand. */
export interface LogBundle extends BundleHead {
  readonly kind: "log";
  /** Reads all entries, each time from the first one. */
  entries(): AsyncIterable<LogEntry>;
}

/** One decision with its proof. */
export interface DecisionBundle extends BundleHead {
  readonly kind: "decision";
  readonly proof: DecisionProof;
}

/** Longest line, in characters: far above the largest entry, far below the available memory. */
const MAX_LINE = 67_108_864;
const CHUNK_BYTES = 1_048_576;

/**
 * Opens a bundle of either kind. Throws `CommandError` if the file is not a bundle, and `VerificationError` if a part is missing.
 */
export async function openBundle(path: string): Promise<LogBundle | DecisionBundle> {
  const head = await readHead(path);
  if (head.format === DECISION_FORMAT) {
    return { kind: "decision", ...(await bundleHeadFrom(head)), proof: decisionProofFrom(head) };
  }
  if (head.format === LOG_FORMAT) {
    return { kind: "log", ...(await bundleHeadFrom(head)), entries: () => readEntries(path) };
  }
  throw new CommandError(`\`${path}\` is not a bundle: its \`format\` is neither ${LOG_FORMAT} nor ${DECISION_FORMAT}`);
}

/** Returns the first line if it is JSON by itself, otherwise the whole file. */
async function readHead(path: string): Promise<JsonRecord> {
  const line = parseJson(await firstLine(path));
  const head = line ?? parseJson(await readText(path));
  if (isJsonRecord(head)) return head;
  throw new CommandError(`\`${path}\` is not a bundle: it does not begin with a JSON object`);
}

async function firstLine(path: string): Promise<string> {
  for await (const line of readLines(path)) return line;
  throw new CommandError(`\`${path}\` is empty`);
}

async function* readEntries(path: string): AsyncGenerator<LogEntry> {
  let line = 0;
  for await (const text of readLines(path)) {
    line += 1;
    if (line > 1) yield entryFrom(parseJson(text), `line ${line}`);
  }
}

/** Reads the lines of a file. Unlike `node:readline` it only splits at U+000A, since JSON may contain other line separators. */
async function* readLines(path: string): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let rest = "";
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
      const lines = (rest + decoder.decode(chunk as Buffer, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > MAX_LINE)
        throw new VerificationError("malformed", `a line is longer than ${MAX_LINE} characters`);
      yield* lines;
    }
    rest += decoder.decode();
  } catch (error) {
    throw readFault(error, path);
  }
  if (rest !== "") yield rest;
}

/** Reads a small file as a whole. Throws `CommandError`. */
export function readText(path: string): Promise<string> {
  return readFile(path, "utf8").catch((error: unknown) => {
    throw readFault(error, path);
  });
}

function readFault(error: unknown, path: string): unknown {
  if (error instanceof TypeError) return new VerificationError("malformed", `\`${path}\` is not UTF-8`);
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined || error instanceof VerificationError
    ? error
    : new CommandError(`\`${path}\` cannot be read (${code})`);
}

/** Parses JSON; undefined if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Writes a piece of an output. */
export type WritePiece = (text: string) => Promise<void>;

/** Characters that are buffered before they are written: one system call per small piece would dominate the run time. */
const BUFFERED_CHARACTERS = 262_144;

/**
 * Writes a file, or standard output if `path` is undefined. A file appears whole or not at all: it is written under a
 * temporary name and renamed.
 */
export async function writeOutput(
  path: string | undefined,
  io: CommandIo,
  produce: (write: WritePiece) => Promise<void>,
): Promise<void> {
  if (path === undefined) return writeBuffered((text) => io.write(text), produce);
  const temporary = `${path}.${randomUUID()}`;
  try {
    await using file = await open(temporary, "wx");
    await writeBuffered(async (text) => void (await file.write(text)), produce);
    await file.sync();
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw writeFault(error, path);
  }
}

async function writeBuffered(write: WritePiece, produce: (write: WritePiece) => Promise<void>): Promise<void> {
  let buffered = "";
  await produce(async (text) => {
    buffered += text;
    if (buffered.length < BUFFERED_CHARACTERS) return;
    const full = buffered;
    buffered = "";
    await write(full);
  });
  if (buffered !== "") await write(buffered);
}

function writeFault(error: unknown, path: string): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return code === undefined || syscall === undefined
    ? error
    : new CommandError(`\`${path}\` cannot be written (${code})`);
}
