import { create, fromJson, fromJsonString, type JsonObject, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { timestampFromMs, ValueSchema } from "@bufbuild/protobuf/wkt";
import {
  BacktestReportSchema,
  type BacktestResponseSchema,
  type FindBacktestRequest,
  FindBacktestRequestSchema,
  type KeptBacktestSchema,
} from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import type { BacktestEvent } from "../dryrun/backtest/backtest.ts";
import type { AgentReport, Report } from "../dryrun/backtest/report.ts";
import type { BacktestRow } from "../store/entities.ts";
import { decisionMapping } from "./enum-mapping.ts";
import { optionalTimestamp } from "./field-values.ts";
import { reasonMessageFrom } from "./records.ts";

/** Converts a message of a backtest. */
export function backtestFrom(event: BacktestEvent): MessageInitShape<typeof BacktestResponseSchema> {
  switch (event.kind) {
    case "progress":
      return { progress: { replayed: BigInt(event.replayed), total: BigInt(event.total) } };
    case "change": {
      const { was, now, reasons, atMs, fired, ...change } = event.change;
      const decisions = { was: decisionMapping.toProto[was], now: decisionMapping.toProto[now] };
      const value = fired?.value;
      return {
        change: {
          ...change,
          ...decisions,
          reasons: reasons.map(reasonMessageFrom),
          decidedAt: timestampFromMs(atMs),
          argument: fired?.path,
          ...(value !== undefined && { value: fromJson(ValueSchema, value) }),
        },
      };
    }
    case "report":
      return { report: reportFrom(event.report) };
  }
}

/** Converts a report. */
export function reportFrom({ sinceMs, untilMs, agents, days, byPeople, ...report }: Report) {
  return {
    ...(sinceMs === undefined ? {} : { since: timestampFromMs(sinceMs) }),
    ...(untilMs === undefined ? {} : { until: timestampFromMs(untilMs) }),
    ...tallyFrom(report),
    fromSeq: BigInt(report.fromSeq),
    toSeq: BigInt(report.toSeq),
    unchanged: BigInt(report.unchanged),
    agents: agents.map(({ agentId, name, decisionIds, ...tally }) => ({
      agentId,
      name,
      decisionIds: [...decisionIds],
      ...tallyFrom(tally),
    })),
    days: days.map(({ atMs, replayed, stricterBy, looserBy }) => ({
      at: timestampFromMs(atMs),
      replayed: BigInt(replayed),
      ...numbersFrom({ stricterBy, looserBy }),
    })),
    byPeople: peopleFrom(byPeople),
    semanticGuardsReplayed: false,
    semanticDecisions: BigInt(report.semanticDecisions),
    provenanceNotReplayed: BigInt(report.provenanceNotReplayed),
    deterministicShare: report.deterministicShare,
    engineVersion: report.engineVersion,
    policyDigest: report.policyDigest,
  };
}

function peopleFrom({ counts, decisionIds }: Report["byPeople"]) {
  return {
    approved: BigInt(counts.approved),
    rejected: BigInt(counts.rejected),
    pending: BigInt(counts.pending),
    approvedDecisionIds: [...decisionIds.approved],
    rejectedDecisionIds: [...decisionIds.rejected],
    pendingDecisionIds: [...decisionIds.pending],
  };
}

function tallyFrom({
  replayed,
  stricter,
  stricterBy,
  looser,
  looserBy,
}: Omit<AgentReport, "agentId" | "name" | "decisionIds">) {
  return {
    replayed: BigInt(replayed),
    stricter: BigInt(stricter),
    looser: BigInt(looser),
    ...numbersFrom({ stricterBy, looserBy }),
  };
}

function numbersFrom({ stricterBy, looserBy }: Pick<AgentReport, "stricterBy" | "looserBy">) {
  return {
    stricterBy: { block: BigInt(stricterBy.block), escalate: BigInt(stricterBy.escalate) },
    looserBy: { allow: BigInt(looserBy.allow), escalate: BigInt(looserBy.escalate) },
  };
}

/** Writes what a backtest supposes as the JSON that is kept. */
export function questionJson({ drafts, archives, lists }: Pick<FindBacktestRequest, "drafts" | "archives" | "lists">) {
  const question = create(FindBacktestRequestSchema, { drafts, archives, lists });
  return toJson(FindBacktestRequestSchema, question) as JsonObject;
}

/** Writes the numbers of a report as the JSON that is kept, without a row for each agent. */
export function reportJson(report: Report): JsonObject {
  const message = create(BacktestReportSchema, { ...reportFrom(report), agents: [] });
  return toJson(BacktestReportSchema, message) as JsonObject;
}

/** Reads a kept backtest. Members that a later version wrote are left out. */
export function keptBacktestFrom(
  row: BacktestRow,
  createdByName: string | undefined,
): MessageInitShape<typeof KeptBacktestSchema> {
  const { backtestId, onlyDrafts, createdBy, agentId } = row;
  const { drafts, archives, lists } = fromJsonString(FindBacktestRequestSchema, row.question, KNOWN);
  return {
    backtestId,
    drafts,
    archives,
    lists,
    onlyDrafts,
    createdBy,
    createdByName,
    agentId: agentId ?? undefined,
    since: optionalTimestamp(row.sinceMs),
    until: optionalTimestamp(row.untilMs),
    report: { ...fromJsonString(BacktestReportSchema, row.report, KNOWN), backtestId },
    createdAt: timestampFromMs(row.createdAtMs),
    expiresAt: timestampFromMs(row.expiresAtMs),
  };
}

const KNOWN = { ignoreUnknownFields: true };
