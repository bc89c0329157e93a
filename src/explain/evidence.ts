import { type JsonValue, listAt, textAt } from "../verify/json.ts";
import { receiptSentences } from "./receipt.ts";
import { plainText } from "./sentence.ts";

/** A decision with its proof, as evidence shows it. Hashes are in lower-case hexadecimal. */
export interface EvidenceRow {
  /** Index in the log. */
  readonly index: number;
  /** Exact text that was hashed. */
  readonly body: string;
  /** The same, parsed. */
  readonly parsed: JsonValue;
  readonly leafHash: string;
  /** Sibling hashes from the leaf up to the root (RFC 9162, section 2.1.3). */
  readonly auditPath: readonly string[];
  /** Name of the key or person that asked, which is not sealed; undefined if there is none. */
  readonly keyName?: string | undefined;
}

/** Files of evidence. */
export const EVIDENCE_FILES = {
  /** The decisions with their proofs. */
  table: "decisions.csv",
  /** The same for people, to print. */
  report: "report.html",
  /** The signed note of the log that the proofs lead to. */
  checkpoint: "checkpoint.txt",
  /** The service's public keys (RFC 7517). */
  keys: "keys.json",
} as const;

/** The log that rows are proven by, at the size that its checkpoint signs. */
export interface EvidenceLog {
  readonly origin: string;
  readonly treeSize: number;
  readonly rootHash: string;
  /** Fingerprint of the key that signed the checkpoint. */
  readonly fingerprint: string;
}

const reasonsOf = (body: JsonValue): string =>
  listAt(body, "reasons")
    .map((reason) => `${textAt(reason, "code")}: ${textAt(reason, "message")}`)
    .join("; ");

const mandatesOf = (body: JsonValue): string =>
  listAt(body, "mandates")
    .map((fired) => textAt(fired, "mandate_id"))
    .join(" ");

const member =
  (path: string) =>
  ({ parsed }: EvidenceRow): string =>
    textAt(parsed, path);

/** Columns of a table of evidence, each with its text in a row. The last three prove the others. */
const COLUMNS: Readonly<Record<string, (row: EvidenceRow) => string>> = {
  index: ({ index }) => String(index),
  decided_at: member("at"),
  decision_id: member("decision_id"),
  decision: member("decision"),
  decision_path: member("decision_path"),
  agent_id: member("action.agent_id"),
  agent_name: member("action.agent_name"),
  on_behalf_of: ({ parsed }) => textAt(parsed, "on_behalf_of") || textAt(parsed, "principal_id"),
  action_type: member("action.action_type"),
  tool: member("action.tool"),
  policy_name: member("policy_name"),
  mandates: ({ parsed }) => mandatesOf(parsed),
  reasons: ({ parsed }) => reasonsOf(parsed),
  key_id: member("key_id"),
  key_name: ({ keyName }) => keyName ?? "",
  session_id: member("session_id"),
  escalation_id: ({ parsed }) => textAt(parsed, "escalation_id") || textAt(parsed, "used_escalation_id"),
  leaf_hash: ({ leafHash }) => leafHash,
  audit_path: ({ auditPath }) => auditPath.join(" "),
  entry: ({ body }) => body,
};

/** Columns that no entry proves: names of people, which can change and be erased. */
export const UNPROVEN_COLUMNS: ReadonlySet<string> = new Set(["key_name"]);

/** First line of a table of evidence, without its end. */
export const EVIDENCE_HEADER = Object.keys(COLUMNS).join(",");

/** Returns the cells of a row, as `csvCell` writes them and a reader of CSV gives them back. */
export const evidenceCells = (row: EvidenceRow): readonly string[] =>
  Object.values(COLUMNS).map((column) => inert(column(row)));

/**
 * Keeps a spreadsheet from taking a text for a formula: an apostrophe goes before one that begins with a sign that starts one (OWASP,
 * CSV injection).
 */
const inert = (text: string): string => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);

/** Writes a row of a table of evidence (RFC 4180) with its end. */
export const csvLine = (row: EvidenceRow): string => `${evidenceCells(row).map(csvCell).join(",")}\r\n`;

