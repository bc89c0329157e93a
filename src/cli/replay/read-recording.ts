import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { JsonFault, readJsonAtOnce } from "../../json/read-json.ts";
import type { JsonValue } from "../../verify/json.ts";
import { CommandError } from "../command.ts";

/** Maximum bytes of a line, or of a file that is one JSON text. */
export const MAX_TEXT_BYTES = 16_777_216;
/** Bounds of one JSON text of a recording. */
const BOUNDS = { maxDepth: 60, maxValues: 1_000_000 } as const;

const FAULTS: Readonly<Record<JsonFault["kind"], string>> = {
  malformed: "is not JSON",
  too_deep: `is nested more than ${BOUNDS.maxDepth} levels deep`,
  too_many_values: `has more than ${BOUNDS.maxValues} values`,
  repeated_member: "names a member twice",
};

/** Parses a JSON text of a recording. Throws `CommandError` that names the place. */
export function parseRecorded(text: string, place: string): JsonValue {
  try {
    return readJsonAtOnce(text, BOUNDS) as JsonValue;
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    const at = error.position === undefined ? "" : ` (at character ${error.position + 1})`;
    throw new CommandError(`${place}: ${FAULTS[error.kind]}${at}`);
  }
}

/** A line that is not empty, with its number from 1. */
export interface Line {
  readonly number: number;
  readonly text: string;
}

/** Reads the lines of a file that are not empty. Throws `CommandError` for one that is too long or not UTF-8, with its number. */
export async function* linesOf(file: string): AsyncGenerator<Line> {
  const stream = createReadStream(file);
  let pieces: Buffer[] = [];
  let bytes = 0;
  let number = 1;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      let start = 0;
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
        pieces.push(chunk.subarray(start, end));
        bytes += end - start;
        assertShort(bytes, `${file}:${number}`);
        const text = textFrom(Buffer.concat(pieces), `${file}:${number}`);
        if (text.trim() !== "") yield { number, text };
        [pieces, bytes, start] = [[], 0, end + 1];
        number += 1;
      }
      pieces.push(chunk.subarray(start));
      bytes += chunk.length - start;
      assertShort(bytes, `${file}:${number}`);
    }
  } catch (error) {
    throw unreadable(file, error);
  } finally {
    stream.destroy();
  }
  const text = textFrom(Buffer.concat(pieces), `${file}:${number}`);
  if (text.trim() !== "") yield { number, text };
}

/** Reads a file as one text. Throws `CommandError` if it is too large or not UTF-8. */
export async function textOf(file: string): Promise<string> {
  try {
    // One byte more than it may have, because the size of a pipe or device is not known.
    const bytes = await buffer(createReadStream(file, { end: MAX_TEXT_BYTES }));
    assertShort(bytes.length, file);
    return textFrom(bytes, file);
  } catch (error) {
    throw unreadable(file, error);
  }
}

function assertShort(bytes: number, place: string): void {
  if (bytes > MAX_TEXT_BYTES) throw new CommandError(`${place}: has more than ${MAX_TEXT_BYTES} bytes`);
}

function textFrom(bytes: Uint8Array, place: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new CommandError(`${place}: is not UTF-8`);
  }
}

function unreadable(file: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof CommandError || typeof code !== "string") return error;
  return new CommandError(`${file} cannot be read: ${code}`);
}

/**
 * Lists the files at paths: a file itself, and the regular files below a folder whose names end in `ending`, sorted. Hidden ones are
 * left out.
 */
export async function filesAt(paths: readonly string[], ending: string): Promise<readonly string[]> {
  const files: string[] = [];
  for (const path of paths) {
    const found = await filesBelow(path, ending);
    if (found.length === 0) throw new CommandError(`${path} contains no ${ending} files`);
    files.push(...found);
  }
  return [...new Set(files)];
}

async function filesBelow(path: string, ending: string): Promise<readonly string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = await readdir(path, { recursive: true });
    const isHidden = (name: string): boolean => name.split(/[\\/]/).some((part) => part.startsWith("."));
    const files: string[] = [];
    for (const name of names.filter((each) => each.endsWith(ending) && !isHidden(each)).sort()) {
      const file = join(path, name);
      if ((await stat(file)).isFile()) files.push(file);
    }
    return files;
  } catch (error) {
    throw unreadable(path, error);
  }
}
