import { compilePatterns } from "../policy/action-pattern.ts";
import type { CompiledPatterns, Decision } from "../policy/types.ts";
import type { SealedAgent } from "./control-changes.ts";

/** Whether an agent may act at all; the words of the proto enum `AgentStatus`. */
export type AgentStatus = "active" | "deactivated" | "revoked";

/** An agent as the log has it. One object for the agent's life; decisions and changes are folded into it. */
export interface AgentState {
  readonly agentId: string;
  /** What was registered. */
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

/** What each decision does to trust, in tenths: +0.2, -2.0 and -0.5. */
export const TRUST_CHANGE_TENTHS: Readonly<Record<Decision, number>> = { allow: 2, block: -20, escalate: -5 };

/** The trust after a decision, clamped to 0 and 100.0. */
export function trustAfter(tenths: number, decision: Decision): number {
  return Math.min(MAX_TRUST_TENTHS, Math.max(0, tenths + TRUST_CHANGE_TENTHS[decision]));
}

/** Action types that agents were registered with, as they were given and as they are tested. */
interface ActionTypes {
  readonly list: readonly string[];
  readonly compiled: CompiledPatterns;
}

/**
 * Lists that are remembered. Agents of a kind share theirs, and every object of 100,000 agents is one that each
 * collection has to visit.
 */
const REMEMBERED_LISTS = 10_000;
const lists = new Map<string, ActionTypes>();

function actionTypesFrom(patterns: readonly string[]): ActionTypes {
  const key = JSON.stringify(patterns);
  let found = lists.get(key);
  if (found === undefined) {
    if (lists.size >= REMEMBERED_LISTS) lists.clear();
    found = { list: patterns, compiled: compilePatterns(patterns) };
    lists.set(key, found);
  }
  return found;
}

/** What an agent is when it is registered, or read back from its table. */
export function createAgentState(registration: SealedAgent, createdSeq: number, registeredAtMs: number): AgentState {
  const capabilities = actionTypesFrom(registration.capabilities);
  const allowed = actionTypesFrom(registration.allowed_action_types);
  const denied = actionTypesFrom(registration.denied_action_types);
  const admitted = actionTypesFrom([...allowed.list, ...capabilities.list]);
  return {
    agentId: registration.agent_id,
    registration: {
      ...registration,
      capabilities: capabilities.list,
      allowed_action_types: allowed.list,
      denied_action_types: denied.list,
    },
    createdSeq,
    registeredAtMs,
    admitted: admitted.list.length === 0 ? null : admitted.compiled,
    denied: denied.compiled,
    status: "active",
    deactivatedAtMs: null,
    trustTenths: registration.trust_tenths,
    departmentIds: [],
  };
}
