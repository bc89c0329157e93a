/** Why nobody was signed in. */
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
  | "wrong-return"
  | "wrong-choice";

/** A sign-in that ends with a page about its fault. Holds nothing of what the issuer or a browser sent, but for a checked code. */
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
