import { readFileSync } from "node:fs";
import { CommandError, type CommandIo } from "./command.ts";

/** Reads a small file, or standard input for `-`. Throws `CommandError` if it cannot be read. */
export function readInput(path: string, io: CommandIo): string {
  if (path === "-") {
    const text = io.read?.();
    if (text !== undefined) return text;
    throw new CommandError("`-` reads standard input, which is a terminal: pipe a text into the command");
  }
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code = "no such file" } = error as NodeJS.ErrnoException;
    throw new CommandError(`\`${path}\` cannot be read (${code})`);
  }
}
