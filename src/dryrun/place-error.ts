import { ControlPlaneError } from "../errors.ts";

/** Returns an error whose fields stand below a path of the request; any other error as it is. */
export function errorBelow(path: string, error: unknown): unknown {
  if (!(error instanceof ControlPlaneError)) return error;
  const { reason, message, metadata, violations, cause } = error;
  const placed = violations.map((violation) => ({ ...violation, field: `${path}.${violation.field}` }));
  const field = metadata.field === undefined ? {} : { field: `${path}.${metadata.field}` };
  const text = `\`${path}\`: ${message}`;
  return new ControlPlaneError(reason, text, { ...metadata, ...field }, { cause, violations: placed });
}
