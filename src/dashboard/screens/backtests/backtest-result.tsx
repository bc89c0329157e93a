import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import type {
  BacktestAgent,
  BacktestChange,
  BacktestReport,
  PeopleCounts,
} from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { Decision } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { DecisionBadge } from "../../kit/badge.tsx";
import { type Column, ColumnList } from "../../kit/lists/column-list.tsx";
import { Message } from "../../kit/message.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import { BacktestChart } from "./backtest-chart.tsx";
import { isLooser } from "./direction.ts";

const ROW_HEIGHT = 64;
/** Characters of a value. */
const MAX_VALUE = 120;
const FIRST_AGENTS = 25;
const MORE_AGENTS = 100;

type Direction = "looser" | "stricter";
/** Answer of a person to a decision that would be stricter. */
type Answer = "approved" | "rejected" | "pending";

/** Selection of the changed decisions behind one number of the report. */
interface Selection {
  readonly direction?: Direction | undefined;
  readonly now?: Decision | undefined;
  readonly agentId?: string | undefined;
  readonly answer?: Answer | undefined;
}

/** A decision in the list, with its change if the page holds it. */
interface Listed {
  readonly decisionId: string;
  readonly change: BacktestChange | undefined;
}

const isSame = (a: Selection, b: Selection): boolean =>
  a.direction === b.direction && a.now === b.now && a.agentId === b.agentId && a.answer === b.answer;

function isSelected({ direction, now, agentId }: Selection, change: BacktestChange): boolean {
  if (direction !== undefined && (direction === "looser") !== isLooser(change)) return false;
  return (now === undefined || change.now === now) && (agentId === undefined || change.agentId === agentId);
}

const listedFrom = (change: BacktestChange): Listed => ({ decisionId: change.decisionId, change });

/** Returns the ids of decisions with an answer, as far as the report names them. */
function answeredIds(answer: Answer, byPeople: PeopleCounts | undefined): readonly string[] {
  return byPeople?.[`${answer}DecisionIds`] ?? [];
}

/** Selects the decisions to list. */
function listedOf(
  selection: Selection,
  changes: readonly BacktestChange[],
  byPeople: PeopleCounts | undefined,
): readonly Listed[] {
  const { answer } = selection;
  if (answer === undefined) return changes.filter((change) => isSelected(selection, change)).map(listedFrom);
  const known = new Map(changes.map((change) => [change.decisionId, change]));
  return answeredIds(answer, byPeople).map((decisionId) => ({ decisionId, change: known.get(decisionId) }));
}

/** Properties of a report. */
export interface BacktestResultProps {
  readonly report: BacktestReport;
  /** Changed decisions, looser ones first; the report may count more. */
  readonly changes: readonly BacktestChange[];
}

/** Report of a backtest, looser decisions first. Each number of changed decisions lists them. */
export function BacktestResult({ report, changes }: BacktestResultProps) {
  const { replayed, looser, stricter, unchanged, semanticDecisions, deterministicShare, byPeople, agents } = report;
  const { provenanceNotReplayed } = report;
  const [selection, setSelection] = useState<Selection>({});
  const listed = useMemo(() => listedOf(selection, changes, byPeople), [changes, selection, byPeople]);
  const select = (next: Selection): void => setSelection(isSame(next, selection) ? {} : next);
  const numbers = { selection, onSelect: select };
  const changed = agents.filter((agent) => agent.looser + agent.stricter > 0n);
  return (
    <div className="stack" data-report>
      <ul className="backtest-totals">
        <li className={looser > 0n ? "is-bad" : undefined}>
          <Total {...numbers} direction="looser" count={looser} />
          <Parts {...numbers} direction="looser" allow={report.looserBy?.allow} escalate={report.looserBy?.escalate} />
        </li>
        <li className={stricter > 0n ? "is-wait" : undefined}>
          <Total {...numbers} direction="stricter" count={stricter} />
          <Parts
            {...numbers}
            direction="stricter"
            escalate={report.stricterBy?.escalate}
            block={report.stricterBy?.block}
          />
        </li>
        <li>
          <strong>{unchanged.toLocaleString("en")}</strong> unchanged
          <span className="hint">of {replayed.toLocaleString("en")} decisions</span>
        </li>
      </ul>
      {looser + stricter === 0n ? null : <BacktestChart days={report.days} />}
      {semanticDecisions === 0n ? null : (
        <p className="hint">
          {semanticDecisions.toLocaleString("en")} that a semantic rule covers are left out, since no model is asked;
          the other {(deterministicShare * 100).toFixed(1)} % are exact.
        </p>
      )}
      {provenanceNotReplayed === 0n ? null : (
        <p className="hint">
          For {provenanceNotReplayed.toLocaleString("en")} a provenance rule is new: it counts as silent, since the log
          does not keep what sessions observed.
        </p>
      )}
      {stricter === 0n || byPeople === undefined ? null : (
        <p className="hint">
          Of the stricter ones people had approved <Answered {...numbers} answer="approved" count={byPeople.approved} />{" "}
          and rejected <Answered {...numbers} answer="rejected" count={byPeople.rejected} />;{" "}
          <Answered {...numbers} answer="pending" count={byPeople.pending} /> wait.
        </p>
      )}
      {changed.length === 0 ? null : (
        <AgentTable {...numbers} agents={changed} others={agents.length - changed.length} />
      )}
      {listed.length === 0 ? null : (
        <>
          <h3>{headingOf(selection, agents)}</h3>
          <Shortened selection={selection} report={report} listed={listed.length} changes={changes.length} />
          <ColumnList
            items={listed}
            idOf={idOf}
            rowHeight={ROW_HEIGHT}
            label="Changed decisions"
            columns={COLUMNS}
            className="backtest-changes"
            rowClassName="backtest-change"
          />
        </>
      )}
    </div>
  );
}

