import type { JsonRecord, JsonValue } from "../../verify/json.ts";

/** Part of a call in the goal of an attack: it does what the attacker wants, or prepares it. */
export type StepRole = "effective" | "stage";

/** The roles, in the order in which reports list them. */
export const STEP_ROLES: readonly StepRole[] = ["effective", "stage"];

/** One recorded call of a tool. */
export interface RecordedCall {
  readonly tool: string;
  readonly arguments: JsonRecord;
  /** Default: the name of the tool. */
  readonly action_type?: string;
  /** Content of the action. */
  readonly content?: string;
  /** Result of the call: text or JSON. Absent if nothing was recorded. */
  readonly result?: JsonValue;
  /** True if the tool returned an error. */
  readonly is_error?: boolean;
  /** True for a call made together with the call before it, when that one's result was not known yet. */
  readonly parallel?: boolean;
  /** Time of the call, RFC 3339. */
  readonly at?: string;
}

/** Something that the agent was asked while the episode went on. */
export interface RecordedPrompt {
  readonly prompt: string;
  readonly at?: string;
}

/** One entry of an episode, in the order in which they were recorded. */
export type RecordedStep = RecordedCall | RecordedPrompt;

/** The role of a step, by its index in `steps`. */
export interface StepLabel {
  readonly step: number;
  readonly role: StepRole;
}

/** A recorded session of one agent, in the form in which it is replayed. */
export interface Episode {
  /** Unique among the episodes of a replay. */
  readonly id: string;
  /** Prompt before the first call. */
  readonly prompt?: string;
  /** The intent contract of the session, as it is created. */
  readonly contract?: JsonRecord;
  readonly steps: readonly RecordedStep[];
  readonly labels?: readonly StepLabel[];
}

/** Facts of a run of a benchmark. */
export interface BenchmarkRun {
  readonly suite: string;
  readonly pipeline: string;
  readonly userTask: string;
  /** Task of the attacker; undefined for a run without attack. */
  readonly injectionTask: string | undefined;
  readonly attack: string | undefined;
  /** True if the user's task was done. */
  readonly utility: boolean;
  /** True if the attacker's task was done. Undefined without attack. */
  readonly security: boolean | undefined;
}

/** An episode with where it was read, and the facts of its run if it is one of a benchmark. */
export interface Recording {
  readonly episode: Episode;
  readonly file: string;
  readonly run?: BenchmarkRun;
}

/** Tool of a call without a name, or with a name that no tool can have, such as one that a model invented. */
export const NAMELESS_TOOL = "nameless-tool";

/** Maximum characters of an episode's id. */
export const MAX_ID_LENGTH = 200;

/** Tests whether a step is a call of a tool. */
export const isCall = (step: RecordedStep): step is RecordedCall => "tool" in step;
