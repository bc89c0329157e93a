import { useQuery } from "@connectrpc/connect-query";
import { type FocusEvent, type KeyboardEvent, useId, useState } from "react";
import { type Agent, AgentService } from "../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Field } from "./field.tsx";
import { Shown, shownText } from "./shown.tsx";
import { useAgentsByName } from "./use-agents-by-name.ts";

const AGENT_ID = /^agt_[a-z2-7]+$/;
const WHOLE_ID = /^agt_[a-z2-7]{26}$/;
const NAME_SHOWN = 60;
const STALE_MS = 300_000;

/** Properties of a filter by agent. */
export interface AgentSearchProps {
  readonly name: string;
  /** Id of the chosen agent; empty for all agents. */
  readonly value: string;
  readonly onChange: (agentId: string) => void;
}

/** Filters by an agent of any status: finds it by the beginning of its name or by its id, and shows the name of the chosen one. */
export function AgentSearch({ name, value, onChange }: AgentSearchProps) {
  const list = useId();
  const [picked, setPicked] = useState<Agent>();
  const nameRead = useNameOf(value);
  const shown = picked?.agentId === value ? shownText(picked.name, NAME_SHOWN) : nameRead;
  // Undefined while nothing is being typed.
  const [typed, setTyped] = useState<string>();
  const [activeId, setActiveId] = useState<string>();
  const [fault, setFault] = useState<string>();
  const isOpen = typed !== undefined;
  const { agents: found, isSuccess } = useAgentsByName(AGENT_ID.test(typed?.trim() ?? "") ? "" : (typed ?? ""));
  const agents = isOpen ? found : [];
  // By its id: the list may change below the keys.
  const active = agents.findIndex(({ agentId }) => agentId === activeId);
  const close = (): void => {
    setTyped(undefined);
    setActiveId(undefined);
    setFault(undefined);
  };
  const choose = (agentId: string): void => {
    close();
    setPicked(agents.find((agent) => agent.agentId === agentId));
    if (agentId !== value) onChange(agentId);
  };
  /** Applies what is typed, if it names one agent. */
  const apply = (): void => {
    const wanted = typed?.trim();
    if (wanted === undefined) return;
    const named = agents.filter((agent) => agent.name === wanted);
    const agentId =
      AGENT_ID.test(wanted) || wanted === "" ? wanted : named.length === 1 ? named[0]?.agentId : undefined;
    if (agentId === undefined) setFault("Choose an agent of the list, or give an id.");
    else choose(agentId);
  };
  const type = (text: string): void => {
    setFault(undefined);
    setActiveId(undefined);
    setTyped(text);
    const wanted = text.trim();
    if (wanted === "" || WHOLE_ID.test(wanted)) {
      if (wanted !== value) onChange(wanted);
    }
  };
  const press = (event: KeyboardEvent<HTMLInputElement>): void => {
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      if (typed === undefined) setTyped("");
      else setActiveId(agentAfter(agents, active, key === "ArrowDown" ? 1 : -1)?.agentId);
    } else if (key === "Enter") {
      event.preventDefault();
      const marked = agents[active];
      if (marked === undefined) apply();
      else choose(marked.agentId);
    } else if (key === "Escape" && isOpen) {
      event.preventDefault();
      close();
    }
  };
  const leave = (event: FocusEvent<HTMLInputElement>): void => {
    if (event.currentTarget.parentElement?.contains(event.relatedTarget)) return;
    apply();
  };
  const hint = isOpen && isSuccess && agents.length === 0 ? "No agent's name begins so." : undefined;
  return (
    <Field label="Agent" hint={hint} fault={fault}>
      {(control) => (
        <div className="agent-search">
          <input
            {...control}
            name={name}
            type="search"
            role="combobox"
            aria-expanded={agents.length > 0}
            aria-controls={list}
            aria-autocomplete="list"
            aria-activedescendant={agents[active] === undefined ? undefined : `${list}-${active}`}
            placeholder="Name or id"
            title={value === "" ? undefined : value}
            value={typed ?? shown}
            maxLength={200}
            autoComplete="off"
            spellCheck={false}
            onFocus={({ target }) => target.select()}
            onChange={({ target }) => type(target.value)}
            onKeyDown={press}
            onBlur={leave}
          />
          <div id={list} role="listbox" aria-label="Agents" className="agent-options" hidden={agents.length === 0}>
            {agents.map((agent, index) => (
              <AgentOption
                key={agent.agentId}
                id={`${list}-${index}`}
                agent={agent}
                isActive={index === active}
                onChoose={() => choose(agent.agentId)}
              />
            ))}
          </div>
        </div>
      )}
    </Field>
  );
}

/** Returns the agent a step further in a list that begins again at its ends; from outside (-1), its first or its last. */
const agentAfter = (agents: readonly Agent[], index: number, step: 1 | -1): Agent | undefined =>
  agents.at(index === -1 && step === -1 ? -1 : (index + step) % agents.length);

/** Returns the name of an agent, and its id until the name is read. */
function useNameOf(agentId: string): string {
  const { data } = useQuery(
    AgentService.method.getAgent,
    { agentId },
    { enabled: agentId !== "", staleTime: STALE_MS, retry: false },
  );
  return data?.agent === undefined || agentId === "" ? agentId : shownText(data.agent.name, NAME_SHOWN);
}

interface AgentOptionProps {
  readonly id: string;
  readonly agent: Agent;
  readonly isActive: boolean;
  readonly onChoose: () => void;
}

function AgentOption({ id, agent: { agentId, name }, isActive, onChoose }: AgentOptionProps) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the control above has the keys
    <div
      id={id}
      role="option"
      aria-selected={isActive}
      tabIndex={-1}
      data-id={agentId}
      ref={(element) => {
        if (isActive) element?.scrollIntoView({ block: "nearest" });
      }}
      // The control keeps the focus, so that a press is no leaving.
      onPointerDown={(event) => event.preventDefault()}
      onMouseDown={(event) => event.preventDefault()}
      onClick={onChoose}
    >
      <Shown text={name.slice(0, NAME_SHOWN)} /> <code className="hint">{agentId.slice(-6)}</code>
    </div>
  );
}
