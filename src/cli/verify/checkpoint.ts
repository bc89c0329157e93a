import { createHash, createPublicKey, type JsonWebKey, type KeyObject, verify } from "node:crypto";
import { base64Bytes } from "./json.ts";
import { VerificationError } from "./verification-error.ts";

/** A checkpoint, the statement that a log has this root at this size (c2sp.org/tlog-checkpoint). */
export interface Checkpoint {
  /** The log's name, the same in all of its checkpoints. */
  readonly origin: string;
  readonly treeSize: number;
  readonly root: Buffer;
  /** The whole note. */
  readonly note: string;
}

/** A checkpoint with a verified signature, and the key that made it. */
export interface SignedCheckpoint extends Checkpoint {
  readonly key: PublicKey;
}

/** An ECDSA P-256 public key. */
export interface PublicKey {
  /** SHA-256 of the DER SubjectPublicKeyInfo, as `sha256:` and lower-case hexadecimal: the form that people compare. */
  readonly fingerprint: string;
  /** The first four bytes of the same hash in hexadecimal: the id of ECDSA keys in C2SP signed notes. */
  readonly noteKeyId: string;
  /** RFC 7638 thumbprint, equal to `kid` in a key set. */
  readonly thumbprint: string;
  /** SubjectPublicKeyInfo, PEM. */
  readonly pem: string;
  /** Time of its retirement, epoch milliseconds, as a key set says it; undefined if it says none. */
  readonly retiredAtMs: number | undefined;
  /** Tests that this key made a DER signature over SHA-256 of the bytes. */
  signed(bytes: Uint8Array, signature: Uint8Array): boolean;
}

interface NoteSignature {
  readonly name: string;
  readonly keyId: string;
  readonly bytes: Buffer;
}

/** The specification requires support for at least 16 signatures per note. */
const MAX_SIGNATURES = 64;
const SIGNATURE_LINE = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/u;
const CURVE = "prime256v1";

/**
 * Verifies a checkpoint with trusted keys (c2sp.org/signed-note, ECDSA). A signature counts if its line names the log and a
 * trusted key; lines of other keys are skipped. A wrong signature of a trusted key refuses the note.
 */
export function verifyCheckpoint(note: string, keys: readonly PublicKey[]): SignedCheckpoint {
  const { text, signatures } = splitNote(note);
  const checkpoint = parseCheckpoint(note, text);
  const signed = Buffer.from(text, "utf8");
  let key: PublicKey | undefined;
  for (const { name, keyId, bytes } of signatures) {
    const known = keys.filter(({ noteKeyId }) => name === checkpoint.origin && noteKeyId === keyId);
    if (known.length === 0) continue;
    key = known.find((each) => each.signed(signed, bytes));
    if (key === undefined) break;
  }
  if (key !== undefined) return { ...checkpoint, key };
  const { origin, treeSize } = checkpoint;
  throw new VerificationError(
    "signature",
    `the checkpoint of size ${treeSize} of \`${origin}\` is not signed by any of the ${keys.length} trusted keys`,
  );
}

const refuse = (what: string): never => {
  throw new VerificationError("checkpoint", `the checkpoint ${what}`);
};

/** Splits a note into the signed text, including its last newline, and the signatures. */
function splitNote(note: string): { readonly text: string; readonly signatures: readonly NoteSignature[] } {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the specification forbids them
  if (/[\u0000-\u0009\u000b-\u001f]/.test(note) || !note.isWellFormed()) refuse("holds control characters");
  const blank = note.lastIndexOf("\n\n");
  if (blank < 0 || !note.endsWith("\n")) refuse("has no blank line before its signatures");
  const lines = note.slice(blank + 2, -1).split("\n");
  if (lines.length > MAX_SIGNATURES) refuse(`has more than ${MAX_SIGNATURES} signatures`);
  return { text: note.slice(0, blank + 1), signatures: lines.map(parseSignature) };
}

function parseSignature(line: string): NoteSignature {
  const [, name = "", base64 = ""] = SIGNATURE_LINE.exec(line) ?? refuse("has a line that is no signature");
  const bytes = base64Bytes(base64);
  if (bytes === undefined || bytes.length < 5) return refuse("has a signature that is no base64 of a key id and more");
  return { name, keyId: bytes.toString("hex", 0, 4), bytes: bytes.subarray(4) };
}

function parseCheckpoint(note: string, text: string): Checkpoint {
  const [origin = "", size = "", root = "", ...more] = text.slice(0, -1).split("\n");
  if (origin === "") refuse("has no origin");
  if (!/^(0|[1-9]\d*)$/.test(size) || !Number.isSafeInteger(Number(size)))
    refuse("has no tree size on its second line");
  const bytes = base64Bytes(root, 32) ?? refuse("has no root hash on its third line");
  if (more.includes("")) refuse("has an empty line in its text");
  return { origin, treeSize: Number(size), root: bytes, note };
}

/** Refuses something that says a time after the retirement of the key that signed it. */
export function assertSignedInTime({ thumbprint, retiredAtMs }: PublicKey, what: string, at: unknown): void {
  if (retiredAtMs === undefined || Date.parse(String(at)) <= retiredAtMs) return;
  const retired = new Date(retiredAtMs).toISOString();
  const message = `${what} is of ${String(at)} and signed with key \`${thumbprint}\`, which was retired at ${retired}`;
  throw new VerificationError("signature", message);
}

/** Reads a PEM `PUBLIC KEY`; undefined if the text is not an ECDSA P-256 key in this form. */
export function publicKeyFromPem(pem: string): PublicKey | undefined {
  if (!pem.includes("-----BEGIN PUBLIC KEY-----")) return undefined;
  try {
    return publicKeyFrom(createPublicKey(pem));
  } catch {
    return undefined;
  }
}

/** Reads the ECDSA P-256 keys of a JSON Web Key Set (RFC 7517) and skips others; undefined if the value is no key set. */
export function publicKeysFromJwks(value: unknown): readonly PublicKey[] | undefined {
  const keys = (value as { readonly keys?: unknown } | null)?.keys;
  if (!Array.isArray(keys)) return undefined;
  return keys.flatMap((jwk: JsonWebKey) => {
    try {
      const { retired_at: retiredAt } = jwk as { readonly retired_at?: unknown };
      // A time that cannot be read stands for one before everything.
      const retiredAtMs = retiredAt === undefined ? undefined : Date.parse(String(retiredAt)) || 0;
      return publicKeyFrom(createPublicKey({ key: jwk, format: "jwk" }), retiredAtMs) ?? [];
    } catch {
      return [];
    }
  });
}

function publicKeyFrom(key: KeyObject, retiredAtMs?: number): PublicKey | undefined {
  if (key.asymmetricKeyDetails?.namedCurve !== CURVE) return undefined;
  const der = key.export({ type: "spki", format: "der" });
  const digest = createHash("sha256").update(der).digest("hex");
  const { crv, kty, x, y } = key.export({ format: "jwk" });
  return {
    retiredAtMs,
    fingerprint: `sha256:${digest}`,
    noteKeyId: digest.slice(0, 8),
    thumbprint: createHash("sha256").update(JSON.stringify({ crv, kty, x, y })).digest("base64url"),
    pem: key.export({ type: "spki", format: "pem" }).toString(),
    signed(bytes, signature) {
      try {
        return verify("sha256", bytes, key, signature);
      } catch {
        return false;
      }
    },
  };
}
