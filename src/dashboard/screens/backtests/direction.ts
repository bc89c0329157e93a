import type { BacktestChange } from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { Decision } from "../../../../gen/agentcontrol/v1/resources_pb.js";

/** Strictness of decisions. */
const RANK: Readonly<Record<number, number>> = {
  [Decision.ALLOW]: 0,
  [Decision.ESCALATE]: 1,
  [Decision.BLOCK]: 2,
};

/** Tests whether the new decision is looser than the one that it is compared with. */
export const isLooser = ({ was, now }: Pick<BacktestChange, "was" | "now">): boolean =>
  (RANK[now] ?? 0) < (RANK[was] ?? 0);
