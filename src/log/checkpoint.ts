import { createPublicKey, hash } from "node:crypto";
import { LRUCache } from "lru-cache";

/** An ECDSA P-256 key that signs checkpoints. */
export interface CheckpointSigner {
  /** PEM (SubjectPublicKeyInfo). */
  readonly publicPem: string;
  /** Signs with ECDSA and SHA-256. Returns DER. */
  sign(bytes: Uint8Array): Uint8Array;
}

/** The signed size and root of a workspace's tree. */
export interface Checkpoint {
  /** Name of the log: the first line of the note, and the name of the key that signs it. */
  readonly origin: string;
  readonly treeSize: number;
  readonly rootHash: Uint8Array;
  /** The signed note of c2sp.org/tlog-checkpoint. */
  readonly note: string;
  /** The public key in the format of c2sp.org/signed-note, for verifiers. */
  readonly verifierKey: string;
}

/** Signs the size and root of a workspace's tree. */
export type SignCheckpoint = (workspaceId: string, treeSize: number, rootHash: Uint8Array) => Checkpoint;

/** Signature type of ECDSA in signed notes. */
const ECDSA = 0x02;
const KEY_ID_BYTES = 4;
/** Maximum number of cached signatures: readers poll for the newest checkpoint. */
const CACHED_SIGNATURES = 1_000;

/**
 * Creates the signer of checkpoints. `origin` names the service as a URL without scheme, `log.example.com`; the log of a
 * workspace is `<origin>/vault/<workspace id>`. Signatures are cached, so that polling does not sign again.
 */
export function createCheckpoints(origin: string, signer: CheckpointSigner): SignCheckpoint {
  const publicKey = createPublicKey(signer.publicPem).export({ type: "spki", format: "der" });
  // ECDSA keys are an exception of c2sp.org/signed-note: their id does not depend on their name.
  const keyId = hash("sha256", publicKey, "buffer").subarray(0, KEY_ID_BYTES);
  const keyText = `${keyId.toString("hex")}+${Buffer.concat([Buffer.of(ECDSA), publicKey]).toString("base64")}`;
  const signatures = new LRUCache<string, string>({
    max: CACHED_SIGNATURES,
    memoMethod: (text) => Buffer.concat([keyId, signer.sign(Buffer.from(text))]).toString("base64"),
  });
  return (workspaceId, treeSize, rootHash) => {
    const name = `${origin}/vault/${workspaceId}`;
    const text = `${name}\n${treeSize}\n${Buffer.from(rootHash).toString("base64")}\n`;
    const note = `${text}\n\u2014 ${name} ${signatures.memo(text)}\n`;
    return { origin: name, treeSize, rootHash, note, verifierKey: `${name}+${keyText}` };
  };
}
