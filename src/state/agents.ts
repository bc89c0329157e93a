import { LRUCache } from "lru-cache";
import { compilePatterns } from "../policy/action.ts";
import type { CompiledPatterns, Decision } from "../policy/types.ts";
import type { SealedAgent } from "./control-changes.ts";

/** Status of an agent; the words of the proto enum `AgentStatus`. */
export type AgentStatus = "active" | "deactivated" | "revoked";

/** State of an agent. Decisions and changes are folded into the one object that lives as long as the agent. */
export interface AgentState {
  readonly agentId: string;
  /** The registration as sealed. */
  readonly registration: SealedAgent;
  /** Index of the entry that registered it. */
  readonly createdSeq: number;
  readonly registeredAtMs: number;
  /** Action types that the allow-list and the capabilities admit; null when the agent has neither. */
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

/** Change of trust by each decision, in tenths. */
export const TRUST_CHANGE_TENTHS: Readonly<Record<Decision, number>> = { allow: 2, block: -20, escalate: -5 };

/** Returns the trust after a decision, clamped to 0 and 100.0. */
export function trustAfter(tenths: number, decision: Decision): number {
  return Math.min(MAX_TRUST_TENTHS, Math.max(0, tenths + TRUST_CHANGE_TENTHS[decision]));
}

/** Compiles a list of patterns, or returns the compiled form of an equal list from its cache. */
export type PatternCache = (patterns: readonly string[]) => CompiledPatterns;

/** Characters of pattern lists in the cache of a workspace. Lists that agents have stay alive without it. */
const CACHED_CHARACTERS = 4_194_304;

/** Creates the cache of a workspace. Agents of a kind often have equal lists, and so share their compiled forms. */
export function createPatternCache(): PatternCache {
  const lists = new LRUCache<string, CompiledPatterns, readonly string[]>({
    maxSize: CACHED_CHARACTERS,
    sizeCalculation: (_compiled, key) => key.length,
    memoMethod: (_key, _stale, { context: patterns }) => compilePatterns(patterns),
  });
  return (patterns) => lists.memo(JSON.stringify(patterns), { context: patterns });
}

/** Creates the state of an agent from its registration, with the initial status. */
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
