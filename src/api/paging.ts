import { createHash } from "node:crypto";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Items of a page when the request names no size. */
export const DEFAULT_PAGE_SIZE = 50;
/** Items of a page at most. */
export const MAX_PAGE_SIZE = 500;

/** Longest token that is looked at, in characters. */
const MAX_TOKEN = 512;

/** How many items the page of a request has: `page_size`, or `DEFAULT_PAGE_SIZE` for 0. Never above `MAX_PAGE_SIZE`. */
export function pageSizeFrom(request: { readonly pageSize: number }): number {
  const { pageSize } = request;
  return pageSize <= 0 ? DEFAULT_PAGE_SIZE : Math.min(pageSize, MAX_PAGE_SIZE);
}

/** Names a list with its filter, so that a token of one is refused by every other. */
export function pageKind(list: string, ...filter: readonly (string | number | bigint | undefined)[]): string {
  return JSON.stringify([list, ...filter.map((each) => (each === undefined ? null : String(each)))]);
}

/** A filter may be longer than a token may be; its digest tells filters apart as well. */
const markOf = (kind: string): string => createHash("sha256").update(kind).digest("base64url").slice(0, 16);

/** The token that continues a list after a position. `kind` is as `pageKind` gives it. */
export function encodePageToken(kind: string, position: number | string): string {
  return Buffer.from(JSON.stringify([markOf(kind), position])).toString("base64url");
}

/** The token of the next page, or undefined when the position is: the page is the last. */
export function nextPageToken(kind: string, position: number | string | undefined): string | undefined {
  return position === undefined ? undefined : encodePageToken(kind, position);
}

function invalidToken(): ControlPlaneError {
  const field = "page_token";
  const description = "was not issued for this list; send `next_page_token` of the page before with the same filter";
  const violations = [{ field, description, reason: "INVALID_PAGE_TOKEN" }];
  return new ControlPlaneError(
    ErrorReason.INVALID_PAGE_TOKEN,
    `\`${field}\` ${description}`,
    { field },
    { violations },
  );
}

function positionFrom(kind: string, token: string): unknown {
  if (token.length > MAX_TOKEN) throw invalidToken();
  try {
    const parsed: unknown = JSON.parse(Buffer.from(token, "base64url").toString());
    if (Array.isArray(parsed) && parsed.length === 2 && parsed[0] === markOf(kind)) return parsed[1];
  } catch {
    // Told below: what is no JSON was not issued here.
  }
  throw invalidToken();
}

/** The whole number that a token continues after; undefined for an empty token. Throws INVALID_PAGE_TOKEN. */
export function decodePageToken(kind: string, token: string): number | undefined {
  if (token === "") return undefined;
  const position = positionFrom(kind, token);
  if (typeof position !== "number" || !Number.isSafeInteger(position) || position < 0) throw invalidToken();
  return position;
}

/** The name or id that a token continues after; undefined for an empty token. Throws INVALID_PAGE_TOKEN. */
export function decodeNamePageToken(kind: string, token: string): string | undefined {
  if (token === "") return undefined;
  const position = positionFrom(kind, token);
  // PostgreSQL has no text with U+0000: such a token was made by hand.
  if (typeof position !== "string" || position.includes("\u0000")) throw invalidToken();
  return position;
}
