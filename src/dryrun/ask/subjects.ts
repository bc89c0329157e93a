import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import { toolKey } from "../../policy/names.ts";
import { comparableName } from "../../registry/checked-text.ts";
import type { AgentState } from "../../state/agents.ts";
import type { MandateState } from "../../state/policies.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import type { Work } from "../work.ts";

/** Ids that the error for an ambiguous name shows. */
const MAX_IDS = 10;

/** Creates the error for what a question names and the workspace does not have. */
export function absent(reason: ErrorReason, noun: string, name: string): ControlPlaneError {
  const description = `names ${noun} \`${name}\`, which the workspace does not have`;
  const violations = [{ field: "question", description, reason: ErrorReason[reason] as string }];
  const metadata = { field: "question", looked_for: name };
  return new ControlPlaneError(reason, `\`question\` ${description}`, metadata, { violations });
}

/** Finds an agent by its id, or by its name in any case. Throws AGENT_NOT_FOUND, and INVALID_FIELD for a name of several. */
export function* findAgent({ agents }: WorkspaceState, name: string): Work<AgentState> {
  const byId = agents.get(name);
  if (byId !== undefined) return byId;
  const wanted = comparableName(name);
  const found: AgentState[] = [];
  for (const agent of agents.values()) {
    if (comparableName(agent.registration.name) === wanted) found.push(agent);
    yield;
  }
  const [only] = found;
  if (only === undefined) throw absent(ErrorReason.AGENT_NOT_FOUND, "an agent", name);
  if (found.length > 1)
    throw ambiguous(
      "agents",
      name,
      found.map(({ agentId }) => agentId),
    );
  return only;
}

function ambiguous(noun: string, name: string, ids: readonly string[]): ControlPlaneError {
  const shown = ids.slice(0, MAX_IDS).join(", ");
  const more = ids.length > MAX_IDS ? ` and ${ids.length - MAX_IDS} more` : "";
  return invalidField("question", `names ${ids.length} ${noun} with \`${name}\`; use an id: ${shown}${more}`);
}

/** Finds a mandate in force by its id, or by its name in any case; undefined if there is none. */
export function findMandate({ policies }: WorkspaceState, name: string): MandateState | undefined {
  const wanted = comparableName(name);
  return (
    policies.mandates.get(name) ??
    [...policies.mandates.values()].find(({ compiled }) => comparableName(compiled.name) === wanted)
  );
}

/**
 * Finds a tool by its name in any case, and returns the name as it was registered. A tool that rules name counts, registered or not.
 * Throws TOOL_NOT_FOUND.
 */
export function findTool({ policies }: WorkspaceState, name: string): string {
  const registered = policies.tool(name);
  if (registered !== undefined) return registered.schema.name;
  const key = toolKey(name);
  for (const { rules } of policies.policySet().mandates()) {
    if (rules.some(({ tool }) => tool === key)) return name.trim();
  }
  throw absent(ErrorReason.TOOL_NOT_FOUND, "a tool", name);
}
