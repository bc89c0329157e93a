import { openBundle } from "./bundle.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { createStoryTeller, type StoryTeller, storyLines } from "./story/index.ts";
import { type Trust, trustFrom, trustLines } from "./trust.ts";
import { createVaultServer } from "./vault-server.ts";
import {
  createLogCheck,
  type JsonMembers,
  type LogEntry,
  objectFromCanonical,
  type SignedCheckpoint,
  VerificationError,
  verifyCheckpoint,
} from "./verify/index.ts";

/** A log that can be read, and one of its decisions. Nothing of it is verified yet. */
interface Source {
  readonly checkpoint: SignedCheckpoint;
  readonly trust: Trust;
  readonly body: string;
  entries(): AsyncIterable<LogEntry>;
}

const noDecision = (decisionId: string) => new CommandError(`the log has no decision \`${decisionId}\``);

async function bundleSource(input: CommandInput, path: string, decisionId: string): Promise<Source> {
  const bundle = await openBundle(path);
  if (bundle.kind !== "log") throw new CommandError("--bundle: a decision bundle holds one entry; give a log bundle");
  const trust = await trustFrom(input, "bundle", () => bundle.publicKeys);
  const checkpoint = verifyCheckpoint(bundle.checkpoint, trust.keys);
  // Two readings of the file instead of its bodies in memory: what is to be told is known once the decision is.
  const needle = `"decision_id":${JSON.stringify(decisionId)}`;
  for await (const { body } of bundle.entries()) {
    if (body.includes(needle) && objectFromCanonical(body)?.decision_id === decisionId) {
      return { checkpoint, trust, body, entries: bundle.entries };
    }
  }
  throw noDecision(decisionId);
}

async function serverSource(input: CommandInput, decisionId: string): Promise<Source> {
  const server = createVaultServer(input);
  const trust = await trustFrom(input, "service", () => server.publicKeys());
  const { body } = await server.decision(decisionId);
  const checkpoint = verifyCheckpoint(await server.checkpoint(), trust.keys);
  return { checkpoint, trust, body, entries: () => server.entries(checkpoint.treeSize) };
}

/** Reads the whole log, verifying it, and shows it to the teller. */
async function readVerified({ checkpoint, entries, body }: Source, teller: StoryTeller): Promise<void> {
  const check = createLogCheck(checkpoint);
  let isThere = false;
  for await (const entry of entries()) {
    teller.see(check.add(entry));
    isThere ||= entry.body === body;
  }
  check.finish();
  if (!isThere)
    throw new VerificationError("contradiction", "the log does not hold the decision as the service gave it");
}

function decisionFrom(body: string, decisionId: string): JsonMembers {
  const decision = objectFromCanonical(body);
  if (decision?.decision_id === decisionId) return decision;
  throw new VerificationError("contradiction", `the service gave another decision than \`${decisionId}\``);
}

/** `agentctl vault explain`: why a decision came out as it did, by the entries of the log. */
export const vaultExplain: Command = {
  name: "vault explain",
  arguments: "<decision>",
  summary: "tell from the log why a decision came out as it did",
  details: [
    "",
    "The whole log is read and verified, as `agentctl vault verify` does; nothing is told of a log that does not verify.",
    "Told are the entries, each with index, time and key, that made what the decision rests on: the agent's registration,",
    "status and trust; the versions of the mandates and of the tool; memberships; sessions, grants and other authority; the",
    "key; escalations and their resolutions; revocations.",
  ],
  options: ["url", "key", "bundle", "public-key", "jwks"],
  async run(input) {
    const [decisionId = ""] = input.positionals;
    const path = input.option("bundle");
    const source = await (path === undefined ? serverSource(input, decisionId) : bundleSource(input, path, decisionId));
    const teller = createStoryTeller(decisionFrom(source.body, decisionId));
    await readVerified(source, teller);
    const { origin, treeSize, key } = source.checkpoint;
    const story = teller.story();
    const told = { signed_by: key.fingerprint, key_source: source.trust.source };
    return {
      lines: [
        ...storyLines(story),
        `VERIFIED: the log ${origin} that this was read from, ${treeSize} entries`,
        ...trustLines(key, source.trust.source),
      ],
      json: { verified: true, kind: "story", origin, tree_size: treeSize, ...told, ...story },
    };
  },
};
