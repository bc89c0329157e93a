import { setTimeout as delay } from "node:timers/promises";
import { Counter, type Registry } from "prom-client";
import { createBackOff } from "../async/back-off.ts";
import { Semaphore } from "../async/semaphore.ts";
import { SharedPot } from "../async/shared-pot.ts";
import { type FollowUpCaller, reportOutcome } from "../decision/report-outcome.ts";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason, overShare } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { SealedDecision } from "../state/types.ts";
import type { StoreLog } from "../store/migrate.ts";
import type { CallEnd } from "./call-end.ts";
import type { McpCaller } from "./caller.ts";

/** Reports that wait, in all workspaces. One that finds no room is dropped: its outcome becomes unknown. */
const REPORTS = 20_000;
/** Reports that are sealed at the same time. */
const PERMITS = 16;
/** Pauses between attempts while the database does not answer or the log has no room. */
const RETRY = { firstMs: 100, maxMs: 5_000 };
const RETRIED: ReadonlySet<ErrorReason> = new Set([ErrorReason.STORE_UNAVAILABLE, ErrorReason.OVERLOADED]);

/** Parts of `OutcomeReports`. */
export interface OutcomeReportsOptions {
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly log: StoreLog;
  readonly metrics: Registry;
  /** Reports that may wait. Default 20,000. */
  readonly size?: number | undefined;
}

/** Party that reports: the gateway, which saw the end of a call itself, or a coding agent through its hook. */
export type ReportSource = Extract<FollowUpCaller["source"], "gateway" | "agent">;

/** Outcome of one call, which is reported once at most. */
export class CallOutcome {
  readonly #decisionIds: readonly string[];
  #report: ((end: CallEnd) => void) | undefined;

  constructor(decisionIds: readonly string[], report: (end: CallEnd) => void) {
    this.#decisionIds = decisionIds;
    this.#report = report;
  }

  /** Gives the decision to a task that the call goes on as, whose end reports it; undefined if it is settled. */
  handOver(): string | undefined {
    const isOpen = this.#report !== undefined;
    this.#report = undefined;
    return isOpen ? this.#decisionIds[0] : undefined;
  }

  /** Reports how the call ended, if that is known and not settled yet. */
  end(end: CallEnd | undefined): void {
    if (end === undefined) return;
    const report = this.#report;
    this.#report = undefined;
    report?.(end);
  }

  /** Leaves the outcome open for good, because the call may have run: it becomes unknown. */
  leaveOpen(): void {
    this.#report = undefined;
  }
}

/**
 * Reports of how calls ended, on their way to the log. Nobody waits for them: a report takes its turn beside the answer to the client,
 * and is tried again while the database does not answer. One that is lost with the process leaves the outcome open.
 */
export class OutcomeReports {
  readonly #options: OutcomeReportsOptions;
  readonly #places: SharedPot;
  readonly #turns = new Semaphore({ permits: PERMITS });
  readonly #waiting = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  readonly #reports: Counter;

  constructor(options: OutcomeReportsOptions) {
    this.#options = options;
    this.#places = new SharedPot({
      name: "outcome_reports",
      size: options.size ?? REPORTS,
      unit: "reports of outcomes",
      advice: "none: the outcome becomes unknown",
      retryAfterSeconds: 1,
      refuse: overShare,
    });
    this.#reports = new Counter({
      name: "acp_outcome_reports_total",
      help: "Reports of the gateway and of hooks of how calls ended, by result.",
      labelNames: ["result"],
      registers: [options.metrics],
    });
  }

  /** Number of reports that are not sealed yet. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Returns the outcome of calls that the gateway makes; undefined if none of the decisions is tracked. */
  outcomeOf(caller: McpCaller, decisions: readonly SealedDecision[]): CallOutcome | undefined {
    const tracked = decisions.filter(({ decision, isTracked }) => decision === "allow" && isTracked);
    if (tracked.length === 0) return undefined;
    const decisionIds = tracked.map(({ decisionId }) => decisionId);
    return new CallOutcome(decisionIds, (end) => {
      for (const decisionId of decisionIds) this.report(caller, decisionId, end, "gateway");
    });
  }

  /** Queues a report, and returns at once. MUST NOT throw. */
  report(caller: McpCaller, decisionId: string, end: CallEnd, source: ReportSource): void {
    const { workspaceId, agentId } = caller;
    const place = this.#closing.signal.aborted ? undefined : this.#places.takeIfRoom({ workspaceId, agentId });
    if (place === undefined) {
      this.#note(caller, decisionId, "dropped", "no report can wait");
      return;
    }
    const sealing: Promise<void> = this.#seal(caller, decisionId, end, source).finally(() => {
      place.release();
      this.#waiting.delete(sealing);
    });
    this.#waiting.add(sealing);
  }

  /** Waits for the reports in the queue, at most for `withinMs` milliseconds, and takes no further ones. */
  async close(withinMs: number): Promise<void> {
    const late = new AbortController();
    await Promise.race([
      this.#settled(),
      delay(withinMs, undefined, { signal: late.signal, ref: false }).catch(() => undefined),
    ]);
    late.abort();
    this.#closing.abort();
  }

  async #settled(): Promise<void> {
    while (this.#waiting.size > 0) await Promise.all(this.#waiting);
  }

  async #seal(caller: McpCaller, decisionId: string, end: CallEnd, source: ReportSource): Promise<void> {
    const { workspaceId: key, keyId, agentId } = caller;
    const { signal } = this.#closing;
    const reporter: FollowUpCaller = { keyId, agentId, source, isOver: () => signal.aborted };
    const { status, error } = end;
    const report = { decisionId, status, amount: undefined, error, resultDigest: undefined };
    const backOff = createBackOff(RETRY);
    for (;;) {
      try {
        const seal = async () => reportOutcome(await this.#options.logs.of(key), report, reporter);
        const sealed = await this.#turns.run(seal, { key, signal });
        return this.#note(caller, decisionId, sealed === undefined ? "dropped" : "sealed", "the service is stopping");
      } catch (thrown) {
        const { reason, message } = controlPlaneErrorFrom(thrown);
        // Somebody else has reported, or nobody did in time: what the log has stands.
        if (!(thrown instanceof ControlPlaneError) || !RETRIED.has(reason))
          return this.#note(caller, decisionId, signal.aborted ? "dropped" : "refused", message);
      }
      const isOver = await delay(backOff.next(), false, { signal }).catch(() => true);
      if (isOver) return this.#note(caller, decisionId, "dropped", "the service is stopping");
    }
  }

  #note({ workspaceId }: McpCaller, decisionId: string, result: "sealed" | "refused" | "dropped", why: string): void {
    this.#reports.inc({ result });
    if (result !== "sealed") this.#options.log.warn({ workspaceId, decisionId, reason: why }, "outcome not reported");
  }
}
