import { OutcomeStatus } from "../../../gen/agentcontrol/v1/resources_pb.js";
import { Badge, type Tone } from "./badge.tsx";
import { outcomeWord } from "./outcome-statuses.ts";

const TONES: ReadonlyMap<OutcomeStatus, Tone> = new Map([
  [OutcomeStatus.SUCCEEDED, "good"],
  [OutcomeStatus.FAILED, "bad"],
  [OutcomeStatus.UNKNOWN, "wait"],
]);

/** Status of an allowed action after its decision. */
export function OutcomeBadge({ status }: { readonly status: OutcomeStatus }) {
  return <Badge tone={TONES.get(status) ?? "plain"}>{outcomeWord(status)}</Badge>;
}
