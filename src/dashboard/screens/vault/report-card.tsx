import { useQuery, useTransport } from "@connectrpc/connect-query";
import { useEffect, useRef, useState } from "react";
import { MandateService } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import {
  type CollectedEvidence,
  collectEvidence,
  EvidenceLimitError,
  type EvidenceSelection,
  MAX_DECISIONS,
  selectionWords,
} from "../../../explain/collect-evidence.ts";
import { base64 } from "../../../verify/bytes.ts";
import { AgentPicker } from "../../kit/agent-picker.tsx";
import { Button } from "../../kit/button.tsx";
import { FieldError, Form, NamedField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { inputTime, useZone, type Zone } from "../../kit/zone.ts";
import { createEvidenceSource } from "../../proof/evidence-source.ts";
import { CANNOT_HASH, canHash } from "../../proof/use-check.ts";
import { type MadeReport, ReportResult } from "./report-result.tsx";

/** Number of mandates that the form offers. */
const OFFERED = 500;
const LIMIT = MAX_DECISIONS.toLocaleString("en");

/** Makes a report: decisions of a period, an agent or a mandate with their proofs, each verified in this browser. */
export function ReportCard({ jwks }: { readonly jwks: unknown }) {
  const { progress, report, error, make, stop } = useReport(jwks);
  const [zone] = useZone();
  const [wrong, setWrong] = useState<unknown>();
  const mandates = useQuery(MandateService.method.listMandates, { pageSize: OFFERED }).data?.mandates ?? [];
  const submit = (values: FormValues): void => {
    try {
      setWrong(undefined);
      make(selectionFrom(values, zone));
    } catch (fault) {
      setWrong(fault);
    }
  };
  return (
    <section className="card stack report-card" aria-labelledby="report-title">
      <h2 id="report-title">A report for an auditor</h2>
      <p className="hint screen-only">
        Decisions of a period, an agent or a mandate, each with its proof: a table for spreadsheets, and a report to
        print. Every row is verified in this browser first. At most {LIMIT} decisions.
      </p>
      {canHash() ? null : <p className="hint">{CANNOT_HASH}</p>}
      <Form
        action="make-report"
        submit="Make the report"
        isBusy={progress !== undefined}
        isDisabled={!canHash()}
        error={wrong ?? error}
        onSubmit={submit}
      >
        <div className="report-fields">
          <TimeField name="since" label="From" />
          <TimeField name="until" label="Until" />
          <AgentPicker name="agent_id" label="Agent" none="every agent" isAny />
          <TextField
            name="mandate_id"
            label="Mandate"
            hint="Its id: decisions for which it fired. Empty: every decision."
            suggestions={mandates.map(({ mandateId, name }) => ({ value: mandateId, title: name }))}
          />
        </div>
      </Form>
      <div className="row" role="status">
        {progress === undefined ? null : (
          <>
            <span>
              {progress.all === undefined
                ? "Reading the decisions …"
                : `${progress.proven.toLocaleString("en")} of ${progress.all.toLocaleString("en")} decisions proven`}
            </span>
            <Button action="stop-report" tone="quiet" onClick={stop}>
              Cancel
            </Button>
          </>
        )}
      </div>
      {report === undefined ? null : <ReportResult report={report} />}
    </section>
  );
}

/** A time in the zone of the page. Empty: no bound. */
function TimeField({ name, label }: { readonly name: string; readonly label: string }) {
  return (
    <NamedField name={name} label={label}>
      {(control) => <input {...control} name={name} type="datetime-local" step={1} />}
    </NamedField>
  );
}

/** Reads the selection. Throws `FieldError` for a period without any time in it. */
function selectionFrom(values: FormValues, zone: Zone): EvidenceSelection {
  const [since, until] = ["since", "until"].map((name) => {
    const text = values.text(name);
    return text === "" ? undefined : inputTime(text, zone);
  });
  if (since !== undefined && until !== undefined && since >= until)
    throw new FieldError("until", "must be after the beginning of the period");
  const textOf = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
  return {
    since: textOf(since),
    until: textOf(until),
    agentId: values.optional("agent_id"),
    mandateId: values.optional("mandate_id"),
  };
}

interface Progress {
  readonly proven: number;
  /** Undefined while the decisions are listed. */
  readonly all: number | undefined;
}

/** Collects evidence, one report at a time; leaving the page stops it. */
function useReport(jwks: unknown) {
  const transport = useTransport();
  const [progress, setProgress] = useState<Progress>();
  const [report, setReport] = useState<MadeReport>();
  const [error, setError] = useState<unknown>();
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const make = (selection: EvidenceSelection): void => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    const { signal } = controller;
    setReport(undefined);
    setError(undefined);
    setProgress({ proven: 0, all: undefined });
    const onProven = (proven: number, all: number): void => {
      if (!signal.aborted && (proven % 20 === 0 || proven === all)) setProgress({ proven, all });
    };
    collectEvidence(createEvidenceSource(transport, jwks, signal), selection, { signal, onProven })
      .then((evidence) => signal.aborted || setReport(reportOf(evidence, selection, jwks)))
      .catch((fault: unknown) => {
        controller.abort();
        if (running.current === controller && !isStop(fault)) setError(errorOf(fault));
      })
      .finally(() => running.current === controller && setProgress(undefined));
  };
  const stop = (): void => {
    running.current?.abort();
    setProgress(undefined);
  };
  return { progress, report, error, make, stop };
}

const isStop = (fault: unknown): boolean => fault instanceof Error && fault.name === "AbortError";

const errorOf = (fault: unknown): unknown =>
  fault instanceof EvidenceLimitError
    ? new Error(`${fault.message}: choose a shorter period or one agent, or export the log with agentctl vault export`)
    : fault;

function reportOf({ checkpoint, rows }: CollectedEvidence, selection: EvidenceSelection, jwks: unknown): MadeReport {
  const { origin, treeSize, root, note, key } = checkpoint;
  const log = { origin, treeSize, rootHash: base64(root), fingerprint: key.fingerprint };
  return { head: { selection: selectionWords(selection), log }, rows, note, keySet: jwks };
}
