import type { ReactNode } from "react";
import { Decision } from "../../../gen/agentcontrol/v1/resources_pb.js";

/** Meaning of a colour. */
export type Tone = "good" | "bad" | "wait" | "plain";

/** A word in a coloured frame. The colour repeats the word, so it is never the only sign. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ReactNode }) {
  return <span className={`badge is-${tone}`}>{children}</span>;
}

const DECISIONS: Readonly<Record<number, readonly [Tone, string]>> = {
  [Decision.ALLOW]: ["good", "allow"],
  [Decision.BLOCK]: ["bad", "block"],
  [Decision.ESCALATE]: ["wait", "escalate"],
};

/** A decision. */
export function DecisionBadge({ decision }: { readonly decision: Decision }) {
  const [tone, word] = DECISIONS[decision] ?? ["plain", "unknown"];
  return <Badge tone={tone}>{word}</Badge>;
}
