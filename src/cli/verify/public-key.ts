import { createHash, createPublicKey, type JsonWebKey, type KeyObject, verify } from "node:crypto";

/** A key that something may be signed with: ECDSA P-256. */
export interface PublicKey {
  /** SHA-256 of the DER SubjectPublicKeyInfo, as `sha256:` and lower-case hexadecimal: what people compare. */
  readonly fingerprint: string;
  /** The first four bytes of the same hash in hexadecimal: C2SP signed-note names ECDSA keys so. */
  readonly noteKeyId: string;
  /** RFC 7638 thumbprint, as in a key set's `kid`. */
  readonly thumbprint: string;
  /** SubjectPublicKeyInfo, PEM. */
  readonly pem: string;
  /** Whether a DER signature over SHA-256 of the bytes is this key's. */
  signed(bytes: Uint8Array, signature: Uint8Array): boolean;
}

const CURVE = "prime256v1";

function publicKeyFrom(key: KeyObject): PublicKey | undefined {
  if (key.asymmetricKeyDetails?.namedCurve !== CURVE) return undefined;
  const der = key.export({ type: "spki", format: "der" });
  const digest = createHash("sha256").update(der).digest("hex");
  const { crv, kty, x, y } = key.export({ format: "jwk" });
  return {
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

/** Reads a PEM `PUBLIC KEY`; undefined when the text is no ECDSA P-256 key in this form. */
export function publicKeyFromPem(pem: string): PublicKey | undefined {
  if (!pem.includes("-----BEGIN PUBLIC KEY-----")) return undefined;
  try {
    return publicKeyFrom(createPublicKey(pem));
  } catch {
    return undefined;
  }
}

/** Reads the ECDSA P-256 keys of a JSON Web Key Set (RFC 7517), others left out; undefined when the value is no key set. */
export function publicKeysFromJwks(value: unknown): readonly PublicKey[] | undefined {
  const keys = (value as { readonly keys?: unknown } | null)?.keys;
  if (!Array.isArray(keys)) return undefined;
  return keys.flatMap((jwk: JsonWebKey) => {
    try {
      return publicKeyFrom(createPublicKey({ key: jwk, format: "jwk" })) ?? [];
    } catch {
      return [];
    }
  });
}
