import { useState } from "react";
import { AgentStatus } from "../../../gen/agentcontrol/v1/agent_service_pb.js";
import { NamedField } from "./form.tsx";
import { shownText } from "./shown.tsx";
import { useAgentsByName } from "./use-agents-by-name.ts";

/** Properties of the choice of an agent. */
export interface AgentPickerProps {
  /** Name of the control, whose value is the agent's id. */
  readonly name: string;
  readonly label: string;
  /** Label of the empty choice; absent if an agent has to be chosen. */
  readonly none?: string;
  /** Agent that cannot be chosen. */
  readonly without?: string;
  /** True if agents that were deactivated or revoked can be chosen. Default false. */
  readonly isAny?: boolean;
}

/** Chooses an active agent: searches by the beginning of its name and lists the matches. */
export function AgentPicker({ name, label, none, without, isAny = false }: AgentPickerProps) {
  const [typed, setTyped] = useState("");
  const found = useAgentsByName(typed, isAny ? undefined : AgentStatus.ACTIVE);
  const agents = found.agents.filter(({ agentId }) => agentId !== without);
  const hint = found.hasMore ? "There are more agents: type the beginning of the name." : undefined;
  return (
    <NamedField
      name={name}
      label={label}
      hint={found.isSuccess && agents.length === 0 ? (isAny ? "No agent." : "No active agent.") : hint}
    >
      {(control) => (
        <div className="agent-picker">
          <input
            type="search"
            name={`${name}.search`}
            aria-label={`${label}: beginning of the name`}
            placeholder="Find by name"
            value={typed}
            onChange={({ target }) => setTyped(target.value)}
            autoComplete="off"
          />
          <select {...control} name={name}>
            <option value="">{none ?? "Choose an agent"}</option>
            {agents.map(({ agentId, name: agentName }) => (
              <option key={agentId} value={agentId}>
                {shownText(agentName, 60)} ({agentId.slice(-6)})
              </option>
            ))}
          </select>
        </div>
      )}
    </NamedField>
  );
}
