import type { AgentRequirement } from "../state/control-changes.ts";
import type { CoveringContract } from "../state/types.ts";
import type { Identity } from "./identity.ts";
import { knowledgeOf } from "./knowledge.ts";
import { type Attempt, type Refusal, refusal } from "./verdict.ts";

/** Tests whether the agent must have something with its actions, or one of those whose authority it uses must. */
function requires({ agent }: Attempt, { grantors }: Identity, requirement: AgentRequirement): boolean {
  return agent.requires.includes(requirement) || grantors.some((each) => each.requires.includes(requirement));
}

/** Refuses an action without a session, or with one without a prompt, where the agent or a lender of its authority requires it. */
export function checkSessionRequired(attempt: Attempt, identity: Identity): Refusal | undefined {
  const { sessionId } = attempt.action;
  if (sessionId === undefined && requires(attempt, identity, "session"))
    return refusal("session", "SESSION_REQUIRED", "the agent acts in sessions only, and the action names none");
  if (!requires(attempt, identity, "prompt") || knowledgeOf(attempt)?.hasPrompt === true) return undefined;
  const message = "the agent acts only in sessions that were told what it was asked, which this action's was not";
  return refusal("session", "PROMPT_REQUIRED", message);
}

/** Refuses an action that no intent contract covers where the agent, or a lender of its authority, requires one. */
export function checkContractRequired(
  attempt: Attempt,
  identity: Identity,
  contracts: readonly CoveringContract[],
): Refusal | undefined {
  const isCovered = contracts.some(({ isByAgent }) => !isByAgent || mayAgentSay(attempt));
  if (isCovered || !requires(attempt, identity, "contract")) return undefined;
  const message = "the agent acts under intent contracts only, and none covers the action";
  return refusal("intent_contract", "CONTRACT_REQUIRED", message);
}

/** Tests whether the workspace takes an agent's own word for what it was asked and plans. */
const mayAgentSay = ({ state: { settings } }: Attempt): boolean => settings.prompt_from !== "operator";
