import { type Checkpoint, parseCheckpoint, type SignedCheckpoint, verifyCheckpoint } from "../verify/checkpoint.ts";
import type { PublicKey } from "../verify/public-key.ts";
import { VerificationError } from "../verify/verification-error.ts";
import { readText } from "./bundle.ts";
import { CommandError } from "./command.ts";

/** A signature line of a note, and the empty lines after the note. */
const END_OF_NOTE = /(?<=\n\u2014 [^\n]*\n)\n+(?=[^\n])/;

/** Reads the notes in a file with one checkpoint or many, of any log. */
export async function keptNotes(path: string): Promise<readonly string[]> {
  return (await readText(path)).split(END_OF_NOTE).map((note) => `${note.trimEnd()}\n`);
}

/**
 * Reads the checkpoints of a log that somebody kept, from a file with one or many, and verifies them. Those of other logs in
 * the file are left out. Rejects if the file has none of this log, or one of it that no trusted key signed; the message names the
 * checkpoint by its size and place.
 */
export async function keptCheckpoints(
  path: string,
  { origin }: Pick<Checkpoint, "origin">,
  keys: readonly PublicKey[],
): Promise<readonly SignedCheckpoint[]> {
  const notes = await keptNotes(path);
  const kept: SignedCheckpoint[] = [];
  const others = new Set<string>();
  for (const [index, note] of notes.entries()) {
    const place = `checkpoint ${index + 1} of \`${path}\``;
    const parsed = within(place, () => parseCheckpoint(note));
    if (parsed.origin === origin) {
      const signed = await verifyCheckpoint(note, keys).catch((error: unknown) => refuse(place, error));
      kept.push({ ...signed, place });
    } else others.add(parsed.origin);
  }
  if (kept.length > 0) return kept;
  const found = [...others].map((other) => `\`${other}\``).join(", ");
  throw new CommandError(`\`${path}\` has no checkpoint of \`${origin}\`; it has those of ${found}`);
}

function within<T>(place: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    return refuse(place, error);
  }
}

function refuse(place: string, error: unknown): never {
  if (!(error instanceof VerificationError)) throw error;
  throw new VerificationError(error.fault, `${place}: ${error.message}`);
}
