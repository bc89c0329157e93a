import { type CompiledPatterns, compilePatterns, type Decision } from "../policy/index.ts";
import type { SealedAgent } from "./control-entry.ts";

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

/** What an agent is when it is registered, or read back from its table. */
export function createAgentState(registration: SealedAgent, createdSeq: number, registeredAtMs: number): AgentState {
  const allowed = [...registration.allowed_action_types, ...registration.capabilities];
  return {
    agentId: registration.agent_id,
    registration,
    createdSeq,
    registeredAtMs,
    admitted: allowed.length === 0 ? null : compilePatterns(allowed),
    denied: compilePatterns(registration.denied_action_types),
    status: "active",
    deactivatedAtMs: null,
    trustTenths: registration.trust_tenths,
    departmentIds: [],
  };
}
