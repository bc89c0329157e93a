import { type SignedCheckpoint, verifyAnsweredCheckpoint, verifyCheckpoint } from "../verify/checkpoint.ts";
import { type LogEntry, parseEntry } from "../verify/entry.ts";
import { type JsonRecord, parseCanonicalObject } from "../verify/json.ts";
import { LogCheck } from "../verify/log-check.ts";
import { VerificationError } from "../verify/verification-error.ts";
import { openBundle } from "./bundle.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { Timeline, timelineLines } from "./timeline.ts";
import { type Trust, trustFrom, trustLines } from "./trust.ts";
import { VaultServer } from "./vault-server.ts";

/** A readable log and one of its decisions, both unverified. */
interface Source {
  readonly checkpoint: SignedCheckpoint;
  readonly trust: Trust;
  /** The entry of the decision. */
  readonly entry: Pick<LogEntry, "index" | "body">;
  entries(): AsyncIterable<LogEntry>;
}

/** `agentctl vault explain` explains a decision by the entries of the log. */
export const vaultExplain: Command = {
  name: "vault explain",
  arguments: "<decision>",
  summary: "explain a decision by the entries of the log",
  details: [
    "",
    "The whole log is read and verified, as by `agentctl vault verify`; without that there is no explanation.",
    "The output lists the entries, each with index, time and key, that the decision rests on: the agent's registration,",
    "status and trust; the versions of the mandates and of the tool; memberships; sessions, grants and other authority; the",
    "key; escalations and their resolutions; revocations.",
  ],
  options: ["url", "key-file", "bundle", "public-key", "jwks"],
  async run(input) {
    const [decisionId = ""] = input.positionals;
    const path = input.option("bundle");
    const source = await (path === undefined ? openService(input, decisionId) : openLog(input, path, decisionId));
    const timeline = new Timeline(parseDecision(source.entry, decisionId));
    await readVerified(source, timeline);
    const { origin, treeSize, key } = source.checkpoint;
    const explanation = timeline.explanation();
    const signature = { signed_by: key.fingerprint, key_source: source.trust.source };
    return {
      lines: [
        ...timelineLines(explanation),
        `VERIFIED: the log ${origin} that this was read from, ${treeSize} entries`,
        ...trustLines(key, source.trust.source),
      ],
      json: { verified: true, kind: "story", origin, tree_size: treeSize, ...signature, ...explanation },
    };
  },
};

async function openLog(input: CommandInput, path: string, decisionId: string): Promise<Source> {
  const bundle = await openBundle(path);
  if (bundle.kind !== "log")
    throw new CommandError("--bundle: a decision bundle has only one entry; give a log bundle");
  const trust = await trustFrom(input, "bundle", () => bundle.publicKeys);
  const checkpoint = await verifyCheckpoint(bundle.checkpoint, trust.keys);
  // The file is read twice instead of keeping its bodies: only the decision says which entries matter.
  const needle = `"decision_id":${JSON.stringify(decisionId)}`;
  for await (const entry of bundle.entries()) {
    if (entry.body.includes(needle) && parseCanonicalObject(entry.body)?.decision_id === decisionId) {
      return { checkpoint, trust, entry, entries: bundle.entries };
    }
  }
  throw new CommandError(`the log has no decision \`${decisionId}\``);
}

async function openService(input: CommandInput, decisionId: string): Promise<Source> {
  const server = new VaultServer(input);
  const trust = await trustFrom(input, "service", () => server.publicKeys());
  const { entry } = await server.decision(decisionId);
  const checkpoint = await verifyAnsweredCheckpoint(await server.checkpoint(), trust.keys);
  return { checkpoint, trust, entry, entries: () => server.entries(checkpoint.treeSize) };
}

function parseDecision({ body, index }: Source["entry"], decisionId: string): JsonRecord {
  const decision = parseEntry(body, index);
  if (decision.decision_id === decisionId) return decision;
  throw new VerificationError("contradiction", `the service returned another decision than \`${decisionId}\``);
}

/** Reads and verifies the whole log, and adds its entries to the timeline. */
async function readVerified({ checkpoint, entries, entry: decision }: Source, timeline: Timeline): Promise<void> {
  let isThere = false;
  await new LogCheck(checkpoint).run(entries(), (parsed, entry) => {
    timeline.add(parsed, entry.authorName);
    isThere ||= entry.body === decision.body;
  });
  if (!isThere)
    throw new VerificationError("contradiction", "the log does not contain the decision that the service returned");
}
