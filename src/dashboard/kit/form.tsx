import { ConnectError } from "@connectrpc/connect";
import { createContext, type FormEvent, type ReactNode, useContext, useId, useRef } from "react";
import { type RequestFieldViolation, requestErrorFrom } from "../../client/request-error.ts";
import { Button } from "./button.tsx";
import { Field, type FieldProps } from "./field.tsx";
import { FormValues } from "./form-values.ts";
import { Fault } from "./states.tsx";

/** Properties of a form. Its controls are named after the fields of the request, in snake_case. */
export interface FormProps {
  readonly action: string;
  readonly submit: string;
  readonly isBusy: boolean;
  /** Error of the last attempt. Its field violations are shown at their fields. */
  readonly error: unknown;
  readonly onSubmit: (values: FormValues) => void;
  readonly onCancel?: (() => void) | undefined;
  /** Returns to the previous step. */
  readonly onBack?: (() => void) | undefined;
  /** Disables submitting. */
  readonly isDisabled?: boolean | undefined;
  readonly tone?: "primary" | "danger" | undefined;
  readonly children: ReactNode;
}

const ViolationsContext = createContext<readonly RequestFieldViolation[]>([]);

/** A fault of one field, found by the page itself. */
export class FieldError extends Error {
  override readonly name = "FieldError";
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

function violationsOf(error: unknown): readonly RequestFieldViolation[] {
  if (error instanceof FieldError) return [{ field: error.field, description: error.message, reason: "INVALID" }];
  return error instanceof ConnectError ? requestErrorFrom(error).violations : [];
}

/** Returns the name of a field's control, which is the field without list indexes: `a.b` for `a.b[2]`. */
const controlOf = (field: string): string => field.replaceAll(/\[\d+\]/g, "");

/** A form. Faults of its fields are shown at them, other faults above the buttons. */
export function Form(props: FormProps) {
  const { action, submit, tone = "primary", isBusy, isDisabled = false, error, onSubmit, onCancel, onBack } = props;
  const form = useRef<HTMLFormElement>(null);
  const violations = violationsOf(error);
  const hasPlace = ({ field }: RequestFieldViolation): boolean =>
    form.current !== null && form.current.elements.namedItem(controlOf(field)) !== null;
  const isPlaced = violations.length > 0 && violations.every(hasPlace);
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    onSubmit(new FormValues(new FormData(event.currentTarget)));
  };
  return (
    <form ref={form} className="stack" onSubmit={send} noValidate>
      <ViolationsContext value={violations}>{props.children}</ViolationsContext>
      {error === null || error === undefined || isPlaced ? null : <Fault error={error} />}
      <div className="dialog-actions">
        {onBack === undefined ? null : (
          <Button action="back" onClick={onBack}>
            Back
          </Button>
        )}
        {onCancel === undefined ? null : (
          <Button action="cancel" onClick={onCancel}>
            Cancel
          </Button>
        )}
        <Button type="submit" action={action} tone={tone} isBusy={isBusy} disabled={isDisabled}>
          {submit}
        </Button>
      </div>
    </form>
  );
}

/** Returns the fault of a field; for a list, with the line that it is in. */
function useFault(name: string): string | undefined {
  const found = useContext(ViolationsContext).filter(({ field }) => controlOf(field) === name);
  if (found.length === 0) return undefined;
  const texts = found.map(({ field, description }) => {
    const line = /\[(\d+)\]/.exec(field)?.[1];
    return line === undefined ? description : `line ${Number(line) + 1}: ${description}`;
  });
  return texts.slice(0, 5).join("; ");
}

/** Properties of a control of a form. */
export interface FormFieldProps {
  readonly name: string;
  readonly label: string;
  readonly hint?: ReactNode;
}

