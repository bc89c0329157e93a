import {
  DECISION_FORMAT,
  type DecisionBundle,
  LOG_FORMAT,
  type LogBundle,
  openBundle,
  readText,
  writeOutput,
} from "./bundle.ts";
import { type Command, CommandError, type CommandInput, type CommandReport, ServiceFailedError } from "./command.ts";
import { type Trust, trustFrom, trustLines } from "./trust.ts";
import { VaultServer } from "./vault-server.ts";
import {
  assertSignedInTime,
  type Checkpoint,
  type PublicKey,
  type SignedCheckpoint,
  verifyCheckpoint,
} from "./verify/checkpoint.ts";
import { LogCheck, verifyDecision } from "./verify/log-check.ts";
import { hashOfLeaf, isConsistent, rootFromInclusion } from "./verify/merkle.ts";
import { VerificationError } from "./verify/verification-error.ts";

/** `agentctl vault verify`: a bundle without any service, or the log of a running service. */
export const vaultVerify: Command = {
  name: "vault verify",
  arguments: "[bundle]",
  summary: "verify a bundle offline, or the log of the service at --url",
  details: [
    "",
    "A bundle is verified without a service or a database. Without a bundle every entry is read from the service.",
    "The command checks the checkpoint's signature; each entry's hash, canonical form, place, workspace, time and ids; the",
    "root that each entry says it was sealed on; the root of the whole log; that the log seals the signing key and did not",
    "retire it before; and, with --checkpoint, that everything which an earlier checkpoint covers is still there. A refusal",
    "names the first entry that cannot be trusted, or a range, because entries that were appended together vouch for each",
    "other only as a group.",
    "",
    `A log bundle (\`agentctl vault export\`) is lines of JSON: {format: "${LOG_FORMAT}", checkpoint, public_keys[]}, then`,
    "{index, leaf_hash, body} for each entry. A decision bundle (`agentctl vault prove`) is one JSON object:",
    `{format: "${DECISION_FORMAT}", body, leaf_index, audit_path[], checkpoint, public_keys[]}. Hashes are base64, keys PEM,`,
    "`checkpoint` is a C2SP tlog-checkpoint, `body` the exact text that was hashed.",
    "",
    "Without --public-key or --jwks the keys of the bundle or the service are used, and the output says so.",
  ],
  options: ["url", "key", "checkpoint", "keep-checkpoint", "public-key", "jwks"],
  async run(input) {
    const { checkpoint, report } = await verify(input);
    const keep = input.option("keep-checkpoint");
    if (keep !== undefined) await writeOutput(keep, input.io, (write) => write(checkpoint.note));
    return report;
  },
};

/** A verified checkpoint, and the report on what it covers. */
interface Verified {
  readonly checkpoint: SignedCheckpoint;
  readonly report: CommandReport;
}

async function verify(input: CommandInput): Promise<Verified> {
  const [path] = input.positionals;
  if (path === undefined) return verifyService(input);
  if (input.option("url") !== undefined)
    throw new CommandError("verify a bundle or the log at --url, not both at once");
  const bundle = await openBundle(path);
  return bundle.kind === "log" ? verifyLog(input, bundle) : verifyOne(input, bundle);
}

async function verifyLog(input: CommandInput, bundle: LogBundle): Promise<Verified> {
  const trust = await trustFrom(input, "bundle", () => bundle.publicKeys);
  const checkpoint = verifyCheckpoint(bundle.checkpoint, trust.keys);
  const earlier = await earlierCheckpoints(input, trust);
  const check = new LogCheck(checkpoint, earlier);
  for await (const entry of bundle.entries()) check.add(entry);
  check.finish();
  return { checkpoint, report: reportOf(`every entry of the log${earlierText(earlier)}`, "log", checkpoint, trust) };
}

async function verifyOne(input: CommandInput, bundle: DecisionBundle): Promise<Verified> {
  const trust = await trustFrom(input, "bundle", () => bundle.publicKeys);
  const checkpoint = verifyCheckpoint(bundle.checkpoint, trust.keys);
  for (const earlier of await earlierCheckpoints(input, trust)) assertSameRoot(earlier, checkpoint);
  const { decision_id: id, decision, at } = verifyDecision(bundle.proof, checkpoint);
  assertSignedInTime(checkpoint.key, "the decision", at);
  const what = `decision \`${String(id)}\` (${String(decision)}, ${String(at)}) is entry ${bundle.proof.leafIndex}`;
  const { lines, json } = reportOf(what, "decision", checkpoint, trust);
  const more = { decision_id: id, decision, at, leaf_index: bundle.proof.leafIndex };
  return { checkpoint, report: { lines, json: { ...json, ...more } } };
}

async function verifyService(input: CommandInput): Promise<Verified> {
  const server = new VaultServer(input);
  const trust = await trustFrom(input, "service", () => server.publicKeys());
  const earlier = await earlierCheckpoints(input, trust);
  const { checkpoint, proofs } = await verifyServedLog(server, trust.keys, earlier);
  const what = `every entry of the log${earlierText(earlier)}; ${proofs} proofs of the service lead to its root`;
  return { checkpoint, report: reportOf(what, "log", checkpoint, trust) };
}