const WORDS: Readonly<Record<number, string>> = {
  [Decision.ALLOW]: "now allowed",
  [Decision.ESCALATE]: "now escalated",
  [Decision.BLOCK]: "now blocked",
};

const ANSWERS: Readonly<Record<Answer, string>> = {
  approved: "people had approved",
  rejected: "people had rejected",
  pending: "wait for a person",
};

function headingOf({ direction, now, agentId, answer }: Selection, agents: readonly BacktestAgent[]): string {
  if (answer !== undefined) return `Changed decisions: stricter, ${ANSWERS[answer]}`;
  const name = agents.find((each) => each.agentId === agentId)?.name;
  const parts = [direction, now === undefined ? undefined : WORDS[now], name === undefined ? undefined : `of ${name}`];
  const told = parts.filter((part) => part !== undefined).join(", ");
  return told === "" ? "Changed decisions, looser first" : `Changed decisions: ${told}`;
}

interface NumbersProps {
  readonly selection: Selection;
  readonly onSelect: (selection: Selection) => void;
}

function Total({
  selection,
  onSelect,
  direction,
  count,
}: NumbersProps & { readonly direction: Direction; readonly count: bigint }) {
  return (
    <button
      type="button"
      className="count-button"
      data-action={direction}
      aria-pressed={isSame(selection, { direction })}
      disabled={count === 0n}
      onClick={() => onSelect({ direction })}
    >
      <strong>{count.toLocaleString("en")}</strong> {direction}
    </button>
  );
}

interface PartsProps extends NumbersProps {
  readonly direction: Direction;
  readonly allow?: bigint | undefined;
  readonly escalate?: bigint | undefined;
  readonly block?: bigint | undefined;
}

/** A total, split by the new decision. */
function Parts({ selection, onSelect, direction, allow = 0n, escalate = 0n, block = 0n }: PartsProps) {
  const parts = [
    { now: Decision.ALLOW, count: allow },
    { now: Decision.ESCALATE, count: escalate },
    { now: Decision.BLOCK, count: block },
  ];
  return parts
    .filter(({ count }) => count > 0n)
    .map(({ now, count }) => (
      <button
        key={now}
        type="button"
        className="link"
        data-action={`${direction}-${now}`}
        aria-pressed={isSame(selection, { direction, now })}
        onClick={() => onSelect({ direction, now })}
      >
        {count.toLocaleString("en")} {WORDS[now]}
      </button>
    ));
}

interface AgentTableProps extends NumbersProps {
  readonly agents: readonly BacktestAgent[];
  /** Number of agents without a changed decision. */
  readonly others: number;
}

