import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { AgentSearch } from "../../kit/agent-search.tsx";
import { Button } from "../../kit/button.tsx";
import { Field } from "../../kit/field.tsx";
import { useNarrow } from "../../kit/lists/use-narrow.ts";
import { OUTCOME_STATUSES } from "../../kit/outcome-statuses.ts";
import { inputText, inputTime, useZone } from "../../kit/zone.ts";
import { DECISION_WORDS, type FeedFilter, FILTERS } from "./feed-filter.ts";
import { TimePresets } from "./time-presets.tsx";

/** Milliseconds after the last key at which a filter applies. */
const TYPED_MS = 350;

/** Changes filters. `isMore`: the change goes on with the one before it, so that Back takes both away. */
export type ChangeFilter = (filter: Partial<FeedFilter>, isMore?: boolean) => void;

/** Properties of the filters. */
export interface FeedFiltersProps {
  readonly filter: FeedFilter;
  readonly onChange: ChangeFilter;
}

/** Filters above the feed, folded on a phone. They apply shortly after the last key, at once on Enter and on leaving. */
export function FeedFilters({ filter, onChange }: FeedFiltersProps) {
  const isNarrow = useNarrow();
  const count = FILTERS.filter((name) => filter[name] !== "").length;
  // A form with several fields and no submit button does not submit on Enter by itself.
  const applyOnEnter = (event: KeyboardEvent<HTMLFormElement>): void => {
    if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement) || event.defaultPrevented) return;
    event.preventDefault();
    event.target.blur();
    event.target.focus();
  };
  return (
    <form className="stack" aria-label="Filters" onKeyDown={applyOnEnter}>
      <div className="row is-apart">
        <TimePresets filter={filter} onChange={onChange} />
        <Button
          action="clear-filters"
          tone="quiet"
          disabled={count === 0}
          onClick={() => onChange(Object.fromEntries(FILTERS.map((name) => [name, ""])))}
        >
          Clear filters
        </Button>
      </div>
      {isNarrow ? (
        <details>
          <summary>{count === 0 ? "Filters" : `Filters (${count} set)`}</summary>
          <Fields filter={filter} onChange={onChange} />
        </details>
      ) : (
        <Fields filter={filter} onChange={onChange} />
      )}
    </form>
  );
}

function Fields({ filter, onChange }: FeedFiltersProps) {
  return (
    <div className="filters feed-filters">
      <AgentSearch name="agent" value={filter.agent} onChange={(agent) => onChange({ agent })} />
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
      <Field label="Outcome">
        {(control) => (
          <select
            {...control}
            name="outcome"
            value={OUTCOME_STATUSES.has(filter.outcome) ? filter.outcome : ""}
            onChange={({ target }) => onChange({ outcome: target.value })}
          >
            <option value="">any</option>
            {[...OUTCOME_STATUSES.keys()].map((word) => (
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
        onChange={(action_type, isMore) => onChange({ action_type }, isMore)}
      />
      <TextFilter
        name="tool"
        label="Tool"
        placeholder="send_payment"
        value={filter.tool}
        onChange={(tool, isMore) => onChange({ tool }, isMore)}
      />
      <TimeFilter
        name="since"
        label="Since"
        value={filter.since}
        onChange={(since, isMore) => onChange({ since }, isMore)}
      />
      <TimeFilter
        name="until"
        label="Until"
        value={filter.until}
        onChange={(until, isMore) => onChange({ until }, isMore)}
      />
      {filter.session === "" ? null : (
        <TextFilter
          name="session"
          label="Session"
          placeholder="ses_…"
          value={filter.session}
          onChange={(session, isMore) => onChange({ session }, isMore)}
        />
      )}
    </div>
  );
}

interface NamedFilterProps {
  readonly name: string;
  readonly label: string;
  readonly placeholder?: string;
  readonly value: string;
  readonly onChange: (value: string, isMore: boolean) => void;
}

/** A filter that is typed. */
interface Typed {
  readonly text: string;
  readonly type: (text: string) => void;
  /** Applies the text at once, and ends the change. */
  readonly leave: () => void;
}

/**
 * Keeps the text in a control, and applies it shortly after the last key. A new value in the address resets the text. All that is typed
 * until the control is left is one change.
 */
function useTyped(value: string, apply: (text: string, isMore: boolean) => void): Typed {
  const [state, setState] = useState({ value, text: value });
  const pending = useRef<{ timer?: ReturnType<typeof setTimeout>; applied?: string | undefined; isMore: boolean }>({
    isMore: false,
  });
  if (state.value !== value) setState({ value, text: pending.current.applied === value ? state.text : value });
  useEffect(() => () => clearTimeout(pending.current.timer), []);
  const applyNow = (text: string): void => {
    const { current } = pending;
    clearTimeout(current.timer);
    if (text.trim() === value || current.applied === text.trim()) return;
    current.applied = text.trim();
    apply(text.trim(), current.isMore);
    current.isMore = true;
  };
  return {
    text: state.text,
    type: (text) => {
      setState({ value, text });
      clearTimeout(pending.current.timer);
      pending.current.applied = undefined;
      pending.current.timer = setTimeout(() => applyNow(text), TYPED_MS);
    },
    leave: () => {
      applyNow(state.text);
      pending.current.isMore = false;
      pending.current.applied = undefined;
    },
  };
}

function TextFilter({ name, label, placeholder, value, onChange }: NamedFilterProps) {
  const { text, type, leave } = useTyped(value, onChange);
  return (
    <Field label={label}>
      {(control) => (
        <input
          {...control}
          name={name}
          placeholder={placeholder}
          type="search"
          value={text}
          maxLength={512}
          autoComplete="off"
          spellCheck={false}
          onChange={({ target }) => type(target.value)}
          onBlur={leave}
        />
      )}
    </Field>
  );
}

function TimeFilter({ name, label, value, onChange }: NamedFilterProps) {
  const [zone] = useZone();
  const ms = Date.parse(value);
  // The address may hold milliseconds, which the control does not show.
  const { text, type, leave } = useTyped(Number.isNaN(ms) ? "" : inputText(ms, zone), (typed, isMore) => {
    const time = inputTime(typed, zone);
    onChange(Number.isNaN(time) ? "" : new Date(time).toISOString(), isMore);
  });
  return (
    <div className="is-wide">
      <Field label={label}>
        {(control) => (
          <input
            {...control}
            name={name}
            type="datetime-local"
            step={1}
            value={text}
            onChange={({ target }) => type(target.value)}
            onBlur={leave}
          />
        )}
      </Field>
    </div>
  );
}
