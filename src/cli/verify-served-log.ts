import { ServiceFailedError } from "./command.ts";
import type { VaultServer } from "./vault-server.ts";
import {
  type Checkpoint,
  createLogCheck,
  hashOfLeaf,
  isConsistent,
  type PublicKey,
  rootFromInclusion,
  type SignedCheckpoint,
  VerificationError,
  verifyCheckpoint,
} from "./verify/index.ts";

/** A log that was verified whole, and how many proofs of the service were. */
export interface ServedLog {
  readonly checkpoint: SignedCheckpoint;
  readonly proofs: number;
}

/** Inclusion proofs that are asked for: the entries themselves are all checked, these check that the service proves. */
const SAMPLES = 16;

/** Indexes spread evenly over a log, the first and the last among them. */
function samplesOf(size: number): ReadonlySet<number> {
  const count = Math.min(size, SAMPLES);
  return new Set(Array.from({ length: count }, (_, at) => Math.floor((at * (size - 1)) / Math.max(1, count - 1))));
}

async function assertInclusion(
  server: VaultServer,
  { treeSize, root }: Checkpoint,
  leafIndex: number,
  leaf: Uint8Array,
) {
  const auditPath = await server.auditPath(leafIndex, treeSize);
  if (rootFromInclusion(leaf, { leafIndex, treeSize, auditPath })?.equals(root)) return;
  throw new VerificationError(
    "proof",
    `the service's proof of entry ${leafIndex} does not lead to its root`,
    leafIndex,
  );
}

/** Checks that one checkpoint's log goes on in another's. Gives the number of proofs that this took. */
async function assertConsistent(server: VaultServer, earlier: Checkpoint, later: Checkpoint): Promise<number> {
  const { treeSize: from, root: fromRoot } = earlier;
  const { treeSize: to, root: toRoot } = later;
  if (from > to) {
    throw new VerificationError("truncated", `the log was cut off: it had ${from} entries and has ${to}`, to, from - 1);
  }
  if (from === 0) return 0;
  const path = from === to ? [] : await server.consistencyPath(from, to);
  if (!isConsistent({ from, to, fromRoot, toRoot, path })) {
    throw new VerificationError(
      "proof",
      `the service does not prove that its log of ${from} entries goes on in that of ${to}`,
    );
  }
  return from === to ? 0 : 1;
}

/** The service's checkpoint. One that fails may do so because of its entries: they say then which of them is at fault. */
async function checkpointOf(server: VaultServer, earlier: readonly Checkpoint[]): Promise<string> {
  try {
    return await server.checkpoint();
  } catch (error) {
    if (!(error instanceof ServiceFailedError)) throw error;
    const check = createLogCheck(undefined, earlier);
    for await (const entry of server.entries()) check.add(entry);
    check.finish();
    throw error;
  }
}

/**
 * Reads every entry that the service's checkpoint covers and checks it; then the service's own proofs, and that its log has
 * only grown meanwhile. Others may append at the same time. Throws `VerificationError`.
 */
export async function verifyServedLog(
  server: VaultServer,
  keys: readonly PublicKey[],
  earlier: readonly Checkpoint[],
): Promise<ServedLog> {
  const checkpoint = verifyCheckpoint(await checkpointOf(server, earlier), keys);
  const { treeSize } = checkpoint;
  const check = createLogCheck(checkpoint, earlier);
  const samples = samplesOf(treeSize);
  const leaves = new Map<number, Uint8Array>();
  for await (const entry of server.entries(treeSize)) {
    check.add(entry);
    if (samples.has(entry.index)) leaves.set(entry.index, hashOfLeaf(entry.body));
  }
  check.finish();
  for (const [index, leaf] of leaves) await assertInclusion(server, checkpoint, index, leaf);
  let proofs = leaves.size;
  for (const each of earlier) proofs += await assertConsistent(server, each, checkpoint);
  const later = verifyCheckpoint(await server.checkpoint(), keys);
  proofs += await assertConsistent(server, checkpoint, later);
  return { checkpoint, proofs };
}
