import { SEVERITY } from "../../policy/severity.ts";
import type { Decision } from "../../policy/types.ts";
import type { AgentState } from "../../state/agents.ts";
import type { EscalationStatus } from "../../state/escalations.ts";
import type { Replayed } from "./replay.ts";

/** Version of the rules' semantics: changes when a rule would decide a recorded action differently. */
export const ENGINE_VERSION = "1";

const DAY_MS = 86_400_000;
/** Maximum number of days of a report, the last ones. */
const MAX_DAYS = 400;

/** Maximum number of decisions that a report names behind one of its numbers. */
const MAX_IDS = 20;

/** Result of comparing a decision with the recorded one. */
export type Comparison = "unchanged" | "stricter" | "looser" | "semantic";

/** Numbers of stricter and looser decisions, by the decision that would be made. */
interface Tally {
  replayed: number;
  readonly stricterBy: { block: number; escalate: number };
  readonly looserBy: { allow: number; escalate: number };
}

interface AgentTally extends Tally {
  readonly looserIds: string[];
  readonly stricterIds: string[];
}

/** Backtest result of one agent; the fields of the message `BacktestAgent`. */
export interface AgentReport extends Readonly<Tally> {
  readonly agentId: string;
  readonly name: string;
  readonly stricter: number;
  readonly looser: number;
  readonly decisionIds: readonly string[];
}

/** Numbers of one day. */
export interface DayReport extends Readonly<Tally> {
  /** Its begin in UTC, epoch milliseconds. */
  readonly atMs: number;
}

/** A decision, replayed, with the decision that it is compared with. */
export interface Compared extends Replayed {
  readonly was: Decision;
}

/** Answers of people to stricter decisions: the number of each status, and the first ones in the order of the log. */
interface ByPeople {
  readonly counts: Readonly<Record<EscalationStatus, number>>;
  readonly decisionIds: Readonly<Record<EscalationStatus, readonly string[]>>;
}

/** Stricter decision that a person was asked about. */
export interface AskedDecision {
  readonly decisionId: string;
  /** The escalation whose status counts; undefined for a decision that used an approval. */
  readonly escalationId: string | undefined;
}

/** Report of a backtest; the fields of the message `BacktestReport`. */
export interface Report extends Readonly<Tally> {
  /** Times of the first and the last decision, epoch milliseconds; undefined without one. */
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
  readonly fromSeq: number;
  readonly toSeq: number;
  readonly unchanged: number;
  readonly stricter: number;
  readonly looser: number;
  readonly agents: readonly AgentReport[];
  /** Days with decisions, oldest first: at most the last 400. */
  readonly days: readonly DayReport[];
  readonly byPeople: ByPeople;
  readonly semanticDecisions: number;
  readonly provenanceNotReplayed: number;
  readonly deterministicShare: number;
  readonly engineVersion: string;
  readonly policyDigest: string;
}

/** Scope of a report. */
export interface ReportScope {
  readonly fromSeq: number;
  readonly toSeq: number;
  readonly policyDigest: string;
  /** Agents that get a row. */
  readonly agents: Iterable<AgentState>;
}

const newTally = (): Tally => ({
  replayed: 0,
  stricterBy: { block: 0, escalate: 0 },
  looserBy: { allow: 0, escalate: 0 },
});
const stricterOf = ({ stricterBy }: Tally): number => stricterBy.block + stricterBy.escalate;
const looserOf = ({ looserBy }: Tally): number => looserBy.allow + looserBy.escalate;

/**
 * Builder of a report. Its memory does not grow with the number of decisions, except for those that people were asked about.
 */
