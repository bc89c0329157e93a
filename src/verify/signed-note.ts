import { type Bytes, base64, bytesFromBase64, hex, joined, utf8 } from "./bytes.ts";
import type { PublicKey } from "./public-key.ts";
import { VerificationError } from "./verification-error.ts";

/** A note (c2sp.org/signed-note): a text and the signatures below it. */
export interface SignedNote {
  /** Signed text, including its last newline. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

/** One signature line of a note. */
export interface NoteSignature {
  readonly name: string;
  /** Four bytes in hexadecimal. */
  readonly keyId: string;
  readonly bytes: Bytes;
}

/** The specification requires support for at least 16 signatures per note. */
const MAX_SIGNATURES = 64;
const SIGNATURE_LINE = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/u;
const KEY_ID_BYTES = 4;
/** Signature type of ECDSA. */
const ECDSA = 0x02;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the specification forbids them
const CONTROLS = /[\u0000-\u0009\u000b-\u001f]/;

/** Refuses a malformed checkpoint. */
export function refuseCheckpoint(what: string): never {
  throw new VerificationError("checkpoint", `the checkpoint ${what}`);
}

/** Splits the note of a checkpoint into text and signatures. Throws `checkpoint`. */
export function parseNote(note: string): SignedNote {
  if (CONTROLS.test(note) || !note.isWellFormed()) refuseCheckpoint("holds control characters");
  const blank = note.lastIndexOf("\n\n");
  if (blank < 0 || !note.endsWith("\n")) refuseCheckpoint("has no blank line before its signatures");
  const lines = note.slice(blank + 2, -1).split("\n");
  if (lines.length > MAX_SIGNATURES) refuseCheckpoint(`has more than ${MAX_SIGNATURES} signatures`);
  return { text: note.slice(0, blank + 1), signatures: lines.map(parseSignature) };
}

function parseSignature(line: string): NoteSignature {
  const [, name = "", text = ""] = SIGNATURE_LINE.exec(line) ?? refuseCheckpoint("has a line that is no signature");
  const bytes = bytesFromBase64(text);
  if (bytes === undefined || bytes.length <= KEY_ID_BYTES) {
    return refuseCheckpoint("has a signature that is no base64 of a key id and more");
  }
  return { name, keyId: hex(bytes.subarray(0, KEY_ID_BYTES)), bytes: bytes.slice(KEY_ID_BYTES) };
}

/**
 * Finds the key that signed a note under a name. A signature counts if its line has the name and the id of one of the keys;
 * lines of other keys are skipped. A wrong signature by one of the keys makes the result undefined.
 */
export async function signerOf(
  { text, signatures }: SignedNote,
  name: string,
  keys: readonly PublicKey[],
): Promise<PublicKey | undefined> {
  const signed = utf8(text);
  let signer: PublicKey | undefined;
  for (const { name: signedName, keyId, bytes } of signatures) {
    const known = keys.filter(({ noteKeyId }) => signedName === name && noteKeyId === keyId);
    if (known.length === 0) continue;
    const matches = await Promise.all(known.map((key) => key.hasSigned(signed, bytes)));
    signer = known[matches.indexOf(true)];
    if (signer === undefined) return undefined;
  }
  return signer;
}

/** Writes a key in the form of c2sp.org/signed-note, for a log by name. */
export const verifierKeyOf = (name: string, { noteKeyId, spki }: PublicKey): string =>
  `${name}+${noteKeyId}+${base64(joined(Uint8Array.of(ECDSA), spki))}`;
