import { createPublicKey, hash } from "node:crypto";

/** What signs checkpoints: an ECDSA P-256 key. */
export interface CheckpointSigner {
  /** PEM (SubjectPublicKeyInfo). */
  readonly publicPem: string;
  /** ECDSA with SHA-256, DER. */
  sign(bytes: Uint8Array): Uint8Array;
}

/** The size and root of a workspace's tree, signed. */
export interface Checkpoint {
  /** Names the log: the first line of the note, and the name of the key that signs it. */
  readonly origin: string;
  readonly treeSize: number;
  readonly rootHash: Uint8Array;
  /** The signed note of c2sp.org/tlog-checkpoint. */
  readonly note: string;
  /** What a verifier is to know of the key, as c2sp.org/signed-note writes it. */
  readonly verifierKey: string;
}

/** Makes the checkpoint of a tree. */
export type SignCheckpoint = (workspaceId: string, treeSize: number, rootHash: Uint8Array) => Checkpoint;

/** The type of ECDSA signatures in signed notes. */
const ECDSA = 0x02;
const KEY_ID_BYTES = 4;
/** Signed texts that are remembered; readers ask for the newest again and again. */
const REMEMBERED = 1_000;

/** Calls `make` once for each of the latest keys. */
function remembering<T>(make: (key: string) => T): (key: string) => T {
  const known = new Map<string, T>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found;
    const made = make(key);
    known.set(key, made);
    const [oldest] = known.keys();
    if (known.size > REMEMBERED && oldest !== undefined) known.delete(oldest);
    return made;
  };
}

/**
 * Creates what signs checkpoints. `origin` names the service in a URL without scheme, `log.example.com`; the log of a
 * workspace is `<origin>/vault/<workspace id>`. Each text is signed once, however often it is asked for.
 */
export function createCheckpoints(origin: string, signer: CheckpointSigner): SignCheckpoint {
  const publicKey = createPublicKey(signer.publicPem).export({ type: "spki", format: "der" });
  // ECDSA keys are an exception of c2sp.org/signed-note: their id does not depend on their name.
  const keyId = hash("sha256", publicKey, "buffer").subarray(0, KEY_ID_BYTES);
  const keyText = `${keyId.toString("hex")}+${Buffer.concat([Buffer.of(ECDSA), publicKey]).toString("base64")}`;
  const signatureOf = remembering((text) => Buffer.concat([keyId, signer.sign(Buffer.from(text))]).toString("base64"));
  return (workspaceId, treeSize, rootHash) => {
    const name = `${origin}/vault/${workspaceId}`;
    const text = `${name}\n${treeSize}\n${Buffer.from(rootHash).toString("base64")}\n`;
    const note = `${text}\n\u2014 ${name} ${signatureOf(text)}\n`;
    return { origin: name, treeSize, rootHash, note, verifierKey: `${name}+${keyText}` };
  };
}
