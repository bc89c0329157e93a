import { create } from "@bufbuild/protobuf";
import { MandateDraftSchema } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { draftFrom } from "../../src/api/mandate-service.ts";
import type { BacktestQuery, Change } from "../../src/dryrun/backtest/backtest.ts";
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

/** Runs a backtest of the workspace `default` to its end. */
export async function backtest(
  { logs, database }: Pick<Replica, "logs" | "database">,
  query: Partial<BacktestQuery> = {},
): Promise<{ readonly report: Report; readonly changes: readonly Change[] }> {
  const checker = new LongChecker();
  const dryRuns = new DryRuns({ logs, reads: new ReadOnlyDatabase(database.pool), checker });
  const changes: Change[] = [];
  let report: Report | undefined;
  const rest = { drafts: [], archives: [], sinceMs: undefined, untilMs: undefined, agentId: undefined };
  const signal = new AbortController().signal;
  for await (const event of dryRuns.backtest({
    workspaceId: "default",
    ...rest,
    listsChanges: true,
    signal,
    ...query,
  })) {
    if (report !== undefined) throw new Error("the report was not the last message");
    if (event.kind === "change") changes.push(event.change);
    if (event.kind === "report") report = event.report;
  }
  await checker.close();
  if (report === undefined) throw new Error("no report");
  return { report, changes };
}
