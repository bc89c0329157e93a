import { createHash, timingSafeEqual } from "node:crypto";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** Header with the CSRF token, which a call with the cookie needs. */
export const CSRF_HEADER = "x-csrf-token";
const NAME = "acp_sign_in";
const SECRET = /^acps_[a-z2-7]{1,100}$/;

/**
 * Cookie of a sign-in to the dashboard. Scripts cannot read it, and requests from other sites do not carry it. Where browsers
 * reach the service over TLS, its name begins with `__Host-`: no other host and no page without TLS can then set it, and the plain
 * name counts for nothing.
 */
export class SignInCookie {
  readonly #name: string;
  readonly #attributes: string;

  /** `isSecure`: true if browsers reach the service over TLS. */
  constructor(isSecure: boolean) {
    this.#name = isSecure ? `__Host-${NAME}` : NAME;
    this.#attributes = `Path=/; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`;
  }

  /** Returns the secret in a `Cookie` header; empty for a value that is no secret, undefined without the cookie. */
  secretIn(header: string | undefined): string | undefined {
    const value = header === undefined ? undefined : cookieValue(header, this.#name);
    if (value === undefined || value === "") return undefined;
    return SECRET.test(value) ? value : "";
  }

  /** Writes the cookie for `Set-Cookie`. */
  text(secret: string, maxAgeSeconds: number): string {
    return `${this.#name}=${secret}; ${this.#attributes}; Max-Age=${maxAgeSeconds}`;
  }

  /** The text that removes the cookie. */
  get cleared(): string {
    return this.text("", 0);
  }
}

/**
 * Tests whether browsers reach the service over TLS: by its public address, else by its own port. `publicUrl`: undefined for the
 * address of the request.
 */
export const isReachedOverTls = (publicUrl: string | undefined, isOwnPortTls: boolean): boolean =>
  publicUrl?.startsWith("https:") ?? isOwnPortTls;

/** Returns the value of the first cookie with a name. */
export function cookieValue(header: string, name: string): string | undefined {
  for (const pair of header.split(/; */)) {
    const at = pair.indexOf("=");
    if (at >= 0 && pair.slice(0, at) === name) return pair.slice(at + 1);
  }
  return undefined;
}

/** Derives the CSRF token of a sign-in. Only a page that read a response to this sign-in knows it. */
export function csrfTokenOf(secret: string): string {
  return createHash("sha256").update(`csrf ${secret}`).digest("base64url");
}

/** Throws CSRF_TOKEN_INVALID unless a token belongs to a sign-in. */
export function assertCsrfToken(secret: string, token: string | undefined): void {
  const [wanted, given] = [csrfTokenOf(secret), token ?? ""].map((text) => Buffer.from(text));
  if (wanted !== undefined && given?.length === wanted.length && timingSafeEqual(wanted, given)) return;
  const text = `a call with the dashboard's cookie needs the \`${CSRF_HEADER}\` that signing in returned`;
  throw new ControlPlaneError(ErrorReason.CSRF_TOKEN_INVALID, text, { header: CSRF_HEADER });
}
