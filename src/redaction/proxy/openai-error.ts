import { codeFromReason, codeName, controlPlaneErrorFrom, ErrorReason, httpStatusFromReason } from "../../errors.ts";

/** An error as OpenAI's interface writes it. */
export interface OpenAiError {
  readonly status: number;
  readonly body: { readonly error: { message: string; type: string; param: string | null; code: string | null } };
}

const TYPE_BY_STATUS: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [429, "rate_limit_error"],
]);

function typeOf(status: number): string {
  return TYPE_BY_STATUS.get(status) ?? (status >= 500 ? "server_error" : "invalid_request_error");
}

/** Anything thrown as OpenAI's error; the code is the reason in lower case. An unknown fault has a fixed text. */
export function openAiErrorFrom(error: unknown): OpenAiError {
  const fault = controlPlaneErrorFrom(error);
  const status = httpStatusFromReason(fault.reason);
  const code = (ErrorReason[fault.reason] ?? codeName(codeFromReason(fault.reason))).toLowerCase();
  const param = fault.violations[0]?.field ?? null;
  return { status, body: { error: { message: fault.message, type: typeOf(status), param, code } } };
}

/** An upstream's error that came in no form that is known. */
export function plainOpenAiError(status: number, message: string): OpenAiError {
  return { status, body: { error: { message, type: typeOf(status), param: null, code: null } } };
}
