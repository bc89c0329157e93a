import { argumentsFrom } from "../policy/action-source.ts";
import type { ToolSchema } from "../policy/types.ts";
import type { Action } from "../state/types.ts";
import { digestOf } from "../tree/canonical.ts";

/**
 * Computes the digest that an approval is bound to: SHA-256 over the RFC 8785 form of the agent, the action, the tool with its schema version,
 * the arguments and the principal. Lower-case hexadecimal.
 */
export function actionDigest(action: Action, toolName: string | undefined, tool: ToolSchema | undefined): string {
  return digestOf({
    agent_id: action.agentId,
    action_type: action.actionType,
    action_content: action.actionContent,
    tool: toolName ?? null,
    tool_version: tool?.version ?? null,
    arguments: argumentsFrom(action.metadata) ?? null,
    on_behalf_of: action.onBehalfOf ?? null,
  });
}
