import type { CollectedRow } from "../../../explain/collect-evidence.ts";
import {
  EVIDENCE_FILES,
  type ReportHead,
  type ReportRow,
  reportPieces,
  tablePieces,
} from "../../../explain/evidence.ts";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { countText } from "../../kit/count-text.ts";
import { saveFile } from "../../kit/download.tsx";
import { Scrolled } from "../../kit/scrolled.tsx";
import { Shown } from "../../kit/shown.tsx";
import { exactText, useZone } from "../../kit/zone.ts";

/** Rows that the page shows and prints; the file holds all. */
const SHOWN_ROWS = 1_000;

/** A report whose rows were verified. */
export interface MadeReport {
  readonly head: ReportHead;
  readonly rows: readonly CollectedRow[];
  readonly note: string;
  readonly keySet: unknown;
}

const TYPES: Readonly<Record<keyof typeof EVIDENCE_FILES, string>> = {
  table: "text/csv",
  report: "text/html",
  checkpoint: "text/plain",
  keys: "application/json",
};

function partsOf(kind: keyof typeof EVIDENCE_FILES, { head, rows, note, keySet }: MadeReport): Iterable<string> {
  if (kind === "table") return tablePieces(rows.map(({ line }) => line));
  if (kind === "report")
    return reportPieces(
      head,
      rows.map(({ report }) => report),
    );
  return [kind === "checkpoint" ? note : `${JSON.stringify(keySet)}\n`];
}

/** The files of a report, and the report itself to read and print. */
export function ReportResult({ report }: { readonly report: MadeReport }) {
  const { head, rows } = report;
  const { origin, treeSize, rootHash, fingerprint } = head.log;
  const save = (kind: keyof typeof EVIDENCE_FILES): void =>
    saveFile(EVIDENCE_FILES[kind], [...partsOf(kind, report)], TYPES[kind]);
  return (
    <div className="stack report-result" data-report={rows.length}>
      <div className="row is-apart">
        <p className="row">
          <Badge tone="good">verified in this browser</Badge> {countText(rows.length, "decision")}
        </p>
        <div className="row screen-only">
          <Button action="print-report" onClick={() => window.print()}>
            Print
          </Button>
          <Button action="download-table" tone="primary" onClick={() => save("table")}>
            Download the table
          </Button>
        </div>
      </div>
      <dl className="facts">
        <dt>Covers</dt>
        <dd>
          <Shown text={head.selection.join(", ")} />
        </dd>
        <dt>Log</dt>
        <dd>
          <Shown text={origin} />, {treeSize.toLocaleString("en")} entries
        </dd>
        <dt>Root</dt>
        <dd>
          <code>{rootHash}</code>
        </dd>
        <dt>Signed by</dt>
        <dd>
          <code>{fingerprint}</code>
        </dd>
      </dl>
      <div className="row screen-only">
        <Button action="download-report" onClick={() => save("report")}>
          {EVIDENCE_FILES.report}
        </Button>
        <Button action="download-report-note" onClick={() => save("checkpoint")}>
          {EVIDENCE_FILES.checkpoint}
        </Button>
        <Button action="download-report-keys" onClick={() => save("keys")}>
          {EVIDENCE_FILES.keys}
        </Button>
        <span className="hint">
          All four in one folder verify anywhere: <code>agentctl vault verify</code> with its path.
        </span>
      </div>
      <Rows rows={rows.map((each) => each.report)} />
    </div>
  );
}

function Rows({ rows }: { readonly rows: readonly ReportRow[] }) {
  const [zone] = useZone();
  const more = rows.length - SHOWN_ROWS;
  if (rows.length === 0) return <p>No decision was made in this selection.</p>;
  return (
    <>
      <Scrolled label="Decisions of the report" className="scrolled report-rows">
        <table>
          <thead>
            <tr>
              <th scope="col">Entry</th>
              <th scope="col">Decided</th>
              <th scope="col">Decision</th>
              <th scope="col">What happened</th>
              <th scope="col">Fingerprint</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, SHOWN_ROWS).map(({ index, at, decision, told, leafHash }) => (
              <tr key={index} data-entry={index}>
                <td>{index}</td>
                <td>{exactText(Date.parse(at), zone)}</td>
                <td>{decision}</td>
                <td>
                  {told.map((text, place) => (
                    <p key={place}>
                      <Shown text={text} />
                    </p>
                  ))}
                </td>
                <td>
                  <code>{leafHash}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolled>
      {more > 0 ? (
        <p>
          {countText(more, "decision")} more: <code>{EVIDENCE_FILES.report}</code> has all of them.
        </p>
      ) : null}
    </>
  );
}
