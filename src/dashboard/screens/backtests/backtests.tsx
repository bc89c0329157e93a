import { useQuery } from "@connectrpc/connect-query";
import { useEffect } from "react";
import { Link } from "wouter";
import {
  DryRunService,
  type KeptBacktest,
  type MandateDraft,
} from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { MandateService } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { Button } from "../../kit/button.tsx";
import { CopyButton } from "../../kit/copy.tsx";
import { countText } from "../../kit/count-text.ts";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { ExactTime, Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import "../../styles/mandates.css";
import { DiffView } from "../mandates/diff-view.tsx";
import { textFromMandate } from "../mandates/mandate-text.ts";
import { Progress } from "./backtest-dialog.tsx";
import { BacktestResult } from "./backtest-result.tsx";
import { useBacktest } from "./use-backtest.ts";

const MANDATES: ScreenPlace = { title: "Mandates", href: "/mandates" };
const MAX_TITLE = 60;

/** A kept backtest: what it supposed, and what it changes. */
export function Backtests({ id }: ScreenProps) {
  if (id === undefined) {
    return (
      <ScreenFrame name="backtest" title="Backtests" within={MANDATES}>
        <Empty title="Open a backtest by its address">
          <em>Try on the past</em> in the editor of a mandate makes one.
        </Empty>
      </ScreenFrame>
    );
  }
  return <BacktestView key={id} backtestId={id} />;
}

const titleOf = ({ drafts: [first], archives }: KeptBacktest): string => {
  if (first !== undefined) return `Backtest of ${shownText(first.name, MAX_TITLE)}`;
  return archives.length === 0 ? "Backtest" : `Backtest without ${countText(archives.length, "mandate")}`;
};

function BacktestView({ backtestId }: { readonly backtestId: string }) {
  const query = useQuery(DryRunService.method.getBacktest, { backtestId }, { retry: false });
  const backtest = query.data?.backtest;
  return (
    <ScreenFrame name="backtest" title={backtest === undefined ? "Backtest" : titleOf(backtest)} within={MANDATES}>
      {query.isPending ? <Loading what="the backtest" /> : null}
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {backtest === undefined ? null : (
        <>
          <About backtest={backtest} />
          <Supposed backtest={backtest} />
          <Result backtest={backtest} />
        </>
      )}
    </ScreenFrame>
  );
}

function About({ backtest }: { readonly backtest: KeptBacktest }) {
  const { backtestId, createdBy, createdByName, createdAt, expiresAt, since, until, onlyDrafts, report } = backtest;
  return (
    <dl className="facts card" data-id={backtestId}>
      <dt>Run by</dt>
      <dd>
        <Actor id={createdBy} name={createdByName} />, <Time at={createdAt} />
      </dd>
      <dt>Decisions</dt>
      <dd>
        {(report?.replayed ?? 0n).toLocaleString("en")} from{" "}
        {since === undefined ? "the first entry" : <ExactTime at={since} />} to{" "}
        {until === undefined ? "the last" : <ExactTime at={until} />}
      </dd>
      <dt>Compared with</dt>
      <dd>{onlyDrafts ? "the rules in force, without the draft" : "what was decided then"}</dd>
      <dt>Found then</dt>
      <dd data-found>
        {countText(report?.looser ?? 0n, "decision")} looser, {(report?.stricter ?? 0n).toLocaleString("en")} stricter
      </dd>
      <dt>Link</dt>
      <dd>
        <CopyButton text={window.location.href} what="the link" isSmall />, for operators and admins of this workspace;
        gone <Time at={expiresAt} />
      </dd>
    </dl>
  );
}

/** Texts that the backtest supposed, each as its difference from what is in force now. */
function Supposed({ backtest: { drafts, archives, lists } }: { readonly backtest: KeptBacktest }) {
  return (
    <section className="stack" aria-label="What it supposes">
      <h2>What it supposes</h2>
      {drafts.map((draft) => (
        <DraftDifference key={draft.name} draft={draft} isNamed={drafts.length > 1} />
      ))}
      {archives.length === 0 ? null : (
        <p>
          Without{" "}
          {archives.map((mandateId, index) => (
            <span key={mandateId}>
              {index === 0 ? "" : ", "}
              <Link href={`/mandates/${encodeURIComponent(mandateId)}`}>
                <code>
                  <Shown text={mandateId} />
                </code>
              </Link>
            </span>
          ))}
        </p>
      )}
      {lists.length === 0 ? null : (
        <p>
          With {countText(lists.length, "list")} of its own: <Shown text={lists.map(({ name }) => name).join(", ")} />
        </p>
      )}
    </section>
  );
}

function DraftDifference({ draft, isNamed }: { readonly draft: MandateDraft; readonly isNamed: boolean }) {
  const { replacesMandateId: mandateId } = draft;
  const query = useQuery(
    MandateService.method.getMandate,
    { mandateId: mandateId ?? "" },
    { enabled: mandateId !== undefined, retry: false },
  );
  const now = query.data?.mandate;
  if (mandateId !== undefined && query.isPending) return <Loading what="the mandate" />;
  return (
    <div className="stack">
      {isNamed ? (
        <h3>
          <Shown text={draft.name} />
        </h3>
      ) : null}
      {mandateId === undefined ? null : (
        <p className="hint">
          The difference from <Link href={`/mandates/${encodeURIComponent(mandateId)}`}>the version in force now</Link>:
        </p>
      )}
      <DiffView before={now === undefined ? "" : textFromMandate(now)} after={textFromMandate(draft)} />
    </div>
  );
}

/** Asks the question again, over the same window. */
function Result({ backtest }: { readonly backtest: KeptBacktest }) {
  const { start, progress, report, changes, error, isRunning } = useBacktest();
  const { drafts, archives, lists, since, until, agentId, onlyDrafts, report: then } = backtest;
  useEffect(() => {
    start({ drafts, archives, lists, since, until, agentId, onlyDrafts });
  }, [start, drafts, archives, lists, since, until, agentId, onlyDrafts]);
  const isOther =
    report !== undefined &&
    (report.looser !== then?.looser || report.stricter !== then.stricter || report.replayed !== then.replayed);
  return (
    <section className="stack" aria-label="What it changes">
      <h2>What it changes</h2>
      {progress === undefined || !isRunning ? null : <Progress progress={progress} />}
      {error === undefined ? null : (
        <>
          <Fault error={error} />
          <Button action="again" onClick={() => start({ drafts, archives, lists, since, until, agentId, onlyDrafts })}>
            Decide them again
          </Button>
        </>
      )}
      {isOther ? (
        <p className="proposed" role="status" data-changed-since>
          The rules in force have changed since it was run. This is what it changes now.
        </p>
      ) : null}
      {report === undefined ? null : <BacktestResult report={report} changes={changes} />}
    </section>
  );
}
