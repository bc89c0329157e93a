import { createHmac } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "pg";
import type { StoreLog } from "../store/migrate.ts";
import { type ActiveRedactionWebhook, readActiveRedactionWebhooks } from "../store/sql/read-redaction.ts";
import { createFairGate, type FairGate } from "../webhook/fair-gate.ts";
import type { TargetAnswer } from "../webhook/pinned-post.ts";
import type { TargetRequest, Targets } from "../webhook/target.ts";
import type { Sealer } from "./sealer.ts";
import { zonelessTime } from "./time.ts";
import { LEAKAGE_EVENT } from "./webhook.ts";
import { secretPlace } from "./webhooks.ts";

/** One detection of leakage, as receivers hear of it. */
export interface LeakageNotice {
  readonly workspaceId: string;
  /** Personal values that the answer held. */
  readonly leakedCount: number;
  /** When they were detected, epoch milliseconds. */
  readonly atMs: number;
}

/** Tells receivers of leakage: once each, without waiting for any of them. */
export interface LeakageNotices {
  /** Sends a notice to every active webhook of its workspace. Returns at once; whatever fails is lost. MUST NOT throw. */
  send(notice: LeakageNotice): void;
  /** Waits up to `graceMs` milliseconds for requests under way, and ends the rest. */
  close(graceMs: number): Promise<void>;
}

/** What notices are sent with. */
export interface LeakageNoticesOptions {
  readonly pool: Pool;
  readonly targets: Pick<Targets, "post">;
  readonly sealer: Sealer;
  readonly log: StoreLog;
  /** Milliseconds for one attempt. Default `ATTEMPT_MS`. */
  readonly attemptMs?: number;
}

/** Milliseconds for the one attempt: resolving, connecting and the answer. */
export const ATTEMPT_MS = 10_000;
/** Requests to one webhook under way at once, so that a receiver that is down delays no other. */
const MAX_REQUESTS = 16;
/** Requests to one webhook that wait or are under way; past it they are lost: a dead receiver does not fill the memory. */
const MAX_WAITING = 1_000;
/** Notices that are being sent, to however many webhooks. */
const MAX_PENDING = 10_000;
const USER_AGENT = "Service-Redact/4.0";

interface Lane {
  /** Half of its places go to one key, and there is but one. */
  readonly gate: FairGate;
  waiting: number;
}

/** The body of a request, exactly. */
export function noticeBody({ workspaceId, leakedCount, atMs }: LeakageNotice): string {
  return JSON.stringify({
    event: LEAKAGE_EVENT,
    workspace_id: workspaceId,
    leaked_count: leakedCount,
    timestamp: zonelessTime(atMs),
  });
}

/** The headers of a request, signed if there is a secret. */
export function noticeHeaders(body: string, secret: string | undefined): Record<string, string> {
  const headers = { "Content-Type": "application/json", "User-Agent": USER_AGENT };
  if (secret === undefined) return headers;
  return { ...headers, "X-Service-Signature": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}` };
}

/** Creates the notices. */
export function createLeakageNotices(options: LeakageNoticesOptions): LeakageNotices {
  const { pool, targets, sealer, log, attemptMs = ATTEMPT_MS } = options;
  const lanes = new Map<string, Lane>();
  const closing = new AbortController();
  const pending = new Set<Promise<void>>();

  /** Waits for its turn among the requests of its webhook; undefined when there are too many, or it is closing. */
  const inLane = async (webhookId: string, request: TargetRequest): Promise<TargetAnswer | undefined> => {
    const lane = lanes.get(webhookId) ?? { gate: createFairGate(MAX_REQUESTS * 2), waiting: 0 };
    if (lane.waiting >= MAX_WAITING) return undefined;
    lanes.set(webhookId, lane);
    lane.waiting += 1;
    try {
      return await lane.gate.run("", closing.signal, () => targets.post(request));
    } finally {
      lane.waiting -= 1;
      if (lane.waiting === 0) lanes.delete(webhookId);
    }
  };

  const post = async (workspaceId: string, webhook: ActiveRedactionWebhook, body: string): Promise<void> => {
    const { webhookId, url, sealedSecret } = webhook;
    const secret = sealedSecret === null ? undefined : sealer.open(workspaceId, secretPlace(webhookId), sealedSecret);
    const headers = noticeHeaders(body, secret);
    const answer = await inLane(webhookId, { url, headers, body, timeoutMs: attemptMs, signal: closing.signal });
    if (answer?.kind === "answer") return;
    const reason = answer?.error ?? "too many notices are waiting for the receiver";
    log.warn({ workspace_id: workspaceId, webhook_id: webhookId, reason }, "notice was lost");
  };

  const sendAll = async (notice: LeakageNotice): Promise<void> => {
    const { workspaceId } = notice;
    const values = [workspaceId];
    const { rows } = await pool.query<ActiveRedactionWebhook>({ ...readActiveRedactionWebhooks, values });
    const body = noticeBody(notice);
    const posts = await Promise.allSettled(rows.map((row) => post(workspaceId, row, body)));
    for (const each of posts) if (each.status === "rejected") throw each.reason;
  };

  return {
    send(notice) {
      const { workspaceId } = notice;
      if (closing.signal.aborted || pending.size >= MAX_PENDING) {
        log.warn({ workspace_id: workspaceId }, "too many notices are waiting; one was lost");
        return;
      }
      const sending = sendAll(notice)
        .catch((error: Error) => log.warn({ workspace_id: workspaceId, reason: error.message }, "notice was lost"))
        .finally(() => pending.delete(sending));
      pending.add(sending);
    },
    async close(graceMs) {
      const grace = delay(graceMs, undefined, { ref: false });
      await Promise.race([Promise.allSettled([...pending]), grace]);
      closing.abort();
      await Promise.allSettled([...pending]);
    },
  };
}
