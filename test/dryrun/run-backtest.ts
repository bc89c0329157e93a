import { create } from "@bufbuild/protobuf";
import { MandateDraftSchema } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { draftFrom } from "../../src/api/mandate-service.ts";
import type { BacktestEvent, BacktestQuery, Change } from "../../src/dryrun/backtest/backtest.ts";
import type { Report } from "../../src/dryrun/backtest/report.ts";
import type { Draft } from "../../src/dryrun/drafts.ts";
import { DryRuns } from "../../src/dryrun/dry-runs.ts";
import { LongChecker } from "../../src/policy/long/checker.ts";
import { ReadOnlyDatabase } from "../../src/store/transaction.ts";
import type { Replica, TestWorkspace } from "../support/harness.ts";

/** Makes a draft of a mandate. */
export function draftOf(name: string, rules: Parameters<TestWorkspace["mandate"]>[0], more: object = {}): Draft {
  const message = create(MandateDraftSchema, { name, rules: [...rules], ...more });
  return { mandate: draftFrom(message), replacesMandateId: message.replacesMandateId };
}

/** Runs a backtest of the workspace `default`. */
export async function* runBacktest(
  { logs, database }: Pick<Replica, "logs" | "database">,
  query: Partial<BacktestQuery> = {},
): AsyncGenerator<BacktestEvent> {
  const checker = new LongChecker();
  const dryRuns = new DryRuns({ logs, reads: new ReadOnlyDatabase(database.pool), checker });
  const window = { sinceMs: undefined, untilMs: undefined, agentId: undefined };
  const { signal } = new AbortController();
  const rest = {
    workspaceId: "default",
    drafts: [],
    lists: [],
    archives: [],
    listsChanges: false,
    onlyDrafts: false,
    signal,
    ...window,
  };
  try {
    yield* dryRuns.backtest({ ...rest, ...query });
  } finally {
    await checker.close();
  }
}

/** Runs a backtest to its end. */
export async function backtest(
  replica: Pick<Replica, "logs" | "database">,
  query: Partial<BacktestQuery> = {},
): Promise<{ readonly report: Report; readonly changes: readonly Change[] }> {
  const changes: Change[] = [];
  let report: Report | undefined;
  for await (const event of runBacktest(replica, { listsChanges: true, ...query })) {
    if (report !== undefined) throw new Error("the report was not the last message");
    if (event.kind === "change") changes.push(event.change);
    if (event.kind === "report") report = event.report;
  }
  if (report === undefined) throw new Error("no report");
  return { report, changes };
}
