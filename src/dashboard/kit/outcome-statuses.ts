import { OutcomeStatus } from "../../../gen/agentcontrol/v1/resources_pb.js";

/** Statuses of an allowed action after its decision, by their words. */
export const OUTCOME_STATUSES: ReadonlyMap<string, OutcomeStatus> = new Map([
  ["pending", OutcomeStatus.PENDING],
  ["succeeded", OutcomeStatus.SUCCEEDED],
  ["failed", OutcomeStatus.FAILED],
  ["cancelled", OutcomeStatus.CANCELLED],
  ["unknown", OutcomeStatus.UNKNOWN],
]);

const WORDS: ReadonlyMap<OutcomeStatus, string> = new Map(
  [...OUTCOME_STATUSES].map(([word, status]) => [status, word]),
);

/** Returns the word of a status. */
export const outcomeWord = (status: OutcomeStatus): string => WORDS.get(status) ?? "unknown";
