import { createPublicKey } from "node:crypto";
import { type SignedCheckpoint, verifyCheckpoint } from "../../src/verify/checkpoint.ts";
import { publicKeyFromPem } from "../../src/verify/public-key.ts";

/** Verifies a checkpoint with its verifier key (c2sp.org/signed-note: name, key id, type and key). Throws if either is wrong. */
export async function readNote(note: string, verifierKey: string): Promise<SignedCheckpoint> {
  const [, name = "", keyId = "", encoded = ""] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/.exec(verifierKey) ?? [];
  const [type, ...der] = Buffer.from(encoded, "base64");
  if (type !== 0x02) throw new Error(`not an ECDSA verifier key: ${verifierKey}`);
  const publicKey = createPublicKey({ key: Buffer.from(der), type: "spki", format: "der" });
  const key = await publicKeyFromPem(publicKey.export({ type: "spki", format: "pem" }).toString());
  if (key?.noteKeyId !== keyId) throw new Error(`the key id does not fit the key: ${verifierKey}`);
  const checkpoint = await verifyCheckpoint(note, [key]);
  if (checkpoint.origin !== name) throw new Error(`the key of \`${name}\` signed for \`${checkpoint.origin}\``);
  return checkpoint;
}
