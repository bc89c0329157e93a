import { Decision as DecisionEnum, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { Decision, ScopeWord } from "./types.ts";

const DECISIONS: ReadonlyMap<DecisionEnum, Decision> = new Map([
  [DecisionEnum.ALLOW, "allow"],
  [DecisionEnum.BLOCK, "block"],
  [DecisionEnum.ESCALATE, "escalate"],
]);

const SCOPES: ReadonlyMap<Scope, ScopeWord> = new Map([
  [Scope.AGENT, "agent"],
  [Scope.DEPARTMENT, "department"],
  [Scope.WORKSPACE, "workspace"],
]);

/** A decision as a word; undefined when it is unspecified. */
export function decisionWord(decision: DecisionEnum): Decision | undefined {
  return DECISIONS.get(decision);
}

/** A scope as a word; undefined when it is unspecified. */
export function scopeWord(scope: Scope): ScopeWord | undefined {
  return SCOPES.get(scope);
}

/** How restrictive a decision is; higher wins. */
export const SEVERITY: Readonly<Record<Decision, number>> = { allow: 1, escalate: 2, block: 3 };
