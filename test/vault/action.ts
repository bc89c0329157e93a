import type { Action } from "../../src/state/types.ts";
import { createId } from "../../src/store/ids.ts";

/** An action that nothing refuses. */
export function actionOf(agentId: string): Action {
  return {
    decisionId: createId("dec"),
    isRetryable: false,
    agentId,
    keyId: "key_test",
    actionType: "read",
    normalisedType: "read",
    actionContent: "the balance of the account",
    metadata: undefined,
    metadataText: "",
    tool: undefined,
    sessionId: undefined,
    onBehalfOf: undefined,
    grantId: undefined,
    intentContractId: undefined,
    escalationId: undefined,
  };
}
