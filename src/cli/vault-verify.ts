import { DECISION_FORMAT, type DecisionBundle, LOG_FORMAT, type LogBundle, openBundle, readText } from "./bundle.ts";
import { type Command, CommandError, type CommandInput, type CommandReport } from "./command.ts";
import { writeOutput } from "./output.ts";
import { type Trust, trustFrom, trustLines } from "./trust.ts";
import { createVaultServer } from "./vault-server.ts";
import {
  createLogCheck,
  type SignedCheckpoint,
  VerificationError,
  verifyCheckpoint,
  verifyDecision,
} from "./verify/index.ts";
import { verifyServedLog } from "./verify-served-log.ts";

async function earlierCheckpoints(input: CommandInput, { keys }: Trust): Promise<readonly SignedCheckpoint[]> {
  const notes = await Promise.all(input.options("checkpoint").map(readText));
  return notes.map((note) => verifyCheckpoint(note, keys));
}

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

const earlierText = ({ length }: readonly unknown[]): string =>
  length === 0
    ? ""
    : `, and it contains ${length === 1 ? "the earlier checkpoint" : `all ${length} earlier checkpoints`}`;

async function verifyLog(input: CommandInput, bundle: LogBundle): Promise<readonly [SignedCheckpoint, CommandReport]> {
  const trust = await trustFrom(input, "bundle", () => bundle.publicKeys);
  const checkpoint = verifyCheckpoint(bundle.checkpoint, trust.keys);
  const earlier = await earlierCheckpoints(input, trust);
  const check = createLogCheck(checkpoint, earlier);
  for await (const entry of bundle.entries()) check.add(entry);
  check.finish();
  return [checkpoint, reportOf(`every entry of the log${earlierText(earlier)}`, "log", checkpoint, trust)];
}

async function verifyOne(
  input: CommandInput,
  bundle: DecisionBundle,
): Promise<readonly [SignedCheckpoint, CommandReport]> {
  const trust = await trustFrom(input, "bundle", () => bundle.publicKeys);
  const checkpoint = verifyCheckpoint(bundle.checkpoint, trust.keys);
  for (const { treeSize, root, origin } of await earlierCheckpoints(input, trust)) {
    if (treeSize !== checkpoint.treeSize || origin !== checkpoint.origin) {
      throw new CommandError(
        "--checkpoint: a decision bundle can be compared with a checkpoint of its own size alone; verify a log bundle or --url",
      );
    }
    if (!root.equals(checkpoint.root)) {
      throw new VerificationError(
        "rewritten",
        `the kept checkpoint of size ${treeSize} has another root: the log forked`,
      );
    }
  }
  const { decision_id: id, decision, at } = verifyDecision(bundle.proof, checkpoint);
  const what = `decision \`${String(id)}\` (${String(decision)}, ${String(at)}) is entry ${bundle.proof.leafIndex}`;
  const { lines, json } = reportOf(what, "decision", checkpoint, trust);
  const more = { decision_id: id, decision, at, leaf_index: bundle.proof.leafIndex };
  return [checkpoint, { lines, json: { ...json, ...more } }];
}

async function verifyServer(input: CommandInput): Promise<readonly [SignedCheckpoint, CommandReport]> {
  const server = createVaultServer(input);
  const trust = await trustFrom(input, "service", () => server.publicKeys());
  const earlier = await earlierCheckpoints(input, trust);
  const { checkpoint, proofs } = await verifyServedLog(server, trust.keys, earlier);
  const what = `every entry of the log${earlierText(earlier)}; ${proofs} proofs of the service lead to its root`;
  return [checkpoint, reportOf(what, "log", checkpoint, trust)];
}

async function verified(input: CommandInput): Promise<readonly [SignedCheckpoint, CommandReport]> {
  const [path] = input.positionals;
  if (path === undefined) return verifyServer(input);
  if (input.option("url") !== undefined)
    throw new CommandError("verify a bundle or the log at --url, not both at once");
  const bundle = await openBundle(path);
  return bundle.kind === "log" ? verifyLog(input, bundle) : verifyOne(input, bundle);
}

/** `agentctl vault verify`: a bundle without any service, or the log of a running service. */
export const vaultVerify: Command = {
  name: "vault verify",
  arguments: "[bundle]",
  summary: "verify a bundle offline, or the log of the service at --url",
  details: [
    "",
    "With a bundle neither a service nor a database is asked. Without one every entry is read from the service.",
    "Checked are: the checkpoint's signature; each entry's hash, canonical form, place, workspace, time and ids; the root",
    "that each entry says it was sealed on; the root of all; with --checkpoint, that what was kept earlier is still there.",
    "A refusal names the first entry that cannot be trusted. Entries that were appended together vouch for each other",
    "only as a group, so that it may name a range.",
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
    const [{ note }, report] = await verified(input);
    const keep = input.option("keep-checkpoint");
    if (keep !== undefined) await writeOutput(keep, input.io, (write) => write(note));
    return report;
  },
};
