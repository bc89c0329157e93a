import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** Step of a path in a request: a field name, a map key or a list index. */
export type PathStep = string | number;

/** Maximum length of a printed step, in UTF-16 units: callers choose keys, which may be as long as the body. */
const MAX_STEP_LENGTH = 80;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Formats a path as `rules[2].conditions["a b"]`, with brackets around steps that are not identifiers. */
export function fieldPathText(steps: readonly PathStep[]): string {
  let text = "";
  for (const step of steps) {
    if (typeof step === "number") text += `[${step}]`;
    else if (step.length > MAX_STEP_LENGTH) text += `[${JSON.stringify(`${step.slice(0, MAX_STEP_LENGTH)}…`)}]`;
    else if (!NAME.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text;
}

/** Reasons for refusing one request field. */
export type FieldFaultReason = "INVALID_FIELD" | "UNKNOWN_FIELD" | "DUPLICATE_FIELD";

/** Creates the error for one request field. `description` continues the field's name: "must be …". */
export function fieldFault(
  reason: FieldFaultReason,
  field: string,
  description: string,
  metadata: Readonly<Record<string, string>> = {},
): ControlPlaneError {
  return new ControlPlaneError(
    ErrorReason[reason],
    `\`${field}\` ${description}`,
    { field, ...metadata },
    { violations: [{ field, description, reason }] },
  );
}
