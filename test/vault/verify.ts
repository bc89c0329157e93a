import { createHash, createPublicKey, verify } from "node:crypto";

const sha256 = (...parts: readonly Uint8Array[]): Buffer => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const nodeOf = (left: Uint8Array, right: Uint8Array): Buffer => sha256(Uint8Array.of(1), left, right);

/** RFC 6962 §2.1. */
export const leafOf = (body: string): Buffer => sha256(Uint8Array.of(0), Buffer.from(body));

/** RFC 9162 §2.1.3.2, step by step: the root that an audit path leads to; undefined for a path of the wrong length. */
export function rootFromPath(
  index: number,
  size: number,
  leaf: Uint8Array,
  path: readonly Uint8Array[],
): Buffer | undefined {
  let [first, last] = [index, size - 1];
  let root: Buffer = Buffer.from(leaf);
  for (const hash of path) {
    if (last === 0) return undefined;
    if (first % 2 === 1 || first === last) {
      root = nodeOf(hash, root);
      while (first % 2 === 0 && first !== 0) [first, last] = [first / 2, Math.floor(last / 2)];
    } else root = nodeOf(root, hash);
    [first, last] = [Math.floor(first / 2), Math.floor(last / 2)];
  }
  return last === 0 ? root : undefined;
}

/** What a consistency proof says. */
export interface Consistency {
  readonly from: number;
  readonly to: number;
  readonly path: readonly Uint8Array[];
  readonly fromRoot: Uint8Array;
  readonly toRoot: Uint8Array;
}

/** RFC 9162 §2.1.4.2, step by step: whether the path leads to both roots. */
export function isConsistent({ from, to, path, fromRoot, toRoot }: Consistency): boolean {
  if (from === to) return path.length === 0 && Buffer.compare(fromRoot, toRoot) === 0;
  const isPower = Number.isInteger(Math.log2(from));
  const [start, ...rest] = isPower ? [fromRoot, ...path] : path;
  if (start === undefined) return false;
  let [first, last] = [from - 1, to - 1];
  while (first % 2 === 1) [first, last] = [(first - 1) / 2, Math.floor(last / 2)];
  let older: Buffer = Buffer.from(start);
  let newer: Buffer = older;
  for (const hash of rest) {
    if (last === 0) return false;
    if (first % 2 === 1 || first === last) {
      [older, newer] = [nodeOf(hash, older), nodeOf(hash, newer)];
      while (first % 2 === 0 && first !== 0) [first, last] = [first / 2, Math.floor(last / 2)];
    } else newer = nodeOf(newer, hash);
    [first, last] = [Math.floor(first / 2), Math.floor(last / 2)];
  }
  return last === 0 && older.equals(fromRoot) && newer.equals(toRoot);
}

/** A note taken apart as c2sp.org/signed-note and c2sp.org/tlog-checkpoint say. */
export interface ReadNote {
  readonly origin: string;
  readonly size: number;
  readonly root: Buffer;
  /** Whether the key that the verifier key holds signed it, under the name that it holds. */
  readonly isSigned: boolean;
}

const NOTE = /^(([^\n]+)\n(0|[1-9]\d*)\n([A-Za-z0-9+/=]+)\n)\n\u2014 ([^ +\n]+) ([A-Za-z0-9+/=]+)\n$/;

/** Reads a checkpoint and verifies its one signature, with what the verifier key alone says. Throws for another form. */
export function readNote(note: string, verifierKey: string): ReadNote {
  const [, text = "", origin = "", size = "", root = "", signer, signed = ""] = NOTE.exec(note) ?? [];
  if (text === "") throw new Error(`not a checkpoint: ${note}`);
  const [name, keyId = "", encoded = ""] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/.exec(verifierKey)?.slice(1) ?? [];
  const key = Buffer.from(encoded, "base64");
  const signature = Buffer.from(signed, "base64");
  const spki = key.subarray(1);
  // ECDSA: the id is the beginning of the digest of the key alone.
  const isKeyFitting = key[0] === 0x02 && sha256(spki).subarray(0, 4).toString("hex") === keyId;
  const isNamed = name === signer && signature.subarray(0, 4).toString("hex") === keyId;
  const publicKey = createPublicKey({ key: spki, type: "spki", format: "der" });
  const isSigned = isKeyFitting && isNamed && verify("sha256", Buffer.from(text), publicKey, signature.subarray(4));
  return { origin, size: Number(size), root: Buffer.from(root, "base64"), isSigned };
}