export class ReportBuilder {
  readonly #all = newTally();
  readonly #agents = new Map<string, AgentTally>();
  readonly #byPeople = {
    counts: { approved: 0, rejected: 0, pending: 0 },
    decisionIds: { approved: [] as string[], rejected: [] as string[], pending: [] as string[] },
  };
  readonly #days = new Map<number, Tally>();
  #semantic = 0;
  #lackingProvenance = 0;
  #sinceMs: number | undefined;
  #untilMs: number | undefined;
  #asked: AskedDecision[] = [];

  /** Counts one decision, and compares it with what it was. */
  add({ body, was, now, isSemantic, lacksProvenance }: Compared, atMs: number): Comparison {
    this.#sinceMs ??= atMs;
    this.#untilMs = atMs;
    const agent = this.#agentOf(body.action.agent_id);
    this.#all.replayed += 1;
    agent.replayed += 1;
    const day = this.#dayOf(atMs);
    day.replayed += 1;
    if (lacksProvenance) this.#lackingProvenance += 1;
    if (isSemantic) {
      this.#semantic += 1;
      return "semantic";
    }
    const change = SEVERITY[now] - SEVERITY[was];
    if (change === 0) return "unchanged";
    const ids = change > 0 ? agent.stricterIds : agent.looserIds;
    if (ids.length < MAX_IDS) ids.push(body.decision_id);
    for (const tally of [this.#all, agent, day]) {
      if (change > 0) tally.stricterBy[now as "block" | "escalate"] += 1;
      else tally.looserBy[now as "allow" | "escalate"] += 1;
    }
    if (change < 0) return "looser";
    const isApproved = body.used_escalation_id !== undefined;
    if (isApproved || body.escalation_id !== undefined) {
      this.#asked.push({ decisionId: body.decision_id, escalationId: isApproved ? undefined : body.escalation_id });
    }
    return "stricter";
  }

  /** Takes the stricter decisions whose statuses are not counted yet, in the order of the log. */
  takeAsked(): readonly AskedDecision[] {
    const asked = this.#asked;
    this.#asked = [];
    return asked;
  }

  /** Counts the answer of people to a decision that would be stricter. Calls MUST come in the order of the log. */
  addPeople(decisionId: string, status: EscalationStatus): void {
    const { counts, decisionIds } = this.#byPeople;
    counts[status] += 1;
    if (decisionIds[status].length < MAX_IDS) decisionIds[status].push(decisionId);
  }

  /** Builds the report. */
  build({ fromSeq, toSeq, policyDigest, agents }: ReportScope): Report {
    const [stricter, looser, semanticDecisions] = [stricterOf(this.#all), looserOf(this.#all), this.#semantic];
    const { replayed } = this.#all;
    const rows = [...agents].map((agent) => this.#rowOf(agent));
    return {
      fromSeq,
      toSeq,
      policyDigest,
      stricter,
      looser,
      semanticDecisions,
      provenanceNotReplayed: this.#lackingProvenance,
      ...this.#all,
      sinceMs: this.#sinceMs,
      untilMs: this.#untilMs,
      unchanged: replayed - stricter - looser - semanticDecisions,
      agents: rows.sort((a, b) => b.looser - a.looser || b.stricter - a.stricter || (a.agentId < b.agentId ? -1 : 1)),
      days: [...this.#days].map(([atMs, tally]) => ({ atMs, ...tally })),
      byPeople: this.#byPeople,
      deterministicShare: replayed === 0 ? 1 : (replayed - semanticDecisions) / replayed,
      engineVersion: ENGINE_VERSION,
    };
  }

  /** Decisions come in the order of the log, so the first day is the oldest. */
  #dayOf(atMs: number): Tally {
    const start = atMs - (atMs % DAY_MS);
    const known = this.#days.get(start);
    if (known !== undefined) return known;
    const made = newTally();
    this.#days.set(start, made);
    const [oldest] = this.#days.keys();
    if (this.#days.size > MAX_DAYS && oldest !== undefined) this.#days.delete(oldest);
    return made;
  }

  #agentOf(agentId: string): AgentTally {
    const known = this.#agents.get(agentId);
    if (known !== undefined) return known;
    const made = { ...newTally(), looserIds: [], stricterIds: [] };
    this.#agents.set(agentId, made);
    return made;
  }

  #rowOf({ agentId, registration }: AgentState): AgentReport {
    const {
      looserIds = [],
      stricterIds = [],
      ...tally
    } = this.#agents.get(agentId) ?? (newTally() as Partial<AgentTally> & Tally);
    const decisionIds = [...looserIds, ...stricterIds].slice(0, MAX_IDS);
    const [stricter, looser] = [stricterOf(tally), looserOf(tally)];
    return { agentId, name: registration.name, ...tally, stricter, looser, decisionIds };
  }
}
