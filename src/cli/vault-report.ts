import type { EvidenceRow } from "../explain/evidence.ts";
import { base64, hex } from "../verify/bytes.ts";
import { type SignedCheckpoint, verifyAnsweredCheckpoint } from "../verify/checkpoint.ts";
import { verifyDecision } from "../verify/decision.ts";
import { isJsonRecord, type JsonRecord, listAt, stringFrom, textAt } from "../verify/json.ts";
import { hashOfLeaf } from "../verify/merkle.ts";
import { type Command, CommandError, type CommandInput } from "./command.ts";
import { createEvidenceFolder, EVIDENCE_FILES, writeEvidence } from "./evidence-folder.ts";
import { type CallService, serviceFrom } from "./service.ts";
import { timeFrom } from "./time-option.ts";
import { trustFrom } from "./trust.ts";
import { VaultServer } from "./vault-server.ts";

const DECISIONS = "/v1/enforce/decisions";
const PAGE_SIZE = 200;
/** Maximum number of decisions of one report: they are kept in memory, and read by people. */
const MAX_ROWS = 20_000;
/** Proofs that are asked for at once. */
const AT_ONCE = 8;

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
    `At most ${MAX_ROWS} decisions; each is verified before it is written.`,
  ],
  options: ["url", "key-file", "out", "since", "until", "agent", "mandate", "public-key", "jwks"],
  async run(input) {
    const folder = input.option("out");
    if (folder === undefined) throw new CommandError("--out: name a new folder for the files");
    const [server, call] = [new VaultServer(input), serviceFrom(input)];
    const filter = filterFrom(input);
    const { keys } = await trustFrom(input, "service", () => server.publicKeys());
    const ids = await listDecisions(call, filter);
    // Signed after the list was read, so that it covers every decision of it.
    const checkpoint = await verifyAnsweredCheckpoint(await server.checkpoint(), keys);
    const { origin, treeSize, root, note, key } = checkpoint;
    await createEvidenceFolder(folder);
    const rows = await proveAll(server, ids, checkpoint);
    const kept = filter.mandate === undefined ? rows : rows.filter((row) => isDecidedUnder(row, filter.mandate));
    const log = { origin, treeSize, rootHash: base64(root), fingerprint: key.fingerprint };
    const keySet = await call("/.well-known/jwks.json");
    await writeEvidence(folder, input.io, { selection: filter.selection, log, note, keySet }, kept);
    return {
      lines: [`wrote ${kept.length} decisions of ${origin} to ${folder}: ${Object.values(EVIDENCE_FILES).join(", ")}`],
      json: { decisions: kept.length, origin, tree_size: treeSize, out: folder },
    };
  },
};

/** Decisions that a report is about. */
interface ReportFilter {
  readonly query: Readonly<Record<string, string>>;
  readonly mandate: string | undefined;
  /** The same in words. */
  readonly selection: readonly string[];
}

function filterFrom(input: CommandInput): ReportFilter {
  const times = { ...timeFrom(input, "since"), ...timeFrom(input, "until") };
  const { agent, mandate } = { agent: input.option("agent"), mandate: input.option("mandate") };
  return {
    query: { ...times, ...(agent === undefined ? {} : { agent_id: agent }) },
    mandate,
    selection: [
      `${times.since === undefined ? "from the beginning" : `from ${times.since}`} to ${times.until ?? "the end of the log"}`,
      ...(agent === undefined ? [] : [`agent ${agent}`]),
      ...(mandate === undefined ? [] : [`mandate ${mandate}`]),
    ],
  };
}

/** Lists the ids of decisions, oldest first. */
async function listDecisions(call: CallService, { query }: ReportFilter): Promise<readonly string[]> {
  const ids: string[] = [];
  let token = "";
  do {
    const page: JsonRecord = await call(DECISIONS, {
      query: { ...query, page_size: PAGE_SIZE, ...(token === "" ? {} : { page_token: token }) },
    });
    ids.push(...listAt(page, "decisions").map((decision) => textAt(decision, "decision_id")));
    if (ids.length > MAX_ROWS)
      throw new CommandError(`more than ${MAX_ROWS} decisions: narrow the report by --since, --until or --agent`);
    token = stringFrom(page.next_page_token) ?? "";
  } while (token !== "");
  return ids.reverse();
}

/** Reads and verifies the proofs of decisions, in their order. */
async function proveAll(
  server: VaultServer,
  ids: readonly string[],
  checkpoint: SignedCheckpoint,
): Promise<readonly EvidenceRow[]> {
  const rows: EvidenceRow[] = [];
  let next = 0;
  const prove = async (): Promise<void> => {
    for (let place = next++; place < ids.length; place = next++)
      rows[place] = await proven(server, ids[place] as string, checkpoint);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, prove));
  return rows;
}

async function proven(server: VaultServer, decisionId: string, checkpoint: SignedCheckpoint): Promise<EvidenceRow> {
  const { entry } = await server.decision(decisionId);
  const { index, body } = entry;
  const { auditPath } = await server.inclusion(index, checkpoint.treeSize);
  const parsed = await verifyDecision({ body, leafIndex: index, auditPath }, checkpoint);
  return { index, body, parsed, leafHash: hex(await hashOfLeaf(body)), auditPath: auditPath.map(hex) };
}

const isDecidedUnder = ({ parsed }: EvidenceRow, mandateId: string | undefined): boolean =>
  isJsonRecord(parsed) && listAt(parsed, "mandates").some((fired) => textAt(fired, "mandate_id") === mandateId);
