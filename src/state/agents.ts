import { LRUCache } from "lru-cache";
import { compilePatterns } from "../policy/action-pattern.ts";
import type { CompiledPatterns, Decision } from "../policy/types.ts";
import type { SealedAgent } from "./control-changes.ts";

/** Status of an agent, in the words of the proto enum `AgentStatus`. */
export type AgentStatus = "active" | "deactivated" | "revoked";

/** An agent as the log has it. One object for the agent's life; decisions and changes are folded into it. */
export interface AgentState {
  readonly agentId: string;
  /** The registration as sealed. */
  readonly registration: SealedAgent;
  /** Index of the entry that registered it. */
  readonly createdSeq: number;
  readonly registeredAtMs: number;
  /** Null when neither an allow-list nor capabilities restrict the agent. */
  readonly admitted: CompiledPatterns | null;
  readonly denied: CompiledPatterns;
  status: AgentStatus;
  deactivatedAtMs: number | null;
  /** 0 to 1000. */
  trustTenths: number;
  /** Sorted. */
  departmentIds: readonly string[];
}

/** Highest trust, in tenths. */
export const MAX_TRUST_TENTHS = 1000;

/** Change of trust by each decision, in tenths: +0.2, -2.0 and -0.5. */
export const TRUST_CHANGE_TENTHS: Readonly<Record<Decision, number>> = { allow: 2, block: -20, escalate: -5 };

/** The trust after a decision, clamped to 0 and 100.0. */
export function trustAfter(tenths: number, decision: Decision): number {
  return Math.min(MAX_TRUST_TENTHS, Math.max(0, tenths + TRUST_CHANGE_TENTHS[decision]));
}

/** Compiles patterns, or returns what it compiled for an equal list. */
export type PatternCache = (patterns: readonly string[]) => CompiledPatterns;

/** Most lists of patterns that a workspace's cache holds. */
const MAX_LISTS = 10_000;

/** Creates the cache of a workspace: agents of a kind are registered with equal lists and share one compiled form. */
export function createPatternCache(): PatternCache {
  const lists = new LRUCache<string, CompiledPatterns>({ max: MAX_LISTS });
  return (patterns) => {
    const key = JSON.stringify(patterns);
    const known = lists.get(key) ?? compilePatterns(patterns);
    lists.set(key, known);
    return known;
  };
}

/** An agent from its registration, as the log sealed it or its table holds it. */
export function createAgentState(
  registration: SealedAgent,
  { createdSeq, registeredAtMs }: Pick<AgentState, "createdSeq" | "registeredAtMs">,
  patterns: PatternCache,
): AgentState {
  const { capabilities, allowed_action_types, denied_action_types } = registration;
  const admitted = [...allowed_action_types, ...capabilities];
  return {
    agentId: registration.agent_id,
    registration,
    createdSeq,
    registeredAtMs,
    admitted: admitted.length === 0 ? null : patterns(admitted),
    denied: patterns(denied_action_types),
    status: "active",
    deactivatedAtMs: null,
    trustTenths: registration.trust_tenths,
    departmentIds: [],
  };
}
