/** Reason for which a sign-in failed. */
export type OidcFault =
  | "unreachable"
  | "busy"
  | "expired"
  | "wrong-state"
  | "denied"
  | "unproven"
  | "no-name"
  | "no-group"
  | "no-workspace"
  | "deactivated"
  | "ended"
  | "wrong-return"
  | "wrong-choice";

/** A failed sign-in, which ends with a page about its fault. Except for a checked code it contains nothing that was received. */
export class OidcRefusal extends Error {
  override readonly name = "OidcRefusal";
  readonly fault: OidcFault;
  /** An error code of OAuth or of the library, for the log and the page. */
  readonly code: string | undefined;

  constructor(fault: OidcFault, code?: string) {
    super(fault);
    this.fault = fault;
    this.code = code;
  }
}
