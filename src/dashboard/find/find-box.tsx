import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { useLocation } from "wouter";
import { Icon } from "../kit/icon.tsx";
import { Message } from "../kit/message.tsx";
import { Shown } from "../kit/shown.tsx";
import { faultText } from "../kit/states.tsx";
import { type Finding, findingById } from "./findings.ts";
import { useFindings } from "./use-findings.ts";

/** Characters of a text that are looked for, and of one that is shown. */
const MAX_SHOWN = 200;

/** Properties of the search. */
export interface FindBoxProps {
  readonly text: string;
  readonly onType: (text: string) => void;
  readonly onClose: () => void;
}

/** The text that is looked for, and what it finds. A pasted id leads to its screen at once. */
export function FindBox({ text, onType, onClose }: FindBoxProps) {
  const [chosen, setChosen] = useState(0);
  const { findings, isPending, errors } = useFindings(text);
  const list = useId();
  const [, navigate] = useLocation();
  const index = Math.min(chosen, findings.length - 1);
  const optionId = (at: number): string => `${list}-${at}`;
  const take = ({ act }: Finding): void => {
    onClose();
    if (typeof act === "string") navigate(act);
    else act();
  };
  const change = (next: string): void => {
    onType(next);
    setChosen(0);
    const byId = findingById(next);
    if (byId !== undefined) take(byId);
  };
  const press = (event: KeyboardEvent): void => {
    if (event.nativeEvent.isComposing) return;
    const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };
    const step = steps[event.key];
    const finding = findings[index];
    if (step !== undefined && findings.length > 0) setChosen((index + step + findings.length) % findings.length);
    else if (event.key === "Enter" && finding !== undefined) take(finding);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <input
        // biome-ignore lint/a11y/noAutofocus: it takes the place of the field that had the focus while the search was loaded
        autoFocus
        className="find-input"
        name="find"
        role="combobox"
        aria-expanded={findings.length > 0}
        aria-controls={list}
        aria-activedescendant={findings.length === 0 ? undefined : optionId(index)}
        aria-autocomplete="list"
        aria-label="Find a screen, an agent, a mandate, a tool, an id or a command"
        placeholder="An agent, a mandate, a tool, an id, a command …"
        value={text}
        onChange={({ target }) => change(target.value)}
        onKeyDown={press}
        maxLength={MAX_SHOWN}
        autoComplete="off"
        spellCheck={false}
      />
      <Options id={list} findings={findings} chosen={index} optionId={optionId} onChoose={setChosen} onTake={take} />
      <p className="find-state hint" role="status">
        {stateText(findings.length, isPending)}
        {errors.length === 0 ? null : (
          <span className="fault-text">
            {" "}
            <Message text={faultText(errors[0])} />
          </span>
        )}
      </p>
      <p className="find-keys hint" aria-hidden>
        <kbd>↑</kbd> <kbd>↓</kbd> choose · <kbd>Enter</kbd> open · <kbd>Esc</kbd> close
      </p>
    </>
  );
}

function stateText(count: number, isPending: boolean): string {
  if (isPending) return "Searching …";
  if (count === 0) return "Nothing is called that. Agents are found by the beginning of their name.";
  return `${count.toLocaleString("en")} ${count === 1 ? "result" : "results"}`;
}

interface OptionsProps {
  readonly id: string;
  readonly findings: readonly Finding[];
  readonly chosen: number;
  readonly optionId: (index: number) => string;
  readonly onChoose: (index: number) => void;
  readonly onTake: (finding: Finding) => void;
}

function Options({ id, findings, chosen, optionId, onChoose, onTake }: OptionsProps) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    place.current?.querySelector(`[data-index="${chosen}"]`)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const kinds = [...new Set(findings.map(({ kind }) => kind))];
  return (
    <div ref={place} id={id} className="find-list" role="listbox" aria-label="Results" tabIndex={-1}>
      {kinds.map((kind) => (
        // biome-ignore lint/a11y/useSemanticElements: a group of options, which a fieldset is not
        <div key={kind} role="group" aria-label={kind}>
          <p className="find-kind" aria-hidden>
            {kind}
          </p>
          {findings.map((finding, index) =>
            finding.kind === kind ? (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the keys belong to the input, which keeps the focus
              // biome-ignore lint/a11y/useFocusableInteractive: the input keeps the focus
              <div
                key={finding.id}
                id={optionId(index)}
                role="option"
                aria-selected={index === chosen}
                className="find-option"
                data-id={finding.id}
                data-index={index}
                onPointerMove={() => index !== chosen && onChoose(index)}
                onPointerDown={(event) => event.preventDefault()}
                onClick={() => onTake(finding)}
              >
                <Icon name={finding.icon} />
                <span className="find-title">
                  <Shown text={finding.title.slice(0, MAX_SHOWN)} />
                </span>
                {finding.detail === undefined ? null : (
                  <span className="find-detail hint">
                    <Shown text={finding.detail.slice(0, MAX_SHOWN)} />
                  </span>
                )}
              </div>
            ) : null,
          )}
        </div>
      ))}
    </div>
  );
}
