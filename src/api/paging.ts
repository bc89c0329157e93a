import { createHash } from "node:crypto";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 500;

/** Longest token that is parsed, in characters: one may hold a URI. */
const MAX_TOKEN = 8_192;

/** A value that narrows a list. Tokens of one filter are refused by every other. */
type FilterValue = string | number | bigint | undefined;

/** One page of a list, as a request asks for it. */
export interface Page<Position extends number | string> {
  /** Maximum number of items, 1 to 500; 50 when the request names no size. */
  readonly size: number;
  /** The position to continue after; undefined for the first page. */
  readonly after: Position | undefined;
  /** Returns the token that continues after a position; undefined, when the position is, on the last page. */
  tokenAfter(position: Position | undefined): string | undefined;
}

/** The paging fields that every list request has. */
export interface PageRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

/** Reads the page of a list that is ordered by a number. Throws INVALID_PAGE_TOKEN. */
export function pageFrom(request: PageRequest, list: string, ...filter: readonly FilterValue[]): Page<number> {
  return createPage(request, digestOfList(list, filter), isIndex);
}

/** Reads the page of a list that is ordered by a name or id. Throws INVALID_PAGE_TOKEN. */
export function namePageFrom(request: PageRequest, list: string, ...filter: readonly FilterValue[]): Page<string> {
  return createPage(request, digestOfList(list, filter), isStorableText);
}

const isIndex = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

// PostgreSQL cannot hold U+0000 in a text, so no token of ours contains it.
const isStorableText = (value: unknown): value is string => typeof value === "string" && !value.includes("\u0000");

function createPage<Position extends number | string>(
  { pageSize, pageToken }: PageRequest,
  digest: string,
  isPosition: (value: unknown) => value is Position,
): Page<Position> {
  const after = pageToken === "" ? undefined : positionIn(pageToken, digest);
  if (after !== undefined && !isPosition(after)) throw invalidToken();
  return {
    size: pageSize <= 0 ? DEFAULT_PAGE_SIZE : Math.min(pageSize, MAX_PAGE_SIZE),
    after,
    tokenAfter: (position) =>
      position === undefined ? undefined : Buffer.from(JSON.stringify([digest, position])).toString("base64url"),
  };
}

/** Digests a list's name and filter: a filter may be longer than a token is allowed to be. */
function digestOfList(list: string, filter: readonly FilterValue[]): string {
  const text = JSON.stringify([list, ...filter.map((value) => (value === undefined ? null : String(value)))]);
  return createHash("sha256").update(text).digest("base64url").slice(0, 16);
}

function positionIn(token: string, digest: string): unknown {
  if (token.length > MAX_TOKEN) throw invalidToken();
  try {
    const parsed: unknown = JSON.parse(Buffer.from(token, "base64url").toString());
    if (Array.isArray(parsed) && parsed.length === 2 && parsed[0] === digest) return parsed[1];
  } catch {
    // Not JSON: reported below, like any other token that was not issued here.
  }
  throw invalidToken();
}

function invalidToken(): ControlPlaneError {
  const field = "page_token";
  const description = "was not issued for this list; send `next_page_token` of the previous page with the same filter";
  return new ControlPlaneError(
    ErrorReason.INVALID_PAGE_TOKEN,
    `\`${field}\` ${description}`,
    { field },
    { violations: [{ field, description, reason: "INVALID_PAGE_TOKEN" }] },
  );
}
