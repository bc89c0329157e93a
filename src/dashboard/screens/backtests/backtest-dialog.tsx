import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import { Link } from "wouter";
import type { BacktestProgress } from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { CopyButton } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Field } from "../../kit/field.tsx";
import { Fault } from "../../kit/states.tsx";
import "../../styles/mandates.css";
import { BacktestResult } from "./backtest-result.tsx";
import { type BacktestQuestion, useBacktest } from "./use-backtest.ts";

const WINDOWS = [
  { days: 1, title: "the last day" },
  { days: 7, title: "the last week" },
  { days: 30, title: "the last 30 days" },
  { days: 0, title: "everything" },
] as const;
const DAY_MS = 86_400_000;

/** Properties of the dialog. */
export interface BacktestDialogProps {
  /** Drafts, mandates to leave out, and lists. */
  readonly question: BacktestQuestion;
  readonly onClose: () => void;
}

/** Replays recorded decisions under a draft. The result is kept, with an address for others. */
export function BacktestDialog({ question, onClose }: BacktestDialogProps) {
  const [days, setDays] = useState(7);
  const [against, setAgainst] = useState("rules");
  const { start, stop, progress, report, changes, error, isRunning } = useBacktest();
  const begin = (): void =>
    start({
      ...question,
      ...(days === 0 ? {} : { since: timestampFromMs(Date.now() - days * DAY_MS) }),
      onlyDrafts: against === "rules",
      keep: true,
    });
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
        <Field label="Compared with">
          {(control) => (
            <select {...control} name="against" value={against} onChange={({ target }) => setAgainst(target.value)}>
              <option value="rules">the rules in force</option>
              <option value="recorded">what was decided</option>
            </select>
          )}
        </Field>
        {isRunning ? (
          <Button action="stop" tone="danger" onClick={stop}>
            Stop
          </Button>
        ) : (
          <Button action="start" tone="primary" onClick={begin}>
            Decide them again
          </Button>
        )}
      </div>
      {progress === undefined || !isRunning ? null : <Progress progress={progress} />}
      {error === undefined ? null : <Fault error={error} />}
      {report?.backtestId === undefined ? null : <Share backtestId={report.backtestId} />}
      {report === undefined ? null : <BacktestResult report={report} changes={changes} />}
    </Dialog>
  );
}

/** Address at which others with the same rights find a kept backtest. */
export function Share({ backtestId }: { readonly backtestId: string }) {
  const href = `/backtests/${backtestId}`;
  return (
    <p className="row hint" data-kept={backtestId}>
      <Link href={href} target="_blank">
        Open as a page
      </Link>
      <CopyButton text={new URL(href, window.location.href).href} what="the link" isSmall />
      <span>Operators and admins of this workspace find it there for 30 days.</span>
    </p>
  );
}

/** How far a backtest has come. */
export function Progress({ progress: { replayed, total } }: { readonly progress: BacktestProgress }) {
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
