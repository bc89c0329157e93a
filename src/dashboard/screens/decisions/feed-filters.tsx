import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { type KeyboardEvent, useDeferredValue, useId, useState } from "react";
import { AgentOrder, AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { Field } from "../../kit/field.tsx";
import { shownText } from "../../kit/shown.tsx";
import { DECISION_WORDS, type FeedFilter, FILTERS } from "./feed-filter.ts";

const SUGGESTED = 50;
const AGENT_ID = /^agt_[a-z2-7]+$/;

/** Properties of the filters. */
export interface FeedFiltersProps {
  readonly filter: FeedFilter;
  readonly onChange: (filter: Partial<FeedFilter>) => void;
}

/** Filters above the feed. They apply on Enter and on leaving a filter. */
export function FeedFilters({ filter, onChange }: FeedFiltersProps) {
  const hasFilter = FILTERS.some((name) => filter[name] !== "");
  // A form with several fields and no submit button does not submit on Enter by itself.
  const applyOnEnter = (event: KeyboardEvent<HTMLFormElement>): void => {
    if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
    event.preventDefault();
    event.target.blur();
    event.target.focus();
  };
  return (
    <form className="filters feed-filters" aria-label="Filters" onKeyDown={applyOnEnter}>
      <AgentFilter value={filter.agent} onChange={(agent) => onChange({ agent })} />
      <Field label="Decision">
        {(control) => (
          <select
            {...control}
            name="decision"
            value={DECISION_WORDS.has(filter.decision) ? filter.decision : ""}
            onChange={({ target }) => onChange({ decision: target.value })}
          >
            <option value="">all</option>
            {[...DECISION_WORDS.keys()].map((word) => (
              <option key={word}>{word}</option>
            ))}
          </select>
        )}
      </Field>
      <TextFilter
        name="action_type"
        label="Action type"
        placeholder="payment.*"
        value={filter.action_type}
        onChange={(action_type) => onChange({ action_type })}
      />
      <TextFilter
        name="tool"
        label="Tool"
        placeholder="send_payment"
        value={filter.tool}
        onChange={(tool) => onChange({ tool })}
      />
      <TimeFilter name="since" label="Since" value={filter.since} onChange={(since) => onChange({ since })} />
      <TimeFilter name="until" label="Until" value={filter.until} onChange={(until) => onChange({ until })} />
      {filter.session === "" ? null : (
        <TextFilter
          name="session"
          label="Session"
          placeholder="ses_…"
          value={filter.session}
          onChange={(session) => onChange({ session })}
        />
      )}
      {hasFilter ? (
        <Button
          action="clear-filters"
          tone="quiet"
          onClick={() => onChange(Object.fromEntries(FILTERS.map((name) => [name, ""])))}
        >
          Clear filters
        </Button>
      ) : null}
    </form>
  );
}

interface OneFilterProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

interface NamedFilterProps extends OneFilterProps {
  readonly name: string;
  readonly label: string;
  readonly placeholder?: string;
}

/** Returns the text in a control and its setter. A new value in the address resets the text. */
function useTyped(value: string): readonly [string, (typed: string) => void] {
  const [state, setState] = useState({ value, typed: value });
  if (state.value !== value) setState({ value, typed: value });
  return [state.typed, (typed) => setState({ value, typed })];
}

function TextFilter({ name, label, placeholder, value, onChange }: NamedFilterProps) {
  const [typed, setTyped] = useTyped(value);
  return (
    <Field label={label}>
      {(control) => (
        <input
          {...control}
          name={name}
          placeholder={placeholder}
          type="search"
          value={typed}
          maxLength={512}
          autoComplete="off"
          spellCheck={false}
          onChange={({ target }) => setTyped(target.value)}
          onBlur={() => onChange(typed.trim())}
        />
      )}
    </Field>
  );
}

/** Finds an agent by its name or id. */
function AgentFilter({ value, onChange }: OneFilterProps) {
  const [typed, setTyped] = useTyped(value);
  const q = useDeferredValue(typed.trim());
  const list = useId();
  const { data } = useQuery(
    AgentService.method.listAgents,
    { q: AGENT_ID.test(q) ? "" : q.slice(0, 200), orderBy: AgentOrder.NAME, pageSize: SUGGESTED },
    { placeholderData: keepPreviousData },
  );
  const agents = data?.agents ?? [];
  const [fault, setFault] = useState<string>();
  const apply = (): void => {
    const wanted = typed.trim();
    const found = agents.filter(({ name, agentId }) => name === wanted || agentId === wanted);
    const agentId = found.length === 1 ? found[0]?.agentId : undefined;
    const isKnown = wanted === "" || AGENT_ID.test(wanted) || agentId !== undefined;
    setFault(isKnown ? undefined : "Choose an agent of the list, or give an id.");
    if (isKnown) onChange(agentId ?? wanted);
  };
  return (
    <Field label="Agent" fault={fault}>
      {(control) => (
        <>
          <input
            {...control}
            name="agent"
            list={list}
            type="search"
            placeholder="Name or id"
            value={typed}
            maxLength={200}
            autoComplete="off"
            spellCheck={false}
            onChange={({ target }) => setTyped(target.value)}
            onBlur={apply}
          />
          <datalist id={list}>
            {agents.map(({ agentId, name }) => (
              <option key={agentId} value={agentId} label={shownText(name, 60)} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

const two = (n: number): string => String(n).padStart(2, "0");

/** Writes a time in the form of a local date and time input. */
function localText(iso: string): string {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return "";
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${day}T${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

function TimeFilter({ name, label, value, onChange }: NamedFilterProps) {
  const shown = localText(value);
  const [typed, setTyped] = useTyped(shown);
  const apply = (): void => {
    const time = new Date(typed);
    // The address may hold milliseconds, which the control does not show.
    if (typed !== shown) onChange(Number.isNaN(time.getTime()) ? "" : time.toISOString());
  };
  return (
    <div className="is-wide">
      <Field label={label}>
        {(control) => (
          <input
            {...control}
            name={name}
            type="datetime-local"
            step={1}
            value={typed}
            onChange={({ target }) => setTyped(target.value)}
            onBlur={apply}
          />
        )}
      </Field>
    </div>
  );
}
