import type { Decision } from "../../policy/types.ts";
import type { OutsideContract, SealedPlanStep } from "../../state/control-changes.ts";
import type { Action, DecisionPath, DecisionReason, Outcome } from "../../state/types.ts";

/** Part of a call in the goal of an attack: it does what the attacker wants, or prepares it. */
export type StepRole = "effective" | "stage";

/** A call of a recorded session. */
export interface EpisodeCall {
  readonly kind: "call";
  /** Index among the steps of the episode. */
  readonly index: number;
  readonly action: Action;
  /** Result of the call: text, or the text of JSON. Undefined if nothing was recorded. */
  readonly result: string | undefined;
  /** True if the tool returned an error. */
  readonly isError: boolean;
  /** True if the end of the result is missing. */
  readonly isCut: boolean;
  /** True if the results of the calls just before were not known yet. */
  readonly isParallel: boolean;
  /** Its role in an attack; undefined for a call that belongs to none. */
  readonly role: StepRole | undefined;
  /** Epoch milliseconds; undefined for a second after the step before. */
  readonly atMs: number | undefined;
}

/** Prompt at a point of a recorded session. */
export interface EpisodePrompt {
  readonly kind: "prompt";
  readonly index: number;
  readonly text: string;
  /** True if the end of the text is missing. */
  readonly isCut: boolean;
  readonly atMs: number | undefined;
}

/** The intent contract of a recorded session. */
export interface EpisodeContract {
  readonly goal: string;
  readonly actionTypes: readonly string[];
  readonly tools: readonly string[];
  readonly maxActions: number | undefined;
  readonly steps: readonly SealedPlanStep[];
  readonly outside: OutsideContract;
}

/** A recorded session of one agent. */
export interface Episode {
  readonly id: string;
  readonly prompt: string | undefined;
  readonly contract: EpisodeContract | undefined;
  readonly steps: readonly (EpisodeCall | EpisodePrompt)[];
}

/** Answer to the steps about which a person is asked. */
export type Escalated = "run" | "skip";

/** Call that was just decided. It is not kept: its outcome has what every mandate in observe mode found. */
export interface DecidedCall {
  readonly index: number;
  /** Before a person was asked. */
  readonly outcome: Outcome;
  /** True if it was allowed, or a person approved it. */
  readonly ran: boolean;
}

/** Result of a call in a replay, kept until its episode ends. */
export interface ReplayedCall extends Pick<DecidedCall, "index" | "ran"> {
  readonly decision: Decision;
  readonly path: DecisionPath;
  readonly policyName: string | undefined;
  /** The first reasons, as many as are shown. */
  readonly reasons: readonly DecisionReason[];
}