/** Writes the pieces of a table of evidence, of lines by `csvLine`. */
export function* tablePieces(lines: Iterable<string>): Generator<string> {
  yield `${EVIDENCE_HEADER}\r\n`;
  yield* lines;
}

const csvCell = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Beginning of a report. */
export interface ReportHead {
  /** Period, agent and mandate that the report covers, in words. */
  readonly selection: readonly string[];
  readonly log: EvidenceLog;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Writes a text in HTML. Control and direction characters, which could show another text, become their code points. */
function html(text: string): string {
  const shown = text.replace(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (sign) => `\\u{${(sign.codePointAt(0) as number).toString(16)}}`,
  );
  return shown.replace(/[&<>"']/g, (sign) => ENTITIES[sign] as string);
}

const STYLE = `body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
h1{font-size:1.5rem}table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid #bbb;padding:.35rem .5rem;text-align:left;
vertical-align:top;overflow-wrap:anywhere}th{font-size:.85rem}thead{display:table-header-group}tr{break-inside:avoid}
code{font:12px ui-monospace,monospace}dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dd{margin:0;overflow-wrap:anywhere}
@media print{body{margin:0;max-width:none}a{color:inherit;text-decoration:none}}`;

const fact = (name: string, text: string): string => `<dt>${html(name)}</dt><dd>${html(text)}</dd>`;

/** Writes the pieces of a printable report. */
export function* reportPieces(head: ReportHead, rows: Iterable<ReportRow>): Generator<string> {
  let count = 0;
  yield reportBegin(head);
  for (const row of rows) {
    count += 1;
    yield reportRow(row);
  }
  yield reportEnd(count);
}

/** Writes the beginning of a printable report, up to its first row. */
function reportBegin({ selection, log }: ReportHead): string {
  const { origin, treeSize, rootHash, fingerprint } = log;
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Decisions of agents</title>',
    `<meta name="viewport" content="width=device-width"><style>${STYLE}</style></head><body>`,
    "<h1>Decisions of agents</h1>",
    `<p>${html(selection.join(", "))}</p><dl>`,
    fact("Log", origin),
    fact("Entries", String(treeSize)),
    fact("Root", rootHash),
    fact("Signed by", fingerprint),
    "</dl><p>Each row is an entry of this log. Its fingerprint is the SHA-256 leaf hash of the entry’s text, as in <code>decisions.csv</code>; ",
    "<code>agentctl vault verify</code> on the folder of this report proves each row without the service.</p>",
    "<table><thead><tr><th>Entry</th><th>Decided</th><th>Decision</th><th>What happened</th><th>Fingerprint</th></tr></thead><tbody>\n",
  ].join("");
}

/** Texts of a row of a printable report. */
export interface ReportRow {
  readonly index: number;
  /** RFC 3339 UTC. */
  readonly at: string;
  readonly decision: string;
  /** The action, the decision and its reasons, in sentences. */
  readonly told: readonly string[];
  readonly leafHash: string;
}

/** Returns the texts of a decision in a printable report. */
export function reportRowOf({ index, parsed, leafHash }: EvidenceRow): ReportRow {
  const [asked = "", decided = ""] = receiptSentences(parsed).map(plainText);
  const because = listAt(parsed, "reasons").map((reason) => textAt(reason, "message"));
  const told = [asked, decided, ...because].filter((text) => text !== "");
  return { index, at: textAt(parsed, "at"), decision: textAt(parsed, "decision"), told, leafHash };
}

/** Writes a row of a printable report. */
export function reportRow({ index, at, decision, told, leafHash }: ReportRow): string {
  const time = `<time datetime="${html(at)}">${html(at)}</time>`;
  const cells = [String(index), time, html(decision), told.map(html).join("<br>")];
  return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}<td><code>${html(leafHash)}</code></td></tr>\n`;
}

/** Writes the end of a printable report. */
const reportEnd = (count: number): string =>
  `</tbody></table><p>${count} ${count === 1 ? "decision" : "decisions"}.</p></body></html>\n`;
