import { type Bytes, base64, bytesFromBase64, HASH_BYTES, hex, joined, sha256, utf8 } from "./bytes.ts";

/** The text of a checkpoint (c2sp.org/tlog-checkpoint) and the signatures below it. */
export interface ParsedNote {
  readonly origin: string;
  readonly treeSize: number;
  readonly root: Bytes;
  /** The signed text with its last newline. */
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

/** A key that the service publishes. */
export interface PublishedKey {
  /** RFC 7638 thumbprint; the `kid` of the key set. */
  readonly thumbprint: string;
  /** The `kid` that the key set says. */
  readonly kid: string;
  /** SHA-256 of the DER SubjectPublicKeyInfo in hexadecimal: the form that people compare. */
  readonly fingerprint: string;
  /** DER SubjectPublicKeyInfo. */
  readonly spki: Bytes;
  /** When it was retired, epoch milliseconds; undefined while it may sign. */
  readonly retiredAtMs: number | undefined;
  readonly key: CryptoKey;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" } as const;
const ECDSA_TYPE = 0x02;
/** Digits of a key id: an ECDSA key's is the beginning of its fingerprint. */
const KEY_ID_DIGITS = 8;
/** The specification requires support for at least 16 signatures per note. */
const MAX_SIGNATURES = 64;
const MAX_KEYS = 100;
const SIGNATURE_LINE = /^\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the specification forbids them
const CONTROLS = /[\u0000-\u0009\u000b-\u001f]/;

/** Says in a sentence why a note is none. */
export class NoteFault extends Error {
  override readonly name = "NoteFault";
}

function refuse(what: string): never {
  throw new NoteFault(`the checkpoint ${what}`);
}

/** Reads a checkpoint's note. Throws `NoteFault`. */
export function parseNote(note: string): ParsedNote {
  if (CONTROLS.test(note) || !note.isWellFormed()) refuse("holds control characters");
  const blank = note.lastIndexOf("\n\n");
  if (blank < 0 || !note.endsWith("\n")) refuse("has no blank line before its signatures");
  const lines = note.slice(blank + 2, -1).split("\n");
  if (lines.length > MAX_SIGNATURES) refuse(`has more than ${MAX_SIGNATURES} signatures`);
  const text = note.slice(0, blank + 1);
  const [origin = "", size = "", root = "", ...more] = text.slice(0, -1).split("\n");
  if (origin === "") refuse("has no origin on its first line");
  if (!/^(0|[1-9]\d*)$/.test(size) || !Number.isSafeInteger(Number(size))) refuse("has no size on its second line");
  const bytes = bytesFromBase64(root);
  if (bytes?.length !== HASH_BYTES) refuse("has no root hash on its third line");
  if (more.includes("")) refuse("has an empty line in its text");
  return { origin, treeSize: Number(size), root: bytes, text, signatures: lines.map(parseSignature) };
}

function parseSignature(line: string): NoteSignature {
  const [, name = "", text = ""] = SIGNATURE_LINE.exec(line) ?? refuse("has a line that is no signature");
  const bytes = bytesFromBase64(text);
  if (bytes === undefined || bytes.length < 5) refuse("has a signature that is no base64 of a key id and more");
  return { name, keyId: hex(bytes.subarray(0, 4)), bytes: bytes.slice(4) };
}

/** Reads the ECDSA P-256 keys of a JSON Web Key Set (RFC 7517); others are skipped. */
export async function publishedKeys(jwks: unknown): Promise<readonly PublishedKey[]> {
  const list = (jwks as { readonly keys?: unknown } | null | undefined)?.keys;
  if (!Array.isArray(list)) return [];
  const keys = await Promise.all(list.slice(0, MAX_KEYS).map((jwk) => publishedKey(jwk).catch(() => undefined)));
  return keys.filter((key) => key !== undefined);
}

async function publishedKey(jwk: JsonWebKey & { readonly kid?: unknown; readonly retired_at?: unknown }) {
  const { kty, crv, x, y } = jwk;
  const key = await crypto.subtle.importKey("jwk", { kty, crv, x, y } as JsonWebKey, ALGORITHM, true, ["verify"]);
  const spki: Bytes = new Uint8Array(await crypto.subtle.exportKey("spki", key));
  const thumbprint = base64(await sha256(utf8(JSON.stringify({ crv, kty, x, y }))))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace("=", "");
  const retired = jwk.retired_at;
  // A time that cannot be read stands for one before everything.
  const retiredAtMs = retired === undefined ? undefined : Date.parse(String(retired)) || 0;
  return { thumbprint, kid: String(jwk.kid), fingerprint: hex(await sha256(spki)), spki, retiredAtMs, key };
}

/** Returns a key in the form of c2sp.org/signed-note, for the log of a name. */
export const verifierKeyOf = (origin: string, { fingerprint, spki }: PublishedKey): string =>
  `${origin}+${fingerprint.slice(0, KEY_ID_DIGITS)}+${base64(joined(Uint8Array.of(ECDSA_TYPE), spki))}`;

/** Returns a key as PEM `PUBLIC KEY`. */
export function pemOf({ spki }: PublishedKey): string {
  const lines = base64(spki).match(/.{1,64}/g) ?? [];
  return `-----BEGIN PUBLIC KEY-----\n${lines.join("\n")}\n-----END PUBLIC KEY-----\n`;
}

/**
 * Returns the key that signed a note; undefined when none of them did. Lines of other names and keys are skipped, and a wrong
 * signature of a known key refuses the note.
 */
export async function signerOf(note: ParsedNote, keys: readonly PublishedKey[]): Promise<PublishedKey | undefined> {
  let signer: PublishedKey | undefined;
  for (const { name, keyId, bytes } of note.signatures) {
    const known = keys.filter(({ fingerprint }) => name === note.origin && fingerprint.startsWith(keyId));
    if (known.length === 0) continue;
    signer = undefined;
    for (const key of known) if (await hasSigned(key, utf8(note.text), bytes)) signer = key;
    if (signer === undefined) return undefined;
  }
  return signer;
}

/** Verifies a DER signature, ECDSA P-256 with SHA-256, over a text. */
export async function hasSigned({ key }: PublishedKey, text: Bytes, der: Bytes): Promise<boolean> {
  const signature = rawSignature(der);
  if (signature === undefined) return false;
  return crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, signature, text);
}

const SEQUENCE = 0x30;
const INTEGER = 0x02;
/** Bytes of each of the two numbers of a P-256 signature. */
const NUMBER_BYTES = 32;

/** Converts a DER signature to the two numbers that Web Crypto takes; undefined unless it is exact DER. */
export function rawSignature(der: Uint8Array): Bytes | undefined {
  if (der[0] !== SEQUENCE || der[1] !== der.length - 2 || der.length > 0x80) return undefined;
  const r = numberAt(der, 2);
  const s = r === undefined ? undefined : numberAt(der, r.end);
  if (r === undefined || s === undefined || s.end !== der.length) return undefined;
  return joined(r.bytes, s.bytes);
}

function numberAt(der: Uint8Array, at: number): { readonly bytes: Bytes; readonly end: number } | undefined {
  const length = der[at + 1] ?? 0;
  const end = at + 2 + length;
  if (der[at] !== INTEGER || length === 0 || end > der.length) return undefined;
  const [first = 0, second = 0] = der.subarray(at + 2, end);
  // DER: positive, and as short as can be.
  if (first >= 0x80 || (first === 0 && length > 1 && second < 0x80)) return undefined;
  const digits = der.subarray(first === 0 ? at + 3 : at + 2, end);
  if (digits.length > NUMBER_BYTES) return undefined;
  return { bytes: joined(new Uint8Array(NUMBER_BYTES - digits.length), digits), end };
}
