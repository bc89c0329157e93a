import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useEffect, useRef, useState } from "react";
import {
  type BacktestChange,
  type BacktestProgress,
  type BacktestReport,
  DryRunService,
} from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import type { MandateDefinition } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Field } from "../../kit/field.tsx";
import { Fault } from "../../kit/states.tsx";
import { BacktestResult, isLooser } from "./backtest-result.tsx";
import { definitionOf } from "./mandate-text.ts";

const WINDOWS = [
  { days: 1, title: "the last day" },
  { days: 7, title: "the last week" },
  { days: 30, title: "the last 30 days" },
  { days: 0, title: "everything" },
] as const;
const DAY_MS = 86_400_000;
/** Maximum number of changed decisions that the page keeps, for looser and stricter ones each. */
const MAX_CHANGES = 5_000;

/** Properties of a backtest. */
export interface BacktestProps {
  readonly definition: MandateDefinition;
  /** Mandate in force that the draft replaces; undefined for a new one. */
  readonly replaces: string | undefined;
  readonly onClose: () => void;
}

/** Replays recorded decisions under a draft. */
export function Backtest({ definition, replaces, onClose }: BacktestProps) {
  const [days, setDays] = useState(7);
  const { start, stop, progress, report, changes, error, isRunning } = useBacktest(definition, replaces);
  return (
    <Dialog title="Try on the past" isOpen onClose={onClose} closesBy="escape" isWide>
      <div className="filters">
        <Field label="Decisions of">
          {(control) => (
            <select {...control} name="window" value={days} onChange={({ target }) => setDays(Number(target.value))}>
              {WINDOWS.map(({ days: value, title }) => (
                <option key={value} value={value}>
                  {title}
                </option>
              ))}
            </select>
          )}
        </Field>
        {isRunning ? (
          <Button action="stop" tone="danger" onClick={stop}>
            Stop
          </Button>
        ) : (
          <Button action="start" tone="primary" onClick={() => start(days)}>
            Decide them again
          </Button>
        )}
      </div>
      {progress === undefined || !isRunning ? null : <Progress progress={progress} />}
      {error === undefined ? null : <Fault error={error} />}
      {report === undefined ? null : <BacktestResult report={report} changes={changes} />}
    </Dialog>
  );
}

function useBacktest(definition: MandateDefinition, replaces: string | undefined) {
  const transport = useTransport();
  const running = useRef<AbortController | undefined>(undefined);
  const [progress, setProgress] = useState<BacktestProgress | undefined>(undefined);
  const [report, setReport] = useState<BacktestReport | undefined>(undefined);
  const [changes, setChanges] = useState<readonly BacktestChange[]>([]);
  const [error, setError] = useState<unknown>(undefined);
  const [isRunning, setIsRunning] = useState(false);
  useEffect(() => () => running.current?.abort(), []);
  const run = async (days: number, signal: AbortSignal): Promise<void> => {
    const draft = {
      ...definitionOf(definition),
      ...(replaces === undefined ? {} : { replacesMandateId: replaces }),
    };
    const since = days === 0 ? {} : { since: timestampFromMs(Date.now() - days * DAY_MS) };
    const looser: BacktestChange[] = [];
    const stricter: BacktestChange[] = [];
    const stream = createClient(DryRunService, transport).backtest(
      { drafts: [draft], listChanges: true, ...since },
      { signal },
    );
    for await (const message of stream) {
      if (message.progress !== undefined) setProgress(message.progress);
      const { change } = message;
      const kept = change === undefined || !isLooser(change) ? stricter : looser;
      if (change !== undefined && kept.length < MAX_CHANGES) kept.push(change);
      if (message.report !== undefined) {
        setChanges([...looser, ...stricter]);
        setReport(message.report);
      }
    }
  };
  const start = (days: number): void => {
    const controller = new AbortController();
    running.current = controller;
    setIsRunning(true);
    setError(undefined);
    setReport(undefined);
    run(days, controller.signal)
      .catch((fault: unknown) => !controller.signal.aborted && setError(fault))
      .finally(() => setIsRunning(false));
  };
  return { start, stop: () => running.current?.abort(), progress, report, changes, error, isRunning };
}

function Progress({ progress: { replayed, total } }: { readonly progress: BacktestProgress }) {
  const share = total === 0n ? 1 : Number(replayed) / Number(total);
  return (
    <div className="stack" role="status">
      <progress value={share} max={1} aria-label="Progress" />
      <p className="hint">
        {replayed.toLocaleString("en")} of {total.toLocaleString("en")} entries
      </p>
    </div>
  );
}
