import type { Work } from "../../async/work.ts";
import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import { namedTools } from "../../policy/compile/rule-draft.ts";
import { comparableName, toolKey } from "../../policy/names.ts";
import type { AgentState } from "../../state/agents.ts";
import type { MandateState } from "../../state/policies.ts";
import type { WorkspaceState } from "../../state/workspace.ts";

/** Maximum number of ids in the error for an ambiguous name. */
const MAX_IDS = 10;

/** Creates the error for a field that names something which the workspace does not have. */
export function absent(field: string, reason: ErrorReason, noun: string, name: string): ControlPlaneError {
  const description = `names ${noun} \`${name}\`, which the workspace does not have`;
  const violations = [{ field, description, reason: ErrorReason[reason] as string }];
  return new ControlPlaneError(reason, `\`${field}\` ${description}`, { field, looked_for: name }, { violations });
}

/** Finds an agent by its id, or by its name in any case. Throws AGENT_NOT_FOUND, and INVALID_FIELD for a name of several. */
export function* findAgent(state: WorkspaceState, field: string, name: string): Work<AgentState> {
  const found = yield* agentsNamed(state, name);
  const [only] = found;
  if (only === undefined) throw absent(field, ErrorReason.AGENT_NOT_FOUND, "an agent", name);
  if (found.length === 1) return only;
  const shown = found.slice(0, MAX_IDS).map(({ agentId }) => agentId);
  const more = found.length > MAX_IDS ? ` and ${found.length - MAX_IDS} more` : "";
  throw invalidField(field, `names ${found.length} agents with \`${name}\`; use an id: ${shown.join(", ")}${more}`);
}

/** Finds the agents of an id, or of a name in any case. */
export function* agentsNamed({ agents }: WorkspaceState, name: string): Work<readonly AgentState[]> {
  const byId = agents.get(name);
  if (byId !== undefined) return [byId];
  const wanted = comparableName(name);
  const found: AgentState[] = [];
  for (const agent of agents.values()) {
    if (agent.nameKey === wanted) found.push(agent);
    yield;
  }
  return found;
}

/** Finds a mandate in force by its id, or by its name in any case. */
export function findMandate({ policies }: WorkspaceState, name: string): MandateState | undefined {
  const wanted = comparableName(name);
  return (
    policies.mandates.get(name) ??
    [...policies.mandates.values()].find(({ compiled }) => comparableName(compiled.name) === wanted)
  );
}

/** Finds a tool as `toolNamed` does. Throws TOOL_NOT_FOUND. */
export function findTool(state: WorkspaceState, field: string, name: string): string {
  const found = toolNamed(state, name);
  if (found === undefined) throw absent(field, ErrorReason.TOOL_NOT_FOUND, "a tool", name);
  return found;
}

/**
 * Finds a tool by its name in any case, and returns the name as it was registered; undefined for an unknown one. A tool that rules
 * name counts, registered or not.
 */
export function toolNamed({ policies }: WorkspaceState, name: string): string | undefined {
  const registered = policies.tool(name);
  if (registered !== undefined) return registered.schema.name;
  const key = toolKey(name);
  for (const { rules } of policies.policySet().mandates()) {
    if (rules.some(({ source }) => namedTools(source).includes(key))) return name.trim();
  }
  return undefined;
}
