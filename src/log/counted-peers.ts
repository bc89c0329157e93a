import { Counter, type Registry } from "prom-client";
import type { DecisionPeers } from "./peers.ts";

/** Peers whose answers are counted: many that are lost mean workers that die or hang. */
export function countedPeers(peers: DecisionPeers, metrics: Registry): DecisionPeers {
  const actions = new Counter({
    name: "acp_handed_over_total",
    help: "Actions that another worker was asked to decide, by whether it answered or was lost.",
    labelNames: ["outcome"],
    registers: [metrics],
  });
  const answered = actions.labels({ outcome: "answered" });
  const lost = actions.labels({ outcome: "lost" });
  // Shown from the start: a rate needs a value before the first loss.
  for (const outcome of [answered, lost]) outcome.inc(0);
  return {
    tell: (workspaceId, batch) => peers.tell(workspaceId, batch),
    decide(workspaceId, action) {
      const there = peers.decide(workspaceId, action);
      there?.then(
        (sealed) => (sealed === undefined ? lost : answered).inc(),
        // A refusal is an answer too, and the caller's to hear.
        () => answered.inc(),
      );
      return there;
    },
  };
}
