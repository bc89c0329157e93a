import { useState } from "react";
import type { Person } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import type { ApproverGroup } from "../../../../gen/agentcontrol/v1/approver_group_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { NamedField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { Shown, shownText } from "../../kit/shown.tsx";

const MAX_NAME = 60;

/** Properties of the field. */
export interface PeopleFieldProps {
  readonly name: "members" | "deputies";
  readonly label: string;
  readonly hint?: string;
  /** People of the workspace, who are offered. */
  readonly people: readonly Person[];
  /** The group that is changed, which knows names. */
  readonly group: ApproverGroup | undefined;
  /** People and owners that are chosen at first. */
  readonly first: readonly string[];
}

/** Reads the people of a field, with what is typed and not added yet. */
export function peopleFrom(values: FormValues, name: PeopleFieldProps["name"]): string[] {
  const typed = values.optional(`${name}.new`);
  return typed === undefined ? values.all(name) : [...values.all(name), typed];
}

/** A list of people and owners of keys: people are chosen by their names, owners are typed. */
export function PeopleField({ name, label, hint, people, group, first }: PeopleFieldProps) {
  const [chosen, setChosen] = useState(first);
  const [typed, setTyped] = useState("");
  const names = new Map(group?.names.map((each) => [each.person, each.name]));
  for (const person of people) if (person.name !== "") names.set(person.actor, person.name);
  const offered = people.filter(({ actor, deactivatedAt }) => deactivatedAt === undefined && !chosen.includes(actor));
  const add = (person: string): void => {
    const trimmed = person.trim();
    if (trimmed === "") return;
    setChosen((before) => (before.includes(trimmed) ? before : [...before, trimmed]));
    setTyped("");
  };
  return (
    <fieldset className="people-field" data-field={name}>
      <legend>{label}</legend>
      {chosen.length === 0 ? null : (
        <ol className="approver-people">
          {chosen.map((person) => (
            <li key={person} data-person={person}>
              <input type="hidden" name={name} value={person} />
              <PersonLine person={person} name={names.get(person)} />
              <Button
                action="remove-person"
                tone="quiet"
                aria-label={`Remove ${shownText(names.get(person) ?? person, MAX_NAME)}`}
                onClick={() => setChosen((before) => before.filter((each) => each !== person))}
              >
                Remove
              </Button>
            </li>
          ))}
        </ol>
      )}
      {offered.length === 0 ? null : (
        <select
          name={`${name}.person`}
          aria-label={`Add a person: ${label}`}
          value=""
          onChange={({ target }) => add(target.value)}
        >
          <option value="">Add a person …</option>
          {offered.map(({ actor, name: own, email }) => (
            <option key={actor} value={actor}>
              {shownText(own === "" ? actor : own, MAX_NAME)}
              {email === undefined || email === own ? "" : ` (${shownText(email, MAX_NAME)})`}
            </option>
          ))}
        </select>
      )}
      <NamedField
        name={name}
        label={offered.length === 0 ? "Person or owner of keys" : "Another person, or an owner of keys"}
        hint={`${hint === undefined ? "" : `${hint} `}A person is oidc:{issuer}|{subject}; an owner is as keys have it.`}
      >
        {(control) => (
          <div className="people-typed">
            <input
              {...control}
              name={`${name}.new`}
              value={typed}
              onChange={({ target }) => setTyped(target.value)}
              onKeyDown={(event) => {
                if (event.key !== "Enter" || event.nativeEvent.isComposing || typed.trim() === "") return;
                event.preventDefault();
                add(typed);
              }}
              autoComplete="off"
              spellCheck={false}
            />
            <Button action={`add-${name}`} disabled={typed.trim() === ""} onClick={() => add(typed)}>
              Add
            </Button>
          </div>
        )}
      </NamedField>
    </fieldset>
  );
}

/** Properties of a line. */
export interface PersonLineProps {
  /** The person, or owner of keys, as the log has it. */
  readonly person: string;
  /** Name of the person; undefined if none is known. */
  readonly name: string | undefined;
}

/** A person by name with the id beside it, or an owner of keys. */
export function PersonLine({ person, name }: PersonLineProps) {
  return (
    <span className="approver-person">
      {name === undefined || name === "" || name === person ? null : (
        <>
          <strong>
            <Shown text={name} />
          </strong>{" "}
        </>
      )}
      <span className={name === undefined ? undefined : "hint"}>
        <Shown text={person} />
      </span>
    </span>
  );
}
