import type { Work } from "../../async/work.ts";
import { decide } from "../../decision/decide.ts";
import { invalidField } from "../../errors.ts";
import { refsOf } from "../../log/batch.ts";
import type { LongAnswers, LongCheck } from "../../policy/checks.ts";
import { foldDecision, isCounted } from "../../state/fold.ts";
import type { Action, Outcome } from "../../state/types.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import { createId } from "../../store/ids.ts";
import type { Pace } from "../pace.ts";
import { errorBelow } from "../place-error.ts";
import type { DecidedCall, Episode, EpisodeCall, EpisodePrompt, Escalated } from "./episode.ts";
import { completeCounters, createOwnWorkspace, putContract, REPLAYED_AGENT } from "./own-workspace.ts";
import { SessionMemory } from "./session-memory.ts";

/** Time of the first step of an episode that says none: noon of a Monday, UTC. */
const START_MS = Date.UTC(2026, 0, 5, 12);
/** Milliseconds between a step and the next one without a time. */
const STEP_MS = 1000;

/** Options of a replay. */
export interface RunOptions {
  /** Agent whose registration the agents of episodes have; undefined for one without departments. */
  readonly agentId: string | undefined;
  readonly escalated: Escalated;
  readonly pace: Pace;
  /** Makes checks that take too long for a turn of the event loop. */
  readonly makeLongChecks: (missing: readonly LongCheck[]) => Promise<LongAnswers>;
}

/** A call that ran and whose result the agent does not know yet. */
interface Unread extends Pick<Outcome, "toolName" | "tool"> {
  readonly call: EpisodeCall;
}

/** Replay of one episode on a workspace of its own. */
export class EpisodeRun {
  readonly #state: WorkspaceState;
  readonly #episode: Episode;
  readonly #options: RunOptions;
  readonly #agentId: string;
  /** Place of the episode in the request, for errors. */
  readonly #path: string;
  readonly #memory: SessionMemory;
  #nowMs: number;
  #unread: Unread[] = [];

  /** Throws AGENT_NOT_FOUND, PLAN_INVALID and INVALID_FIELD. */
  constructor(own: WorkspaceState, episode: Episode, path: string, options: RunOptions) {
    const [first] = episode.steps;
    this.#nowMs = (first?.atMs ?? START_MS) - STEP_MS;
    this.#episode = episode;
    this.#options = options;
    this.#path = path;
    this.#agentId = options.agentId ?? REPLAYED_AGENT;
    this.#state = createOwnWorkspace(own, options.agentId, this.#nowMs);
    this.#memory = new SessionMemory(this.#state, this.#agentId);
    if (episode.contract !== undefined) putContract(this.#state, this.#agentId, episode.contract, `${path}.contract`);
  }

  /** Replays the steps in their order. Yields the result of each call. */
  async *run(): AsyncGenerator<DecidedCall> {
    const { prompt, steps } = this.#episode;
    if (prompt !== undefined && prompt !== "") await this.#within(this.#memory.prompt(prompt));
    for (const step of steps) {
      this.#moveClock(step);
      if (step.kind === "prompt" || !step.isParallel) await this.#read();
      if (step.kind === "prompt") await this.#within(this.#memory.prompt(step.text, step.isCut));
      else yield await this.#call(step);
      await this.#options.pace.turn();
    }
  }

  #moveClock({ atMs = this.#nowMs + STEP_MS, index }: EpisodeCall | EpisodePrompt): void {
    if (atMs < this.#nowMs)
      throw invalidField(`${this.#path}.steps[${index}].at`, "must not lie before an earlier step");
    this.#nowMs = atMs;
    this.#state.lastAtMs = atMs;
  }

  /** Observes the results of the calls that ran. */
  async #read(): Promise<void> {
    for (const { call, toolName, tool } of this.#unread.splice(0)) {
      await this.#within(this.#memory.result(call, toolName, tool));
    }
  }

  async #within(work: Work<void>): Promise<void> {
    const { pace } = this.#options;
    while (work.next().done !== true) await pace.turn();
  }

  async #call(call: EpisodeCall): Promise<DecidedCall> {
    const { index, role } = call;
    const { escalated } = this.#options;
    const outcome = await this.#decide(call.action, index);
    let final = outcome;
    if (outcome.decision === "escalate" && outcome.escalationId !== undefined) {
      const isApproved = escalated === "run" && role === undefined;
      const { escalationId } = outcome;
      const expiresAtMs = this.#nowMs + this.#state.settings.approval_ttl_seconds * 1000;
      this.#state.escalations.resolve(escalationId, isApproved ? "approved" : "rejected", expiresAtMs);
      if (isApproved) {
        await this.#within(this.#memory.approval(call.action, outcome.reasons));
        final = await this.#decide({ ...call.action, decisionId: createId("dec"), escalationId }, index);
      }
    }
    const ran = final.decision === "allow";
    const { toolName, tool } = final;
    if (ran && call.result !== undefined) this.#unread.push({ call, toolName, tool });
    return { index, outcome, ran };
  }

  /** Decides an action and folds the decision. */
  async #decide(action: Action, index: number): Promise<Outcome> {
    const state = this.#state;
    const nowMs = this.#nowMs;
    completeCounters(state, nowMs);
    let outcome = this.#decideOnce(action, index);
    const missing = outcome.policy?.missingChecks ?? [];
    if (missing.length > 0)
      outcome = this.#decideOnce({ ...action, longAnswers: await this.#options.makeLongChecks(missing) }, index);
    if (isCounted(action, outcome)) {
      const { principalId, decision } = outcome;
      const { agentId, normalisedType: actionType, decisionId } = action;
      const place = { seq: state.seq, atMs: nowMs };
      foldDecision(state, { ...place, agentId, principalId, actionType, decisionId, decision, refs: refsOf(outcome) });
    }
    state.seq += 1;
    return outcome;
  }

  #decideOnce(action: Action, index: number): Outcome {
    try {
      return decide(this.#state, action, this.#nowMs, { undo: [] });
    } catch (error) {
      throw errorBelow(`${this.#path}.steps[${index}]`, error);
    }
  }
}
