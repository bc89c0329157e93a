import { type ReactNode, useId } from "react";

/** Properties that a field passes to its control. */
export interface ControlProps {
  readonly id: string;
  readonly "aria-describedby": string;
  readonly "aria-invalid": boolean;
}

/** Properties of a field. */
export interface FieldProps {
  readonly label: string;
  readonly hint?: ReactNode;
  /** Fault of the value, with the change that mends it. */
  readonly fault?: string | undefined;
  readonly children: (control: ControlProps) => ReactNode;
}

/** A labelled control with its hint and its fault. */
export function Field({ label, hint, fault, children }: FieldProps) {
  const id = useId();
  const more = `${id}-more`;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": more, "aria-invalid": fault !== undefined })}
      <div id={more}>
        {hint === undefined ? null : <p className="hint">{hint}</p>}
        {fault === undefined ? null : (
          <p className="fault-text" role="alert">
            {fault}
          </p>
        )}
      </div>
    </div>
  );
}
