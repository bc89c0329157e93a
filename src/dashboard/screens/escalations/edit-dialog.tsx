import type { JsonObject } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { type FormEvent, useMemo, useState } from "react";
import {
  type EditEscalationResponse,
  type Escalation,
  EscalationService,
  EscalationStatus,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { ToolArgument } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { requestErrorFrom } from "../../../client/request-error.ts";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { type ControlProps, Field } from "../../kit/field.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault } from "../../kit/states.tsx";
import { useEscalationFeed } from "../../live/use-escalations.tsx";
import { isWithin } from "./argument-rows.ts";
import { useToolArguments } from "./arguments-table.tsx";
import { Difference } from "./difference.tsx";
import {
  argumentsFrom,
  argumentsOfJson,
  changedNames,
  choicesOf,
  type EditedArgument,
  editedFrom,
  faultOf,
} from "./edited-arguments.ts";
import { firedArguments } from "./fired-argument.ts";

const { editEscalation } = EscalationService.method;

/** Says after an edit whether another person still has to approve it, as under four eyes. */
const doneText = ({ replacement }: EditEscalationResponse): string =>
  replacement?.status === EscalationStatus.PENDING
    ? "Changed. Another person has to approve it now."
    : "Approved with the changed arguments.";

/** Texts longer than this are edited in several lines. */
const LINE = 60;

/** Properties of the dialog. */
export interface EditDialogProps {
  readonly escalation: Escalation;
  /** Note that is there at first. */
  readonly note: string;
  readonly onClose: () => void;
}

/** Approves the action with other arguments: the person edits them, then confirms the difference. */
export function EditDialog({ escalation, note: first, onClose }: EditDialogProps) {
  const { escalationId, tool, arguments: before = {} } = escalation;
  const feed = useEscalationFeed();
  const { byPath: known } = useToolArguments(tool);
  // The schema may arrive after the form: the form follows it until the first edit.
  const [changed, setChanged] = useState<readonly EditedArgument[] | undefined>(undefined);
  const [json, setJson] = useState<string | undefined>(undefined);
  const [note, setNote] = useState(first);
  const [edited, setEdited] = useState<JsonObject | undefined>(undefined);
  const [fault, setFault] = useState<Error | undefined>(undefined);
  const fired = useMemo(() => firedArguments(escalation).map(({ path }) => path), [escalation]);
  const entries = changed ?? editedFrom({ args: before, before, known, fired });
  if (edited !== undefined) {
    const said = note.trim() === "" ? {} : { note: note.trim() };
    return (
      <ChangeDialog
        title="Edit and approve"
        submit="Approve the changed action"
        isWide
        isDisabled={changedNames(before, edited).length === 0}
        change={(call) => call(editEscalation, { escalationId, arguments: edited, ...said })}
        done={doneText}
        onDone={({ escalation: rejected, replacement }) => {
          feed.take(rejected);
          feed.take(replacement);
        }}
        onFault={setFault}
        onBack={() => setEdited(undefined)}
        onClose={onClose}
      >
        <Difference before={before} after={edited} />
      </ChangeDialog>
    );
  }
  return (
    <Dialog title="Edit and approve" isOpen onClose={onClose} closesBy="escape" isWide>
      <EditForm
        known={known}
        entries={entries}
        json={json}
        note={note}
        onClose={onClose}
        error={fault}
        onEntries={setChanged}
        onJson={(text) => {
          const parsed = text === undefined && json !== undefined ? argumentsOfJson(json) : undefined;
          if (typeof parsed === "object") setChanged(editedFrom({ args: parsed, before, known, fired }));
          setJson(text);
        }}
        onNote={setNote}
        onReview={(args) => {
          setFault(undefined);
          setEdited(args);
        }}
      />
    </Dialog>
  );
}

interface EditFormProps {
  readonly known: ReadonlyMap<string, ToolArgument>;
  readonly entries: readonly EditedArgument[];
  /** Arguments as JSON text, while they are edited as such. */
  readonly json: string | undefined;
  readonly note: string;
  /** Error of the last attempt. */
  readonly error: unknown;
  readonly onEntries: (entries: readonly EditedArgument[]) => void;
  readonly onJson: (json: string | undefined) => void;
  readonly onNote: (note: string) => void;
  readonly onReview: (args: JsonObject) => void;
  readonly onClose: () => void;
}

function EditForm(props: EditFormProps) {
  const { known, entries, json, note, error, onEntries, onJson, onNote, onReview, onClose } = props;
  const own = new Map(
    entries.flatMap(({ path, text, before, isSent }) => {
      const fault = isSent ? faultOf(text, known.get(path), before) : undefined;
      return fault === undefined ? [] : [[path, fault] as const];
    }),
  );
  const refused = faultsByArgument(error, entries);
  const parsed = json === undefined ? undefined : argumentsOfJson(json);
  const isFaulty = parsed === undefined ? own.size > 0 : typeof parsed === "string";
  const current = (): JsonObject => (typeof parsed === "object" ? parsed : argumentsFrom(entries, known));
  const review = (event: FormEvent): void => {
    event.preventDefault();
    if (!isFaulty) onReview(current());
  };
  const change = (entry: EditedArgument): void =>
    onEntries(entries.map((each) => (each.path === entry.path ? entry : each)));
  return (
    <form className="stack" onSubmit={review}>
      <p className="hint">
        The action with other arguments is a new action: the mandates decide it again, and both digests are in the log.
        Where the workspace wants four eyes, it then waits for another person.
      </p>
      {json === undefined ? (
        entries.map((entry) => (
          <ArgumentField
            key={entry.path}
            entry={entry}
            schema={known.get(entry.path)}
            fault={own.get(entry.path) ?? refused.get(entry.path)}
            onChange={change}
          />
        ))
      ) : (
        <Field label="Arguments as JSON" fault={typeof parsed === "string" ? parsed : undefined}>
          {(control) => (
            <textarea
              {...control}
              name="arguments"
              className="mono"
              rows={14}
              spellCheck={false}
              value={json}
              onChange={({ target }) => onJson(target.value)}
            />
          )}
        </Field>
      )}
      <Field label="Note" hint="Kept with both escalations.">
        {(control) => (
          <input
            {...control}
            name="note"
            maxLength={2_000}
            value={note}
            onChange={({ target }) => onNote(target.value)}
          />
        )}
      </Field>
      {error === null || error === undefined ? null : <Fault error={error} />}
      <div className="dialog-actions">
        <Button
          action={json === undefined ? "as-json" : "as-form"}
          tone="quiet"
          disabled={isFaulty}
          onClick={() => onJson(json === undefined ? JSON.stringify(current(), null, 2) : undefined)}
        >
          {json === undefined ? "Edit as JSON" : "Edit as a form"}
        </Button>
        <Button action="cancel" onClick={onClose}>
          Cancel
        </Button>
        <Button type="submit" action="review" tone="primary" disabled={isFaulty}>
          Show the difference
        </Button>
      </div>
    </form>
  );
}

/** Returns the service's violations by the paths of the entries that they are about. */
function faultsByArgument(error: unknown, entries: readonly EditedArgument[]): ReadonlyMap<string, string> {
  if (!(error instanceof ConnectError)) return new Map();
  const faults = new Map<string, string>();
  for (const { field, description } of requestErrorFrom(error).violations) {
    const path = /^arguments\.?(.+)/.exec(field)?.[1];
    if (path === undefined) continue;
    const entry =
      entries.find((each) => isWithin(path, each.path)) ?? entries.find((each) => isWithin(each.path, path));
    if (entry === undefined) continue;
    const before = faults.get(entry.path);
    const text = description.replaceAll("`", "");
    faults.set(entry.path, before === undefined ? text : `${before}; ${text}`);
  }
  return faults;
}

interface ArgumentFieldProps {
  readonly entry: EditedArgument;
  readonly schema: ToolArgument | undefined;
  readonly fault: string | undefined;
  readonly onChange: (entry: EditedArgument) => void;
}

function ArgumentField({ entry, schema, fault, onChange }: ArgumentFieldProps) {
  const { path, name, text, before, isSent } = entry;
  const told = [schema?.types.join(" or "), schema?.description].filter(Boolean).join(" · ");
  const label = shownText(name);
  const choices = choicesOf(schema, before);
  return (
    <div className="edited-argument">
      <Field
        label={label}
        hint={told === "" ? "not in the tool's schema" : <Shown text={told} />}
        fault={fault === undefined ? undefined : shownText(fault, 500)}
      >
        {(control) => {
          const named = { ...control, name: `argument.${path}`, value: text };
          const common = { ...named, spellCheck: false };
          // Typing into an argument that was left out includes it.
          const type = (next: string): void => onChange({ ...entry, text: next, isSent: true });
          if (choices.length > 0) return <Choices {...named} isSent={isSent} choices={choices} onChoose={type} />;
          return text.length > LINE || text.includes("\n") ? (
            <textarea
              {...common}
              className={schema?.types.some((each) => each === "array" || each === "object") ? "mono" : undefined}
              rows={4}
              onChange={({ target }) => type(target.value)}
            />
          ) : (
            <input
              {...common}
              autoComplete="off"
              placeholder={isSent ? undefined : "not sent"}
              onChange={({ target }) => type(target.value)}
            />
          );
        }}
      </Field>
      {isSent ? (
        <button
          type="button"
          className="link"
          aria-label={`Leave out ${label}`}
          onClick={() => onChange({ ...entry, text: "", isSent: false })}
        >
          leave out
        </button>
      ) : null}
    </div>
  );
}

interface ChoicesProps extends ControlProps {
  readonly name: string;
  readonly value: string;
  readonly isSent: boolean;
  readonly choices: readonly string[];
  readonly onChoose: (text: string) => void;
}

/** The values of an argument that its schema lists. A value that it does not list can be kept. */
function Choices({ value, isSent, choices, onChoose, ...control }: ChoicesProps) {
  const isOther = isSent && !choices.includes(value);
  return (
    <select {...control} value={isSent ? value : ""} onChange={({ target }) => onChoose(target.value)}>
      {isSent ? null : (
        <option value="" disabled>
          not sent
        </option>
      )}
      {isOther ? <option value={value}>{shownText(value)} (not in the schema)</option> : null}
      {choices.map((choice) => (
        <option key={choice} value={choice}>
          {shownText(choice)}
        </option>
      ))}
    </select>
  );
}
