import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useCallback, useEffect, useRef, useState } from "react";
import {
  type BacktestChange,
  type BacktestProgress,
  type BacktestReport,
  type BacktestRequestSchema,
  DryRunService,
} from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { isLooser } from "./direction.ts";

/** Maximum number of changed decisions that the page keeps, for looser and stricter ones each. */
const MAX_CHANGES = 5_000;

/** Request of a backtest without what the page adds. */
export type BacktestQuestion = Omit<MessageInitShape<typeof BacktestRequestSchema>, "$typeName" | "listChanges">;

/** A backtest of the page. */
export interface RunningBacktest {
  readonly progress: BacktestProgress | undefined;
  readonly report: BacktestReport | undefined;
  /** Looser ones first; the report may count more. */
  readonly changes: readonly BacktestChange[];
  readonly error: unknown;
  readonly isRunning: boolean;
  start(question: BacktestQuestion): void;
  stop(): void;
}

/** Runs backtests, one at a time. Leaving the page stops the one that runs. */
export function useBacktest(): RunningBacktest {
  const transport = useTransport();
  const running = useRef<AbortController | undefined>(undefined);
  const [progress, setProgress] = useState<BacktestProgress | undefined>(undefined);
  const [report, setReport] = useState<BacktestReport | undefined>(undefined);
  const [changes, setChanges] = useState<readonly BacktestChange[]>([]);
  const [error, setError] = useState<unknown>(undefined);
  const [isRunning, setIsRunning] = useState(false);
  useEffect(() => () => running.current?.abort(), []);
  const start = useCallback(
    (question: BacktestQuestion): void => {
      const controller = new AbortController();
      const { signal } = controller;
      running.current?.abort();
      running.current = controller;
      setIsRunning(true);
      setError(undefined);
      setProgress(undefined);
      setReport(undefined);
      const run = async (): Promise<void> => {
        const looser: BacktestChange[] = [];
        const stricter: BacktestChange[] = [];
        const client = createClient(DryRunService, transport);
        for await (const message of client.backtest({ ...question, listChanges: true }, { signal })) {
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
      run()
        .catch((fault: unknown) => !signal.aborted && setError(fault))
        .finally(() => running.current === controller && setIsRunning(false));
    },
    [transport],
  );
  const stop = useCallback(() => running.current?.abort(), []);
  return { start, stop, progress, report, changes, error, isRunning };
}
