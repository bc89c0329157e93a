import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { LeakageNotices } from "./leakage-notice.ts";
import type { KindCounts } from "./text/types.ts";

/** What a model leaked in one answer, without the values. */
export interface Leakage {
  readonly workspaceId: string;
  /** The key whose request was answered. */
  readonly keyId: string;
  /** The agent that the key is bound to; null for none. */
  readonly agentId: string | null;
  readonly counts: KindCounts;
  /** The path below `/v1`. */
  readonly path: string;
  readonly model: string | null;
}

/** How many values were found, of all kinds. */
export function totalOf(counts: KindCounts): number {
  let total = 0;
  for (const count of counts.values()) total += count;
  return total;
}

/**
 * Seals a leak in the workspace's log. Resolves when it is durable, with the function that tells the webhooks of it; that
 * MUST be called after the answer has ended. Rejects with STORE_UNAVAILABLE.
 */
export async function sealLeakage(
  logs: Pick<WorkspaceLogs, "of">,
  notices: Pick<LeakageNotices, "send">,
  leakage: Leakage,
): Promise<() => void> {
  const { workspaceId, keyId, agentId, counts, path, model } = leakage;
  const leakedCount = totalOf(counts);
  const log = await logs.of(workspaceId);
  const atMs = await log.change(keyId, async ({ seal, nowMs }) => {
    const kinds = Object.fromEntries(counts);
    seal({ type: "leakage_detected", agent_id: agentId, leaked_count: leakedCount, kinds, path, model });
    return nowMs;
  });
  return () => notices.send({ workspaceId, leakedCount, atMs });
}
