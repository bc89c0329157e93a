import { type Bytes, base64, base64Url, bytesFromBase64, hex, joined, sha256, utf8 } from "./bytes.ts";
import type { JsonRecord } from "./json.ts";
import { VerificationError } from "./verification-error.ts";

/** An ECDSA P-256 public key. */
export interface PublicKey {
  /** SHA-256 of the DER SubjectPublicKeyInfo, as `sha256:` and lower-case hexadecimal, for people to compare. */
  readonly fingerprint: string;
  /** First four bytes of the same hash in hexadecimal: the id of ECDSA keys in C2SP signed notes. */
  readonly noteKeyId: string;
  /** RFC 7638 thumbprint, equal to `kid` in a key set. */
  readonly thumbprint: string;
  /** `kid` from a key set; undefined for a key of another source. */
  readonly kid: string | undefined;
  /** SubjectPublicKeyInfo, DER. */
  readonly spki: Bytes;
  /** SubjectPublicKeyInfo, PEM. */
  readonly pem: string;
  /** Time of retirement from a key set, epoch milliseconds; undefined for a key in use. */
  readonly retiredAtMs: number | undefined;
  /** Tests whether this key made a DER signature over SHA-256 of the bytes. */
  hasSigned(bytes: Bytes, signature: Uint8Array): Promise<boolean>;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" } as const;
const SIGNATURE = { name: "ECDSA", hash: "SHA-256" } as const;
/** Maximum number of keys read from a set: each costs an import, and the set is not trusted. */
const MAX_KEYS = 100;
const PEM = /^-----BEGIN PUBLIC KEY-----$([A-Za-z0-9+/=\s]+)^-----END PUBLIC KEY-----\s*$/m;

/** Reads a PEM `PUBLIC KEY`; undefined if the text is not an ECDSA P-256 key in this form. */
export async function publicKeyFromPem(pem: string): Promise<PublicKey | undefined> {
  const spki = bytesFromBase64(PEM.exec(pem)?.[1]?.replaceAll(/\s/g, ""));
  if (spki === undefined) return undefined;
  try {
    return await publicKeyFrom(await crypto.subtle.importKey("spki", spki, ALGORITHM, true, ["verify"]));
  } catch {
    return undefined;
  }
}

/** Reads the ECDSA P-256 keys of a JSON Web Key Set (RFC 7517) and skips others; undefined for a value that is not a key set. */
export async function publicKeysFromJwks(value: unknown): Promise<readonly PublicKey[] | undefined> {
  const list = (value as { readonly keys?: unknown } | null | undefined)?.keys;
  if (!Array.isArray(list)) return undefined;
  const keys = await Promise.all(list.slice(0, MAX_KEYS).map((jwk) => publicKeyFromJwk(jwk).catch(() => undefined)));
  return keys.filter((key) => key !== undefined);
}

async function publicKeyFromJwk(jwk: JsonRecord): Promise<PublicKey> {
  const { kty, crv, x, y, kid, retired_at: retiredAt } = jwk;
  const key = await crypto.subtle.importKey("jwk", { kty, crv, x, y } as JsonWebKey, ALGORITHM, true, ["verify"]);
  // An unreadable time counts as retired from the beginning.
  const retiredAtMs = retiredAt === undefined ? undefined : Date.parse(String(retiredAt)) || 0;
  return { ...(await publicKeyFrom(key)), kid: String(kid), retiredAtMs };
}

async function publicKeyFrom(key: CryptoKey): Promise<PublicKey> {
  const spki: Bytes = new Uint8Array(await crypto.subtle.exportKey("spki", key));
  const { crv, kty, x, y } = await crypto.subtle.exportKey("jwk", key);
  const digest = hex(await sha256(spki));
  return {
    fingerprint: `sha256:${digest}`,
    noteKeyId: digest.slice(0, 8),
    thumbprint: base64Url(await sha256(utf8(JSON.stringify({ crv, kty, x, y })))),
    kid: undefined,
    spki,
    pem: pemFrom(spki),
    retiredAtMs: undefined,
    async hasSigned(bytes, signature) {
      const raw = rawSignature(signature);
      return raw !== undefined && crypto.subtle.verify(SIGNATURE, key, raw, bytes);
    },
  };
}

function pemFrom(spki: Bytes): string {
  const lines = base64(spki).match(/.{1,64}/g) ?? [];
  return `-----BEGIN PUBLIC KEY-----\n${lines.join("\n")}\n-----END PUBLIC KEY-----\n`;
}

/** Refuses a statement dated after the retirement of the key that signed it. */
export function assertSignedInTime({ thumbprint, retiredAtMs }: PublicKey, what: string, at: unknown): void {
  if (retiredAtMs === undefined || Date.parse(String(at)) <= retiredAtMs) return;
  const retired = new Date(retiredAtMs).toISOString();
  const message = `${what} is of ${String(at)} and signed with key \`${thumbprint}\`, which was retired at ${retired}`;
  throw new VerificationError("signature", message);
}

/** Refuses a key whose id in its key set differs from its thumbprint. */
export function assertKeyId({ thumbprint, kid = thumbprint }: PublicKey): void {
  if (kid === thumbprint) return;
  const message = `the key set gives the key \`${thumbprint}\` the id \`${kid}\`, which is not its thumbprint`;
  throw new VerificationError("signature", message);
}

const SEQUENCE = 0x30;
const INTEGER = 0x02;
/** Length in bytes of each of the two numbers of a P-256 signature. */
const NUMBER_BYTES = 32;

/** Converts a DER signature to the two numbers that Web Crypto takes; undefined unless it is exact DER. */
export function rawSignature(der: Uint8Array): Bytes | undefined {
  if (der[0] !== SEQUENCE || der[1] !== der.length - 2 || der.length > 0x80) return undefined;
  const r = numberIn(der, 2);
  const s = r === undefined ? undefined : numberIn(der, r.end);
  if (r === undefined || s === undefined || s.end !== der.length) return undefined;
  return joined(r.bytes, s.bytes);
}

function numberIn(der: Uint8Array, at: number): { readonly bytes: Bytes; readonly end: number } | undefined {
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
