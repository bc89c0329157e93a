/**
 * Where a value of a session was seen. `prompt`: in what the agent was asked. `lookup`: in a member of a result that the tool's
 * registration trusts. `session`: made by the agent itself in this session. `untrusted`: anywhere else that the agent read.
 */
export type ObservedSource = "prompt" | "lookup" | "session" | "untrusted";

/** The observed sources in the order of their numbers, which rows store. */
export const OBSERVED_SOURCES: readonly ObservedSource[] = ["prompt", "lookup", "session", "untrusted"];

/** Ways in which the value of an argument is read and compared. */
export const VALUE_KINDS = ["destination", "credential", "host", "resource", "path", "number", "text"] as const;
export type ValueKind = (typeof VALUE_KINDS)[number];

/** One place where a value was seen. */
export interface Sighting {
  readonly source: ObservedSource;
  /** Tool in whose result it was seen; undefined for the prompt. */
  readonly tool: string | undefined;
}

/** Knowledge of a session about values, as rules ask for it. */
export interface SessionKnowledge {
  /** True once the session was told what the agent was asked. */
  readonly hasPrompt: boolean;
  /** True once observed values were left out for want of room: from then on any value may have been seen. */
  readonly isFull: boolean;
  /** Lists where a value was seen, in its compared form; in the order in which it was seen. */
  readonly sightingsOf: (form: string) => readonly Sighting[];
  /** Tests whether a person approved a value, in its compared form, for this kind in this session. */
  readonly isApproved: (kind: ValueKind, form: string) => boolean;
}
