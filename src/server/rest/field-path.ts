import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** A step on the way to a value in a request: a field name or map key, or a list index. */
export type PathStep = string | number;

/** Longest step that is written out, in UTF-16 units: a key of the caller's choice may be as long as the body. */
const MAX_STEP_LENGTH = 80;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Writes a path as `rules[2].conditions["a b"]`: a step that is not an identifier goes in brackets. */
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

/** The reasons for which one request field is refused. */
export type FieldFaultReason = "INVALID_FIELD" | "UNKNOWN_FIELD" | "DUPLICATE_FIELD";

/** The error for one request field: `description` says, after the field's name, what is wrong with it. */
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
