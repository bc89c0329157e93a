import { stat } from "node:fs/promises";
import { DECISION_FORMAT, LOG_FORMAT } from "../verify/bundle.ts";
import { areEqual, base64 } from "../verify/bytes.ts";
import {
  type AnsweredCheckpoint,
  type Checkpoint,
  type SignedCheckpoint,
  verifyAnsweredCheckpoint,
  verifyCheckpoint,
} from "../verify/checkpoint.ts";
import { assertGrown, assertNotCutOff } from "../verify/consistency.ts";
import { verifyDecision } from "../verify/decision.ts";
import type { LogEntry } from "../verify/entry.ts";
import { assertSigns, verifyAnsweredProof } from "../verify/inclusion.ts";
import { LogCheck } from "../verify/log-check.ts";
import { type PublicKey, publicKeysFromJwks } from "../verify/public-key.ts";
import { VerificationError } from "../verify/verification-error.ts";
import { type DecisionBundle, type LogBundle, openBundle, parseJson, readText, writeOutput } from "./bundle.ts";
import { type Command, CommandError, type CommandInput, type CommandReport, ServiceFailedError } from "./command.ts";
import { readEvidenceProof, verifyTable } from "./evidence-folder.ts";
import { keptCheckpoints } from "./kept-checkpoints.ts";
import { type Trust, trustFrom, trustLines } from "./trust.ts";
import { VaultServer } from "./vault-server.ts";

/** `agentctl vault verify` verifies a bundle offline, or the log of a running service. */
export const vaultVerify: Command = {
  name: "vault verify",
  arguments: "[bundle]",
  summary: "verify a bundle or a report offline, or the log of the service at --url",
  details: [
    "",
    "A bundle is verified without a service or a database. Without a bundle every entry is read from the service.",
    "The command checks the checkpoint's signature; each entry's hash, canonical form, place, workspace, time and ids; the",
    "root that each entry says it was sealed on; the root of the whole log; that the log seals the signing key and did not",
    "retire it before; and, with --checkpoint or --against, that everything that an earlier checkpoint covers is still there. A refusal",
    "names the first entry that cannot be trusted, or a range, because entries that were appended together vouch for each",
    "other only as a group.",
    "",
    `A log bundle (\`agentctl vault export\`) is lines of JSON: {format: "${LOG_FORMAT}", checkpoint, public_keys[]}, then`,
    "{index, leaf_hash, body} for each entry. A decision bundle (`agentctl vault prove`) is one JSON object:",
    `{format: "${DECISION_FORMAT}", body, leaf_index, audit_path[], checkpoint, public_keys[]}. Hashes are base64, keys PEM,`,
    "`checkpoint` is a C2SP tlog-checkpoint, `body` the exact text that was hashed.",
    "",
    "A folder of `agentctl vault report` is verified row by row: each entry is in the log, and the other cells say what it does.",
    "",
    "Without --public-key or --jwks the keys of the bundle or the service are used, and the output says so.",
  ],
  options: ["url", "key-file", "checkpoint", "against", "keep-checkpoint", "public-key", "jwks"],
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
  if (input.option("url") !== undefined) throw new CommandError("give either a bundle or --url");
  if (await isFolder(path)) return verifyReport(input, path);
  const bundle = await openBundle(path);
  return bundle.kind === "log" ? verifyLog(input, bundle) : verifyOne(input, bundle);
}

async function verifyLog(input: CommandInput, bundle: LogBundle): Promise<Verified> {
  const trust = await trustFrom(input, "bundle", () => bundle.publicKeys);
  const checkpoint = await verifyCheckpoint(bundle.checkpoint, trust.keys);
  const earlier = await earlierCheckpoints(input, trust, checkpoint);
  await new LogCheck(checkpoint, earlier).run(bundle.entries());
  return { checkpoint, report: reportOf(`every entry of the log${earlierText(earlier)}`, "log", checkpoint, trust) };
}

async function verifyOne(input: CommandInput, bundle: DecisionBundle): Promise<Verified> {
  const trust = await trustFrom(input, "bundle", () => bundle.publicKeys);
  const checkpoint = await verifyCheckpoint(bundle.checkpoint, trust.keys);
  for (const earlier of await earlierCheckpoints(input, trust, checkpoint)) assertSameRoot(earlier, checkpoint);
  const { decision_id: id, decision, at } = await verifyDecision(bundle.proof, checkpoint);
  const what = `decision \`${String(id)}\` (${String(decision)}, ${String(at)}) is entry ${bundle.proof.leafIndex}`;
  const { lines, json } = reportOf(what, "decision", checkpoint, trust);
  const more = { decision_id: id, decision, at, leaf_index: bundle.proof.leafIndex };
  return { checkpoint, report: { lines, json: { ...json, ...more } } };
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );

