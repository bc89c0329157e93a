import { createHmac } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "pg";
import { Semaphore } from "../async/semaphore.ts";
import { SharedPot } from "../async/shared-pot.ts";
import { overShare } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { Encryptor } from "../store/encryptor.ts";
import type { StoreLog } from "../store/migrate.ts";
import { type ActiveRedactionWebhook, readActiveRedactionWebhooks } from "../store/sql/redaction.ts";
import { type KindCounts, totalCount } from "../text/personal-kinds.ts";
import { type TracePlace, traceHeaderOf } from "../tracing/trace-context.ts";
import type { Targets } from "../webhook/target.ts";
import { LEAKAGE_EVENT, secretPlace, zonelessTime } from "./leakage-webhooks.ts";

/** Leakage in one response of a model, without the values. */
export interface Leakage {
  readonly workspaceId: string;
  /** Key of the request. */
  readonly keyId: string;
  /** Agent that the key is bound to. */
  readonly agentId: string | null;
  readonly counts: KindCounts;
  /** Path below `/v1`. */
  readonly path: string;
  readonly model: string | null;
  /** Place of the request in its trace; undefined for a request without one. */
  readonly trace: TracePlace | undefined;
}

/** Notice of leakage for webhooks. */
export interface LeakageNotice {
  readonly workspaceId: string;
  /** Number of personal values in the response. */
  readonly leakedCount: number;
  /** Time of detection, epoch milliseconds. */
  readonly atMs: number;
  /** Place in the trace of the request that the response is for; undefined for one without. */
  readonly trace: TracePlace | undefined;
}

/** Posts notices, once to each webhook, without waiting for responses. */
export interface LeakageNotices {
  /** Posts to every active webhook of the workspace. Returns at once; failures are logged and lost. MUST NOT throw. */
  send(notice: LeakageNotice): void;
  /** Waits at most `graceMs` milliseconds for requests in flight, then aborts the others. */
  close(graceMs: number): Promise<void>;
}

/** Parts and settings of the notices. */
export interface LeakageNoticesOptions {
  readonly pool: Pool;
  readonly targets: Pick<Targets, "post">;
  readonly encryptor: Encryptor;
  readonly log: StoreLog;
  /** Milliseconds for one attempt. Default `ATTEMPT_MS`. */
  readonly attemptMs?: number;
  /** Notices in flight that workspaces share. Default 20,000. */
  readonly maxPending?: number;
}

/** Time limit of the single attempt in milliseconds: resolving, connecting and the response. */
export const ATTEMPT_MS = 10_000;
/** Maximum requests in flight to one webhook, so that an unavailable receiver does not delay others. */
const MAX_REQUESTS = 16;
/** Maximum waiting requests to one webhook; further requests are dropped, which bounds the memory. */
const MAX_WAITING = 1_000;
/** Notices in flight to all webhooks, of which one workspace alone may have half. */
const MAX_PENDING = 20_000;
const USER_AGENT = "Service-Redact/4.0";

function noticeBody({ workspaceId, leakedCount, atMs }: LeakageNotice): string {
  return JSON.stringify({
    event: LEAKAGE_EVENT,
    workspace_id: workspaceId,
    leaked_count: leakedCount,
    timestamp: zonelessTime(atMs),
  });
}

function noticeHeaders(body: string, secret: string | undefined): Record<string, string> {
  const headers = { "Content-Type": "application/json", "User-Agent": USER_AGENT };
  if (secret === undefined) return headers;
  return { ...headers, "X-Service-Signature": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}` };
}

/** Creates the notices. */
export function createLeakageNotices(options: LeakageNoticesOptions): LeakageNotices {
  const { pool, targets, encryptor, log, attemptMs = ATTEMPT_MS } = options;
  const requests = new Semaphore({
    permits: Number.POSITIVE_INFINITY,
    maxPerKey: MAX_REQUESTS,
    maxWaiting: MAX_WAITING,
  });
  const closing = new AbortController();
  const pending = new Set<Promise<void>>();
  const places = new SharedPot({
    name: "leakage_notices",
    size: options.maxPending ?? MAX_PENDING,
    unit: "notices of leakage",
    advice: "nothing: the notice is lost",
    retryAfterSeconds: 1,
    refuse: overShare,
  });

  const post = async (
    { workspaceId, trace }: LeakageNotice,
    webhook: ActiveRedactionWebhook,
    body: string,
  ): Promise<void> => {
    const { webhookId, url, sealedSecret } = webhook;
    const secret =
      sealedSecret === null ? undefined : encryptor.decrypt(workspaceId, secretPlace(webhookId), sealedSecret);
    const headers = { ...noticeHeaders(body, secret), ...traceHeaderOf(trace) };
    const { signal } = closing;
    const send = () => targets.post({ url, headers, body, timeoutMs: attemptMs, signal });
    const reply = await requests.run(send, { key: webhookId, signal });
    if (reply?.kind === "answer") return;
    const reason = reply?.error ?? "too many notices are waiting for the receiver";
    log.warn({ workspace_id: workspaceId, webhook_id: webhookId, reason }, "notice was lost");
  };

  const sendAll = async (notice: LeakageNotice): Promise<void> => {
    const { workspaceId } = notice;
    const values = [workspaceId];
    const { rows } = await pool.query<ActiveRedactionWebhook>({ ...readActiveRedactionWebhooks, values });
    const body = noticeBody(notice);
    const posts = await Promise.allSettled(rows.map((row) => post(notice, row, body)));
    for (const each of posts) if (each.status === "rejected") throw each.reason;
  };

  return {
    send(notice) {
      const { workspaceId } = notice;
      const place = closing.signal.aborted ? undefined : places.takeIfRoom({ workspaceId });
      if (place === undefined) {
        log.warn({ workspace_id: workspaceId }, "too many notices are waiting; one was lost");
        return;
      }
      const sending = sendAll(notice)
        .catch((error: Error) => log.warn({ workspace_id: workspaceId, reason: error.message }, "notice was lost"))
        .finally(() => {
          place.release();
          pending.delete(sending);
        });
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

/**
 * Seals a leak in the workspace's log. Resolves once the entry is durable, with the function that sends the notices. This
 * function MUST be called after the response has ended. Rejects with STORE_UNAVAILABLE.
 */
export async function sealLeakage(
  logs: Pick<WorkspaceLogs, "of">,
  notices: Pick<LeakageNotices, "send">,
  leakage: Leakage,
): Promise<() => void> {
  const { workspaceId, keyId, agentId, counts, path, model, trace } = leakage;
  const leakedCount = totalCount(counts);
  const log = await logs.of(workspaceId);
  const atMs = await log.change(keyId, async ({ seal, nowMs }) => {
    const kinds = Object.fromEntries(counts);
    seal({ type: "leakage_detected", agent_id: agentId, leaked_count: leakedCount, kinds, path, model });
    return nowMs;
  });
  return () => notices.send({ workspaceId, leakedCount, atMs, trace });
}
