import { toolKey } from "../policy/names.ts";
import type { AuthorityItem } from "../state/authority.ts";
import { isInForce, itemStatus } from "../state/authority-status.ts";
import type { Action } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Refusal, refusal } from "./verdict.ts";

/** Result of checking the intent contract that an action names. */
type ContractCheck =
  | { readonly kind: "none" }
  | { readonly kind: "inside"; readonly contract: AuthorityItem }
  | ({ readonly kind: "refused" } & Refusal);

/** Checks the intent contract that an action names. */
export function checkContract(
  { authority }: WorkspaceState,
  { intentContractId, agentId, actionType, normalisedType }: Action,
  toolName: string | undefined,
  nowMs: number,
): ContractCheck {
  if (intentContractId === undefined) return { kind: "none" };
  const contract = authority.get(intentContractId);
  const name = `intent contract \`${intentContractId}\``;
  if (contract?.sealed.kind !== "intent_contract" || contract.sealed.agent_id !== agentId) {
    return refusal("intent_contract", "INTENT_CONTRACT_UNKNOWN", `${name} does not exist for this agent, or has ended`);
  }
  if (!isInForce(contract, nowMs)) {
    const why = itemStatus(contract, nowMs) === "used_up" ? "is used up" : "has expired";
    return refusal("intent_contract", "INTENT_CONTRACT_EXPIRED", `${name} ${why}`);
  }
  if (!contract.admits?.matches(normalisedType))
    return refusal("intent_contract", "OUTSIDE_CONTRACT", `\`${actionType}\` is outside ${name}`);
  const { tools = [] } = contract.sealed;
  if (tools.length > 0 && !tools.some((tool) => toolName !== undefined && toolKey(tool) === toolKey(toolName))) {
    const called = toolName === undefined ? "a call without a tool" : `tool \`${toolName}\``;
    return refusal("intent_contract", "OUTSIDE_CONTRACT", `${called} is outside ${name}`);
  }
  return { kind: "inside", contract };
}
