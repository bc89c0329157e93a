import { createHash, timingSafeEqual } from "node:crypto";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** Header with the CSRF token, which a call with the cookie needs. */
export const CSRF_HEADER = "x-csrf-token";
const COOKIE = "acp_sign_in";
const SECRET = /(?:^|;\s*)acp_sign_in=(acps_[a-z2-7]{1,100})(?:;|$)/;

/** Returns the secret in the cookie of a sign-in. */
export function signInFromCookie(header: string | undefined): string | undefined {
  return header === undefined ? undefined : SECRET.exec(header)?.[1];
}

/** Creates the cookie of a sign-in. Scripts cannot read it, and requests from other sites do not carry it. */
export function signInCookie(secret: string, { maxAgeSeconds, isSecure }: CookieOptions): string {
  const secure = isSecure ? "; Secure" : "";
  return `${COOKIE}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}${secure}`;
}

/** Options of the cookie. */
interface CookieOptions {
  readonly maxAgeSeconds: number;
  /** True if browsers reach the service over TLS. */
  readonly isSecure: boolean;
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
