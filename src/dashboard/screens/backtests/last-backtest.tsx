import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { DryRunService } from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { countText } from "../../kit/count-text.ts";
import { Time } from "../../kit/time.tsx";
import type { BacktestQuestion } from "./use-backtest.ts";

/** Says what the last backtest of the same text came to, with a link; or that there was none. */
export function LastBacktest({ question }: { readonly question: BacktestQuestion }) {
  const { data } = useQuery(DryRunService.method.findBacktest, question, { staleTime: 0, retry: false });
  if (data === undefined) return null;
  const { backtest } = data;
  if (backtest === undefined) {
    return (
      <p className="hint" data-last-backtest="none">
        This was not tried on the past in the last 30 days.
      </p>
    );
  }
  const { backtestId, report, createdBy, createdByName, createdAt, onlyDrafts } = backtest;
  const { looser = 0n, stricter = 0n, replayed = 0n } = report ?? {};
  return (
    <p data-last-backtest={backtestId}>
      Tried on the past <Time at={createdAt} /> by <Actor id={createdBy} name={createdByName} />:{" "}
      {countText(looser, "decision")} looser and {stricter.toLocaleString("en")} stricter of{" "}
      {replayed.toLocaleString("en")}, compared with {onlyDrafts ? "the rules in force then" : "what was decided"}.{" "}
      <Link href={`/backtests/${backtestId}`} target="_blank">
        Open the backtest
      </Link>
    </p>
  );
}