async function verifyReport(input: CommandInput, folder: string): Promise<Verified> {
  const { note, keySet } = await readEvidenceProof(folder);
  const trust = await trustFrom(input, "bundle", async () => (await publicKeysFromJwks(parseJson(keySet))) ?? []);
  const checkpoint = await verifyCheckpoint(note, trust.keys);
  for (const earlier of await earlierCheckpoints(input, trust, checkpoint)) assertSameRoot(earlier, checkpoint);
  const count = await verifyTable(folder, checkpoint);
  const { lines, json } = reportOf(
    `${count} decisions of a report are entries of the log`,
    "report",
    checkpoint,
    trust,
  );
  return { checkpoint, report: { lines, json: { ...json, decisions: count } } };
}

async function verifyService(input: CommandInput): Promise<Verified> {
  const server = new VaultServer(input);
  const trust = await trustFrom(input, "service", () => server.publicKeys());
  const isKept = input.options("against").length > 0;
  const now = isKept ? await verifyAnsweredCheckpoint(await readCheckpoint(server, []), trust.keys) : undefined;
  const earlier = await earlierCheckpoints(input, trust, now);
  const { checkpoint, proofs } = await verifyServedLog(server, trust.keys, earlier);
  const what = `every entry of the log${earlierText(earlier)}; ${proofs} proofs of the service lead to its root`;
  return { checkpoint, report: reportOf(what, "log", checkpoint, trust) };
}

/** Reads the checkpoints of `--checkpoint`, and of `--against` those of the log. */
async function earlierCheckpoints(
  input: CommandInput,
  { keys }: Trust,
  log: Checkpoint | undefined,
): Promise<readonly SignedCheckpoint[]> {
  const notes = await Promise.all(input.options("checkpoint").map(readText));
  const given = await Promise.all(notes.map((note) => verifyCheckpoint(note, keys)));
  if (log === undefined) return given;
  const kept = await Promise.all(input.options("against").map((path) => keptCheckpoints(path, log, keys)));
  return [...given, ...kept.flat()];
}

/** Compares the checkpoint of a decision bundle with an earlier one, which must have the same size. */
function assertSameRoot({ treeSize, root, origin }: Checkpoint, checkpoint: Checkpoint): void {
  if (treeSize !== checkpoint.treeSize || origin !== checkpoint.origin) {
    throw new CommandError(
      "--checkpoint: a decision bundle can only be compared with a checkpoint of its own size; verify a log bundle or --url",
    );
  }
  if (areEqual(root, checkpoint.root)) return;
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
  const rootHash = base64(root);
  return {
    lines: [
      `VERIFIED: ${what}`,
      `  log        ${origin}, ${treeSize} entries`,
      `  root hash  ${rootHash}`,
      ...trustLines(key, source),
    ],
    json: {
      verified: true,
      kind,
      origin,
      tree_size: treeSize,
      root_hash: rootHash,
      signed_by: key.fingerprint,
      key_source: source,
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
  const checkpoint = await verifyAnsweredCheckpoint(await readCheckpoint(server, earlier), keys);
  const { treeSize } = checkpoint;
  const indexes = sampleIndexes(treeSize);
  const samples: LogEntry[] = [];
  await new LogCheck(checkpoint, earlier).run(server.entries(treeSize), (_, entry) => {
    if (indexes.has(entry.index)) samples.push(entry);
  });
  for (const entry of samples) {
    const proof = await server.inclusion(entry.index, treeSize);
    await verifyAnsweredProof(entry, proof, keys);
    assertSigns(checkpoint, proof);
  }
  let proofs = samples.length;
  // The roots of all were compared with the entries.
  for (const at of sampleIndexes(earlier.length)) {
    proofs += await verifyGrowth(server, earlier[at] as SignedCheckpoint, checkpoint);
  }
  const later = await verifyAnsweredCheckpoint(await server.checkpoint(), keys);
  proofs += await verifyGrowth(server, checkpoint, later);
  return { checkpoint, proofs };
}

/** Reads the service's checkpoint. If the service fails, looks for a faulty entry, which may be the cause. */
async function readCheckpoint(server: VaultServer, earlier: readonly SignedCheckpoint[]): Promise<AnsweredCheckpoint> {
  try {
    return await server.checkpoint();
  } catch (error) {
    if (!(error instanceof ServiceFailedError)) throw error;
    await new LogCheck(undefined, earlier).run(server.entries());
    throw error;
  }
}

/** Returns indexes spread evenly over a log, including the first and the last. */
function sampleIndexes(size: number): ReadonlySet<number> {
  const count = Math.min(size, SAMPLES);
  return new Set(Array.from({ length: count }, (_, at) => Math.floor((at * (size - 1)) / Math.max(1, count - 1))));
}

/** Verifies that a log only grew between two checkpoints. Returns the number of verified proofs of the service. */
async function verifyGrowth(server: VaultServer, earlier: Checkpoint, later: Checkpoint): Promise<number> {
  assertNotCutOff(earlier, later);
  const isProofNeeded = earlier.treeSize > 0 && earlier.treeSize < later.treeSize;
  const proof = isProofNeeded ? await server.consistency(earlier.treeSize, later.treeSize) : undefined;
  await assertGrown(earlier, later, proof);
  return isProofNeeded ? 1 : 0;
}
