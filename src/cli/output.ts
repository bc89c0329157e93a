import { randomUUID } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { CommandError, type CommandIo } from "./command.ts";

/** Writes a text that comes in pieces. */
export type WritePiece = (text: string) => Promise<void>;

/** Characters that are gathered before they are written: a call for each small piece would take most of the time. */
const GATHERED = 262_144;

function gathering(write: WritePiece): { readonly add: WritePiece; readonly flush: () => Promise<void> } {
  let pieces: string[] = [];
  let length = 0;
  const flush = async (): Promise<void> => {
    const text = pieces.join("");
    pieces = [];
    length = 0;
    if (text !== "") await write(text);
  };
  return {
    flush,
    async add(text) {
      pieces.push(text);
      length += text.length;
      if (length >= GATHERED) await flush();
    },
  };
}

function writeFault(error: unknown, path: string): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return code === undefined || syscall === undefined
    ? error
    : new CommandError(`\`${path}\` cannot be written (${code})`);
}

/**
 * Writes a file, or standard output when `path` is undefined. A file is there as a whole or not at all: it is written
 * aside and renamed.
 */
export async function writeOutput(
  path: string | undefined,
  io: CommandIo,
  produce: (write: WritePiece) => Promise<void>,
): Promise<void> {
  if (path === undefined) {
    const { add, flush } = gathering((text) => io.write(text));
    await produce(add);
    return flush();
  }
  const aside = `${path}.${randomUUID()}`;
  try {
    await using file = await open(aside, "wx");
    const { add, flush } = gathering(async (text) => void (await file.write(text)));
    await produce(add);
    await flush();
    await file.sync();
    await rename(aside, path);
  } catch (error) {
    await rm(aside, { force: true });
    throw writeFault(error, path);
  }
}