/** A line of text. A secret is hidden while it is typed. */
export function TextField({
  name,
  label,
  hint,
  defaultValue,
  isSecret = false,
  suggestions = [],
  onChange,
}: FormFieldProps & {
  readonly defaultValue?: string | undefined;
  readonly isSecret?: boolean;
  readonly suggestions?: readonly Suggestion[];
  readonly onChange?: (value: string) => void;
}) {
  const list = useId();
  return (
    <Field label={label} hint={hint} fault={useFault(name)}>
      {(control) => (
        <>
          <input
            {...control}
            name={name}
            type={isSecret ? "password" : "text"}
            defaultValue={defaultValue}
            onChange={({ target }) => onChange?.(target.value)}
            autoComplete={isSecret ? "new-password" : "off"}
            spellCheck={false}
            list={suggestions.length === 0 ? undefined : list}
          />
          <datalist id={list}>
            {suggestions.map(({ value, title }) => (
              <option key={value} value={value}>
                {title}
              </option>
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

/** A value that a text field offers. */
export interface Suggestion {
  readonly value: string;
  /** Name of the value; empty if it needs none. */
  readonly title: string;
}

/** A text of several lines; for a list, one item per line. */
export function AreaField({
  name,
  label,
  hint,
  defaultValue,
}: FormFieldProps & { readonly defaultValue?: string | undefined }) {
  return (
    <Field label={label} hint={hint} fault={useFault(name)}>
      {(control) => <textarea {...control} name={name} defaultValue={defaultValue} rows={3} spellCheck={false} />}
    </Field>
  );
}

/** A number; an empty control leaves it unset. */
export function NumberField({
  name,
  label,
  hint,
  defaultValue,
}: FormFieldProps & { readonly defaultValue?: number | undefined }) {
  return (
    <Field label={label} hint={hint} fault={useFault(name)}>
      {(control) => (
        <input {...control} name={name} defaultValue={defaultValue} inputMode="decimal" autoComplete="off" />
      )}
    </Field>
  );
}

/** One of a few choices. */
export function SelectField({
  name,
  label,
  hint,
  defaultValue,
  options,
  onChange,
}: FormFieldProps & {
  readonly defaultValue?: string | number | undefined;
  readonly options: readonly { readonly value: string | number; readonly title: string }[];
  readonly onChange?: (value: string) => void;
}) {
  return (
    <Field label={label} hint={hint} fault={useFault(name)}>
      {(control) => (
        <select
          {...control}
          name={name}
          defaultValue={defaultValue}
          onChange={({ target }) => onChange?.(target.value)}
        >
          {options.map(({ value, title }) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A choice between yes and no, as a checkbox. */
export function FlagField({
  name,
  label,
  hint,
  defaultChecked = false,
}: FormFieldProps & { readonly defaultChecked?: boolean }) {
  const fault = useFault(name);
  return (
    <div className="field">
      <label className="row">
        <input type="checkbox" name={name} defaultChecked={defaultChecked} aria-invalid={fault !== undefined} />
        {label}
      </label>
      {hint === undefined ? null : <p className="hint">{hint}</p>}
      {fault === undefined ? null : (
        <p className="fault-text" role="alert">
          {fault}
        </p>
      )}
    </div>
  );
}

const UNITS = [
  { value: 1, title: "seconds" },
  { value: 60, title: "minutes" },
  { value: 3_600, title: "hours" },
  { value: 86_400, title: "days" },
] as const;

/** A duration with a choice of units; an empty control leaves it unset. */
export function DurationField({
  name,
  label,
  hint,
  defaultSeconds,
}: FormFieldProps & { readonly defaultSeconds?: number | undefined }) {
  const fits = (unit: number): boolean => (defaultSeconds ?? 0) % unit === 0;
  const unit = defaultSeconds === undefined ? 3_600 : (UNITS.findLast(({ value }) => fits(value))?.value ?? 1);
  return (
    <Field label={label} hint={hint} fault={useFault(name)}>
      {(control) => (
        <div className="duration">
          <input
            {...control}
            name={name}
            defaultValue={defaultSeconds === undefined ? undefined : defaultSeconds / unit}
            inputMode="decimal"
            autoComplete="off"
          />
          <select name={`${name}.unit`} aria-label={`${label}: unit`} defaultValue={unit}>
            {UNITS.map(({ value, title }) => (
              <option key={value} value={value}>
                {title}
              </option>
            ))}
          </select>
        </div>
      )}
    </Field>
  );
}

/** A field around a given control. */
export function NamedField({ name, label, hint, children }: FormFieldProps & Pick<FieldProps, "children">) {
  return (
    <Field label={label} hint={hint} fault={useFault(name)}>
      {children}
    </Field>
  );
}
