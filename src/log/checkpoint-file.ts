import { open, readFile, rename } from "node:fs/promises";
import type { CheckpointStore } from "./checkpoint-keeper.ts";

const MAX_BYTES = 16_777_216;
const OWNER_ONLY = 0o600;
const ORIGIN_AND_SIZE = /^(\S+)\n(\d+)\n[A-Za-z0-9+/]+=*\n\n\u2014 /gm;

/** File of checkpoints, one after the other, that only grows. Once it is full it becomes `<path>.1`, in place of the one before. */
export class CheckpointFile implements CheckpointStore {
  readonly name: string;
  readonly #maxBytes: number;

  /** `maxBytes` is the size at which the file is full; default 16 MiB. */
  constructor(path: string, maxBytes = MAX_BYTES) {
    this.name = path;
    this.#maxBytes = maxBytes;
  }

  /** Reads the checkpoints that the file holds. Rejects if it cannot be written. */
  async open(): Promise<ReadonlyMap<string, number>> {
    const text = await readFile(this.name, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return "";
      throw error;
    });
    await this.#append("");
    const checkpoints = text.matchAll(ORIGIN_AND_SIZE);
    return new Map([...checkpoints].map(([, origin = "", size]) => [workspaceOf(origin), Number(size)]));
  }

  keep(note: string): Promise<void> {
    return this.#append(`${note}\n`);
  }

  /** Appends in one write, so that a reader sees whole checkpoints. */
  async #append(text: string): Promise<void> {
    const file = await open(this.name, "a", OWNER_ONLY);
    try {
      await file.chmod(OWNER_ONLY);
      if (text !== "") await file.appendFile(text);
      await file.datasync();
      if ((await file.stat()).size >= this.#maxBytes) await rename(this.name, `${this.name}.1`);
    } finally {
      await file.close();
    }
  }
}

/** Returns the workspace of a log by its origin, `<service>/vault/<workspace>`. */
const workspaceOf = (origin: string): string => origin.slice(origin.lastIndexOf("/") + 1);
