/** Schemes whose addresses have one normal form, by the URL standard. */
const SPECIAL = /^(https?|wss?|ftp|file):/i;
/** Percent-encoded letters, digits and `-._~`, which mean the same as the characters (RFC 3986 §2.3). */
const NEEDLESSLY_ENCODED = /%(2[de]|3\d|4[1-9a-f]|5[\daf]|6[1-9a-f]|7[\dae])/i;
const DOT_SEGMENT = /(^|[/:])\.{1,2}(?=[/?#]|$)/;

/**
 * Explains why a resource's address could name another resource than rules read in it, so that `file:///public/../secret` is no way
 * around a rule about `file:///secret`. Undefined for an address in its normal form, whatever its letter case.
 */
export function uriFault(uri: string): string | undefined {
  if (/\p{Cc}/u.test(uri) || uri !== uri.trim()) return "must not hold control characters, nor spaces at its ends";
  if (NEEDLESSLY_ENCODED.test(uri)) return "must not percent-encode letters, digits, `-`, `.`, `_` or `~`";
  const [path = ""] = uri.split(/[?#]/);
  if (DOT_SEGMENT.test(path)) return "must not hold the segments `.` and `..`";
  return SPECIAL.test(uri) ? specialFault(uri, path) : undefined;
}

function specialFault(uri: string, path: string): string | undefined {
  const isFile = /^file:/i.test(uri);
  if (isFile && /^file:\/\/\/.*(\/\/|%2f|%5c)/is.test(path)) return "must not hold empty segments or encoded slashes";
  if (isFile && /^file:\/{4}/i.test(path)) return "must not hold empty segments or encoded slashes";
  if (!URL.canParse(uri)) return "must be a URL";
  const url = new URL(uri);
  if (url.username !== "" || url.password !== "") return "must not name a user";
  if (url.hostname.endsWith(".")) return "must not name a host with a dot at its end";
  const isNormal = [url.href, url.href.replace(/\/$/, "")].some((href) => comparable(href) === comparable(uri));
  return isNormal ? undefined : `must be in its normal form, ${isFile ? "`file:///path`" : "`https://host/path`"}`;
}

/** Brings an address into lower case, with the characters that it may hold encoded or not. */
function comparable(uri: string): string {
  try {
    return decodeURI(uri).toLowerCase();
  } catch {
    return uri.toLowerCase();
  }
}
