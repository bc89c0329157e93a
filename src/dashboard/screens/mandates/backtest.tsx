import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import {
  type BacktestAgent,
  type BacktestChange,
  type BacktestProgress,
  type BacktestReport,
  DryRunService,
} from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import type { MandateDefinition } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { DecisionBadge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Field } from "../../kit/field.tsx";
import { Message } from "../../kit/message.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault } from "../../kit/states.tsx";
import { VirtualList } from "../../kit/virtual-list.tsx";

const WINDOWS = [
  { days: 1, title: "the last day" },
  { days: 7, title: "the last week" },
  { days: 30, title: "the last 30 days" },
  { days: 0, title: "everything" },
] as const;
const DAY_MS = 86_400_000;
/** Changed decisions that the page keeps. */
const MAX_CHANGES = 5_000;
const ROW_HEIGHT = 64;

/** Properties of a backtest. */
export interface BacktestProps {
  readonly definition: MandateDefinition;
  /** The mandate in force whose place the draft takes; undefined for a new one. */
  readonly replaces: string | undefined;
  readonly onClose: () => void;
}

/** Decides the recorded decisions again under a draft. */
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
      {report === undefined ? null : <Report report={report} changes={changes} />}
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
    const { name, description, scope, departmentId, agentId, priority, mode, rules } = definition;
    const draft = {
      ...{ name, description, scope, priority, mode, rules },
      ...(departmentId !== undefined && { departmentId }),
      ...(agentId !== undefined && { agentId }),
      ...(replaces !== undefined && { replacesMandateId: replaces }),
    };
    const since = days === 0 ? {} : { since: timestampFromMs(Date.now() - days * DAY_MS) };
    const found: BacktestChange[] = [];
    const stream = createClient(DryRunService, transport).backtest(
      { drafts: [draft], listChanges: true, ...since },
      { signal },
    );
    for await (const message of stream) {
      if (message.progress !== undefined) setProgress(message.progress);
      if (message.change !== undefined && found.length < MAX_CHANGES) found.push(message.change);
      if (message.report !== undefined) {
        setChanges(found);
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

/** Decisions by strictness. */
const RANK: Readonly<Record<number, number>> = { 1: 0, 2: 2, 3: 1 };
const isLooser = ({ was, now }: BacktestChange): boolean => (RANK[now] ?? 0) < (RANK[was] ?? 0);

function Report({ report, changes }: { readonly report: BacktestReport; readonly changes: readonly BacktestChange[] }) {
  const { replayed, looser, stricter, unchanged, semanticDecisions, byPeople, agents } = report;
  const [shown, setShown] = useState<"looser" | "stricter" | undefined>(undefined);
  const listed = changes.filter((change) => shown === undefined || (shown === "looser") === isLooser(change));
  const changed = agents.filter((agent) => agent.looser + agent.stricter > 0n);
  const filter = (name: "looser" | "stricter", count: bigint, tone: string) => (
    <button
      type="button"
      className={`count-button is-${tone}`}
      data-action={name}
      aria-pressed={shown === name}
      onClick={() => setShown(shown === name ? undefined : name)}
    >
      <strong>{count.toLocaleString("en")}</strong> {name}
    </button>
  );
  return (
    <div className="stack" data-report>
      <p>
        {replayed.toLocaleString("en")} decisions: {filter("looser", looser, "bad")}{" "}
        {filter("stricter", stricter, "wait")} {unchanged.toLocaleString("en")} unchanged
        {semanticDecisions === 0n
          ? ""
          : `, ${semanticDecisions.toLocaleString("en")} left out that a semantic rule covers`}
        .
      </p>
      {stricter === 0n || byPeople === undefined ? null : (
        <p className="hint">
          Of the stricter ones people had approved {String(byPeople.approved)} and rejected {String(byPeople.rejected)};{" "}
          {String(byPeople.pending)} wait.
        </p>
      )}
      {changed.length === 0 ? null : <AgentTable agents={changed} />}
      {listed.length === 0 ? null : (
        <VirtualList
          items={listed}
          idOf={({ decisionId }) => decisionId}
          rowHeight={ROW_HEIGHT}
          label="Changed decisions"
        >
          {(change) => <ChangeRow change={change} />}
        </VirtualList>
      )}
    </div>
  );
}

function AgentTable({ agents }: { readonly agents: readonly BacktestAgent[] }) {
  return (
    <div className="table-scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Agent</th>
            <th scope="col" className="number">
              Decisions
            </th>
            <th scope="col" className="number">
              Looser
            </th>
            <th scope="col" className="number">
              Stricter
            </th>
          </tr>
        </thead>
        <tbody>
          {agents.slice(0, 50).map(({ agentId, name, replayed, looser, stricter }) => (
            <tr key={agentId} data-id={agentId}>
              <td>
                <Link href={`/agents/${agentId}`}>
                  <Shown text={name} />
                </Link>
              </td>
              <td className="number">{replayed.toLocaleString("en")}</td>
              <td className="number">{looser.toLocaleString("en")}</td>
              <td className="number">{stricter.toLocaleString("en")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ChangeRow({ change: { decisionId, was, now, reasons } }: { readonly change: BacktestChange }) {
  return (
    <div className="test-row">
      <DecisionBadge decision={was} /> <span aria-hidden>→</span>
      <span className="visually-hidden">would be</span> <DecisionBadge decision={now} />
      <Link href={`/decisions/${decisionId}`}>
        <code>{decisionId}</code>
      </Link>
      {reasons.slice(0, 1).map(({ message }) => (
        <span key={message} className="hint">
          <Message text={message} />
        </span>
      ))}
    </div>
  );
}
