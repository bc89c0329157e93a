import { ErrorReason, invalidField, notFound } from "../../errors.ts";
import type { ListDraft } from "../../registry/lists.ts";
import { definitionFrom } from "../../registry/mandates.ts";
import { type Database, stored } from "../../store/database.ts";
import { BacktestEntity, type BacktestRow } from "../../store/entities.ts";
import { createId } from "../../store/ids.ts";
import { digestOf, type JsonObject } from "../../tree/canonical.ts";
import type { Draft } from "../drafts.ts";

/** Time for which a backtest is kept: a month, as long as the longest window that the dashboard offers. */
const KEPT_MS = 2_592_000_000;
/** Maximum number of backtests that a workspace keeps; the oldest goes first. */
const MAX_KEPT = 100;
/** Maximum bytes of a question that is kept, as JSON. */
const MAX_QUESTION_BYTES = 262_144;

/** Suppositions of a backtest: drafts, mandates to leave out, lists. */
export interface Supposed {
  readonly drafts: readonly Draft[];
  readonly archives: readonly string[];
  readonly lists: readonly ListDraft[];
}

/** A backtest to keep. */
export interface BacktestToKeep {
  readonly workspaceId: string;
  readonly createdBy: string;
  /** Drafts, archives and lists in the form of the interface. */
  readonly question: JsonObject;
  readonly questionDigest: string;
  readonly sinceMs: number | undefined;
  /** Epoch milliseconds, exclusive; undefined for a window without a decision. */
  readonly untilMs: number | undefined;
  readonly agentId: string | undefined;
  readonly onlyDrafts: boolean;
  /** Numbers of the report in the form of the interface. */
  readonly report: JsonObject;
}

/** Returns the digest of what a backtest supposes: equal for drafts that would be published as the same text. */
export function questionDigest({ drafts, archives, lists }: Supposed): string {
  return digestOf({
    drafts: drafts.map(({ mandate, replacesMandateId }) => ({
      definition: definitionFrom(mandate),
      replaces: replacesMandateId ?? null,
    })),
    archives: [...archives].sort(),
    lists: lists.map(({ name, kind, values }) => ({ name, kind, values: [...values] })),
  });
}

/** Throws INVALID_FIELD for a question that is too large to be kept. */
export function assertKeepable(question: JsonObject): void {
  const bytes = Buffer.byteLength(JSON.stringify(question));
  if (bytes <= MAX_QUESTION_BYTES) return;
  throw invalidField(
    "keep",
    `keeps at most ${MAX_QUESTION_BYTES} bytes of drafts and lists, and these have ${bytes}; run it without \`keep\``,
  );
}

/** Backtests with their questions and numbers, kept for others to read. */
export class KeptBacktests {
  readonly #database: Pick<Database, "orm">;

  constructor(database: Pick<Database, "orm">) {
    this.#database = database;
  }

  /** Keeps a backtest in place of what is expired and of the oldest beyond the workspace's most. */
  async keep({ workspaceId, ...rest }: BacktestToKeep, nowMs: number): Promise<string> {
    const backtestId = createId("bkt");
    const { sinceMs, untilMs, agentId, question, report, ...same } = rest;
    const row: BacktestRow = {
      workspaceId,
      backtestId,
      ...same,
      question: JSON.stringify(question),
      report: JSON.stringify(report),
      sinceMs: sinceMs ?? null,
      untilMs: untilMs ?? null,
      agentId: agentId ?? null,
      createdAtMs: nowMs,
      expiresAtMs: nowMs + KEPT_MS,
    };
    await stored(
      this.#database.orm.em.fork().transactional(async (transaction) => {
        await transaction.nativeDelete(BacktestEntity, { workspaceId, expiresAtMs: { $lte: nowMs } });
        await transaction.insert(BacktestEntity, row);
        const kept = await transaction.find(
          BacktestEntity,
          { workspaceId },
          { fields: ["backtestId"], orderBy: { createdAtMs: "desc", backtestId: "desc" } },
        );
        const old = kept.slice(MAX_KEPT).map((each) => each.backtestId);
        await transaction.nativeDelete(BacktestEntity, { workspaceId, backtestId: { $in: old } });
      }),
    );
    return backtestId;
  }

  /** Reads a backtest. Throws BACKTEST_NOT_FOUND. */
  async get(workspaceId: string, backtestId: string, nowMs: number): Promise<BacktestRow> {
    const where = { workspaceId, backtestId, expiresAtMs: { $gt: nowMs } };
    const row = await stored(this.#database.orm.em.fork().findOne(BacktestEntity, where));
    if (row === null) throw notFound(ErrorReason.BACKTEST_NOT_FOUND, "backtest", { backtest_id: backtestId });
    return row;
  }

  /** Finds the last backtest of all agents with a question; undefined if none is kept. */
  async last(workspaceId: string, digest: string, nowMs: number): Promise<BacktestRow | undefined> {
    const where = { workspaceId, questionDigest: digest, agentId: null, expiresAtMs: { $gt: nowMs } };
    const options = { orderBy: { createdAtMs: "desc", backtestId: "desc" }, limit: 1 } as const;
    const [row] = await stored(this.#database.orm.em.fork().find(BacktestEntity, where, options));
    return row;
  }
}