async function earlierCheckpoints(input: CommandInput, { keys }: Trust): Promise<readonly SignedCheckpoint[]> {
  const notes = await Promise.all(input.options("checkpoint").map(readText));
  return notes.map((note) => verifyCheckpoint(note, keys));
}

/** Compares the checkpoint of a decision bundle with an earlier one, which is possible at the same size only. */
function assertSameRoot({ treeSize, root, origin }: Checkpoint, checkpoint: Checkpoint): void {
  if (treeSize !== checkpoint.treeSize || origin !== checkpoint.origin) {
    throw new CommandError(
      "--checkpoint: a decision bundle can be compared with a checkpoint of its own size alone; verify a log bundle or --url",
    );
  }
  if (root.equals(checkpoint.root)) return;
  const message = `the kept checkpoint of size ${treeSize} has another root: the log forked`;
  throw new VerificationError("rewritten", message);
}

const earlierText = ({ length }: readonly unknown[]): string =>
  length === 0
    ? ""
    : `, and it contains ${length === 1 ? "the earlier checkpoint" : `all ${length} earlier checkpoints`}`;

function reportOf(
  what: string,
  kind: string,
  { origin, treeSize, root, key }: SignedCheckpoint,
  { source }: Trust,
): CommandReport {
  const rootHash = root.toString("base64");
  return {
    lines: [
      `VERIFIED: ${what}`,
      `  log        ${origin}, ${treeSize} entries`,
      `  root hash  ${rootHash}`,
      ...trustLines(key, source),
    ],
    json: {
      ...{ verified: true, kind, origin, tree_size: treeSize, root_hash: rootHash },
      ...{ signed_by: key.fingerprint, key_source: source },
    },
  };
}

/** A verified log of a service, and the number of the service's proofs that were verified. */
interface ServedLog {
  readonly checkpoint: SignedCheckpoint;
  readonly proofs: number;
}

/** Number of inclusion proofs to request. All entries are checked anyway; these check that the service can prove them. */
const SAMPLES = 16;

/**
 * Reads and checks every entry that the service's checkpoint covers; then the service's own proofs, and that its log has only
 * grown meanwhile. Others may append at the same time. Throws `VerificationError`.
 */
async function verifyServedLog(
  server: VaultServer,
  keys: readonly PublicKey[],
  earlier: readonly SignedCheckpoint[],
): Promise<ServedLog> {
  const checkpoint = verifyCheckpoint(await readCheckpoint(server, earlier), keys);
  const { treeSize } = checkpoint;
  const check = new LogCheck(checkpoint, earlier);
  const samples = sampleIndexes(treeSize);
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

/** Reads the service's checkpoint. If the service fails, looks for a faulty entry, which may be why. */
async function readCheckpoint(server: VaultServer, earlier: readonly SignedCheckpoint[]): Promise<string> {
  try {
    return await server.checkpoint();
  } catch (error) {
    if (!(error instanceof ServiceFailedError)) throw error;
    const check = new LogCheck(undefined, earlier);
    for await (const entry of server.entries()) check.add(entry);
    check.finish();
    throw error;
  }
}

/** Returns indexes spread evenly over a log, including the first and the last. */
function sampleIndexes(size: number): ReadonlySet<number> {
  const count = Math.min(size, SAMPLES);
  return new Set(Array.from({ length: count }, (_, at) => Math.floor((at * (size - 1)) / Math.max(1, count - 1))));
}

async function assertInclusion(
  server: VaultServer,
  { treeSize, root }: Checkpoint,
  leafIndex: number,
  leaf: Uint8Array,
): Promise<void> {
  const auditPath = await server.auditPath(leafIndex, treeSize);
  if (rootFromInclusion(leaf, { leafIndex, treeSize, auditPath })?.equals(root)) return;
  const message = `the service's proof of entry ${leafIndex} does not lead to its root`;
  throw new VerificationError("proof", message, leafIndex);
}

/** Checks that a log only grew between two checkpoints. Returns the number of proofs that this took. */
async function assertConsistent(server: VaultServer, earlier: Checkpoint, later: Checkpoint): Promise<number> {
  const { treeSize: from, root: fromRoot } = earlier;
  const { treeSize: to, root: toRoot } = later;
  if (from > to) {
    throw new VerificationError("truncated", `the log was cut off: it had ${from} entries and has ${to}`, to, from - 1);
  }
  if (from === 0) return 0;
  const path = from === to ? [] : await server.consistencyPath(from, to);
  if (!isConsistent({ from, to, fromRoot, toRoot, path })) {
    const message = `the service does not prove that its log of ${to} entries begins with the log of ${from}`;
    throw new VerificationError("proof", message);
  }
  return from === to ? 0 : 1;
}
