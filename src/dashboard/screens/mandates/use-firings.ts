import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { useMemo, useState } from "react";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";

const DAYS_MS = 7 * 86_400_000;
/** Mandates that a summary lists at most. */
const MAX_FIRED = 500;
const MAX_OBSERVED = 100;

/** Decisions in which a mandate fired, or would have while it observed. */
export type Firings = bigint;

/** Reads how often each mandate fired within 7 days. */
export function useFirings() {
  const [since] = useState(() => timestampFromMs(Date.now() - DAYS_MS));
  const { data } = useQuery(EnforcementService.method.summarizeDecisions, { since, bucketSeconds: DAYS_MS / 1_000 });
  return useMemo(() => {
    if (data === undefined) return undefined;
    const counts = new Map<string, Firings>();
    const add = (id: string, count: bigint) => counts.set(id, (counts.get(id) ?? 0n) + count);
    for (const { mandateId, allow, block, escalate } of data.firings) add(mandateId, allow + block + escalate);
    for (const { mandateId, wouldBlock, wouldEscalate } of data.observed) add(mandateId, wouldBlock + wouldEscalate);
    const { allow = 0n, block = 0n, escalate = 0n } = data.totals ?? {};
    const isComplete = data.firings.length < MAX_FIRED && data.observed.length < MAX_OBSERVED;
    return {
      of: (id: string) => counts.get(id) ?? (isComplete ? 0n : undefined),
      from: data.reasonsFrom < allow + block + escalate ? data.reasonsFrom : undefined,
    };
  }, [data]);
}
