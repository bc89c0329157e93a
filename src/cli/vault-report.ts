import {
  type CollectedEvidence,
  collectEvidence,
  EvidenceLimitError,
  type EvidenceSelection,
  type EvidenceSource,
  MAX_DECISIONS,
  selectionWords,
} from "../explain/collect-evidence.ts";
import { EVIDENCE_FILES } from "../explain/evidence.ts";
import { base64 } from "../verify/bytes.ts";
import { verifyAnsweredCheckpoint } from "../verify/checkpoint.ts";
import { type JsonRecord, listAt, stringFrom, textAt } from "../verify/json.ts";
import type { PublicKey } from "../verify/public-key.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { createEvidenceFolder, writeEvidence } from "./evidence-folder.ts";
import { type CallService, serviceFrom } from "./service.ts";
import { timeFrom } from "./time-option.ts";
import { trustFrom } from "./trust.ts";
import { VaultServer } from "./vault-server.ts";

const DECISIONS = "/v1/enforce/decisions";
const PAGE_SIZE = 200;

/** `agentctl vault report` writes decisions with their proofs as a table and a printable report. */
export const vaultReport: Command = {
  name: "vault report",
  arguments: "",
  summary: "write decisions with their proofs as CSV and as a report to print",
  details: [
    "",
    "--out names a new folder. `decisions.csv` has a row for each decision, oldest first, with its leaf hash, its audit path and",
    "the exact text of its entry, which has the action's arguments. `report.html` is the same for people. `checkpoint.txt` and",
    "`keys.json` prove both: `agentctl vault verify` on the folder needs nothing else. An apostrophe goes before a cell that a",
    "spreadsheet would take for a formula.",
    `At most ${MAX_DECISIONS} decisions; each is verified before it is written.`,
  ],
  options: ["url", "key-file", "out", "since", "until", "agent", "mandate", "public-key", "jwks"],
  async run(input) {
    const folder = input.option("out");
    if (folder === undefined) throw new CommandError("--out: name a new folder for the files");
    const [server, call] = [new VaultServer(input), serviceFrom(input)];
    const selection = selectionFrom(input);
    const { keys } = await trustFrom(input, "service", () => server.publicKeys());
    await createEvidenceFolder(folder);
    const { checkpoint, rows } = await collect(sourceOf(server, call, keys), selection);
    const { origin, treeSize, root, note, key } = checkpoint;
    const log = { origin, treeSize, rootHash: base64(root), fingerprint: key.fingerprint };
    const keySet = await call("/.well-known/jwks.json");
    await writeEvidence(folder, input.io, { selection: selectionWords(selection), log, note, keySet }, rows);
    return {
      lines: [`wrote ${rows.length} decisions of ${origin} to ${folder}: ${Object.values(EVIDENCE_FILES).join(", ")}`],
      json: { decisions: rows.length, origin, tree_size: treeSize, out: folder },
    };
  },
};

function selectionFrom(input: CommandInput): EvidenceSelection {
  return {
    ...timeFrom(input, "since"),
    ...timeFrom(input, "until"),
    agentId: input.option("agent"),
    mandateId: input.option("mandate"),
  };
}

/** Asks a service for evidence over REST. */
function sourceOf(server: VaultServer, call: CallService, keys: readonly PublicKey[]): EvidenceSource {
  return {
    async *list({ since, until, agentId }) {
      const query = { ...(since && { since }), ...(until && { until }), ...(agentId && { agent_id: agentId }) };
      let token = "";
      do {
        const page: JsonRecord = await call(DECISIONS, {
          query: { ...query, page_size: PAGE_SIZE, ...(token === "" ? {} : { page_token: token }) },
        });
        yield listAt(page, "decisions").map((decision) => textAt(decision, "decision_id"));
        token = stringFrom(page.next_page_token) ?? "";
      } while (token !== "");
    },
    checkpoint: async () => verifyAnsweredCheckpoint(await server.checkpoint(), keys),
    async decision(decisionId) {
      const { answer, entry } = await server.decision(decisionId);
      return { index: entry.index, body: entry.body, keyName: stringFrom(answer.key_name) };
    },
    auditPath: async (index, treeSize) => (await server.inclusion(index, treeSize)).auditPath,
  };
}

async function collect(source: EvidenceSource, selection: EvidenceSelection): Promise<CollectedEvidence> {
  try {
    return await collectEvidence(source, selection);
  } catch (error) {
    if (!(error instanceof EvidenceLimitError)) throw error;
    throw new CommandError(`${error.message}: narrow the report by --since, --until or --agent`);
  }
}
