import { createHash, timingSafeEqual } from "node:crypto";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** Header that a call with the cookie carries. */
export const CSRF_HEADER = "x-csrf-token";
const COOKIE = "acp_sign_in";
const SECRET = /(?:^|;\s*)acp_sign_in=(acps_[a-z2-7]{1,100})(?:;|$)/;

/** Returns what the cookie of a sign-in holds; undefined without one. */
export function signInFromCookie(header: string | undefined): string | undefined {
  return header === undefined ? undefined : SECRET.exec(header)?.[1];
}

/** Makes the cookie of a sign-in: no script reads it, and no other site's requests carry it. */
export function signInCookie(secret: string, { maxAgeSeconds, isSecure }: CookieOptions): string {
  const secure = isSecure ? "; Secure" : "";
  return `${COOKIE}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}${secure}`;
}

/** Options of the cookie. */
interface CookieOptions {
  readonly maxAgeSeconds: number;
  /** True where browsers reach the service over TLS. */
  readonly isSecure: boolean;
}

/** Derives the token that belongs to a sign-in; only who has read an answer to that sign-in knows it. */
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