function AgentTable({ agents, others, selection, onSelect }: AgentTableProps) {
  const [limit, setLimit] = useState(FIRST_AGENTS);
  const more = agents.length - limit;
  return (
    <>
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
            {agents.slice(0, limit).map(({ agentId, name, replayed, looser, stricter }) => (
              <tr key={agentId} data-id={agentId}>
                <td>
                  <Link href={`/agents/${agentId}`}>
                    <Shown text={name} />
                  </Link>
                </td>
                <td className="number">{replayed.toLocaleString("en")}</td>
                <AgentNumber
                  selection={selection}
                  onSelect={onSelect}
                  agentId={agentId}
                  name={name}
                  direction="looser"
                  count={looser}
                />
                <AgentNumber
                  selection={selection}
                  onSelect={onSelect}
                  agentId={agentId}
                  name={name}
                  direction="stricter"
                  count={stricter}
                />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="hint">
        {more > 0 ? (
          <button type="button" className="link" onClick={() => setLimit(limit + MORE_AGENTS)}>
            {more.toLocaleString("en")} more agents
          </button>
        ) : null}
        {others > 0
          ? ` Nothing changes for ${others.toLocaleString("en")} other ${others === 1 ? "agent" : "agents"}.`
          : ""}
      </p>
    </>
  );
}

interface AgentNumberProps extends NumbersProps {
  readonly agentId: string;
  readonly name: string;
  readonly direction: Direction;
  readonly count: bigint;
}

function AgentNumber({ selection, onSelect, agentId, name, direction, count }: AgentNumberProps) {
  const own = { direction, agentId };
  return (
    <td className="number">
      {count === 0n ? (
        "0"
      ) : (
        <button
          type="button"
          className="link"
          data-action={`${direction}-of-agent`}
          aria-label={`${count.toLocaleString("en")} ${direction} decisions of ${name}`}
          aria-pressed={isSame(selection, own)}
          onClick={() => onSelect(own)}
        >
          {count.toLocaleString("en")}
        </button>
      )}
    </td>
  );
}

/** Number of decisions with one answer of people, as a button that lists them. */
function Answered({
  selection,
  onSelect,
  answer,
  count,
}: NumbersProps & { readonly answer: Answer; readonly count: bigint }) {
  if (count === 0n) return "0";
  return (
    <button
      type="button"
      className="link"
      data-action={`people-${answer}`}
      aria-label={`${count.toLocaleString("en")} stricter decisions that ${ANSWERS[answer]}`}
      aria-pressed={isSame(selection, { answer })}
      onClick={() => onSelect({ answer })}
    >
      {count.toLocaleString("en")}
    </button>
  );
}

interface ShortenedProps {
  readonly selection: Selection;
  readonly report: BacktestReport;
  /** Rows in the list. */
  readonly listed: number;
  /** Changed decisions held by the page. */
  readonly changes: number;
}

/** Says that a list is incomplete, with its length and the total. */
function Shortened({ selection: { answer }, report: { looser, stricter, byPeople }, listed, changes }: ShortenedProps) {
  const total = answer === undefined ? looser + stricter : (byPeople?.[answer] ?? 0n);
  const first = answer === undefined ? changes : listed;
  if (BigInt(first) >= total) return null;
  return (
    <p className="hint">
      The first {first.toLocaleString("en")} of {total.toLocaleString("en")}{" "}
      {answer === undefined ? "changed decisions are listed, looser ones before stricter ones." : "are listed."}
    </p>
  );
}

const idOf = ({ decisionId }: Listed): string => decisionId;

const COLUMNS: readonly Column<Listed>[] = [
  { title: "Decision", cell: ({ change }) => <Decisions change={change} /> },
  {
    title: "Agent",
    cell: ({ change }) => (change === undefined ? null : <Shown text={change.agentName || change.agentId} />),
  },
  {
    title: "Action",
    cell: ({ decisionId, change }) => (
      <Link href={`/decisions/${decisionId}`} className="backtest-action">
        {change === undefined ? <code>{decisionId}</code> : <Shown text={change.actionType} />}
      </Link>
    ),
  },
  { title: "Why", cell: ({ change }) => <Why change={change} /> },
  { title: "Decided", cell: ({ change }) => (change === undefined ? null : <Time at={change.decidedAt} />) },
];

interface ChangeProps {
  readonly change: BacktestChange | undefined;
}

function Decisions({ change }: ChangeProps) {
  if (change === undefined) return null;
  return (
    <span className="backtest-decisions">
      <DecisionBadge decision={change.was} /> <span aria-hidden>→</span>
      <span className="visually-hidden">would be</span> <DecisionBadge decision={change.now} />
    </span>
  );
}

/** Writes the value of an argument as it was sent; undefined for one that was not. */
function valueText({ value }: BacktestChange): string | undefined {
  if (value === undefined) return undefined;
  const json = toJson(ValueSchema, value);
  return typeof json === "string" ? json : JSON.stringify(json);
}

/** The argument that fired with its value; else the first reason. */
function Why({ change }: ChangeProps) {
  if (change === undefined) return null;
  const { argument, reasons } = change;
  if (argument === undefined) return reasons[0] === undefined ? null : <Message text={reasons[0].message} />;
  const value = valueText(change);
  return (
    <>
      <span className="hint">
        <Shown text={argument} />
      </span>{" "}
      {value === undefined ? "not sent" : <Shown text={value.slice(0, MAX_VALUE)} />}
    </>
  );
}
