import { domainToASCII } from "node:url";
import { trimmedText } from "./fold.ts";

/** Hosts of names, URLs and e-mail addresses, in the form in which they compare. */

/** Maximum characters of a host name (RFC 1035), and of a text before it that is read as one. */
const MAX_HOST = 253;
const MAX_RAW_HOST = 1_024;
const HOST = /^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
const IPV4 = /^\d+(?:\.\d+){3}$/;
const BARE_IPV6 = /^[0-9a-f]*:[0-9a-f.]*:[0-9a-f:.]*$/i;
const IPV6 = /^\[[0-9a-f:.]+\]$/;
/** Characters that no host name has; the parser would take some of them for the end of the host. */
const NOT_IN_HOST = /[\s\p{Cc}/\\?#@%<>^|*,;'"`(){}]/u;

/** Tests whether a host, in the form in which hosts compare, is an IP address. */
export const isAddress = (host: string): boolean => IPV4.test(host) || IPV6.test(host);

/**
 * Returns a host name or IP address in the form in which hosts compare: lower case, A-labels, without the dot of the root.
 * Undefined for a text that is no host.
 */
export function hostForm(text: string): string | undefined {
  const raw = BARE_IPV6.test(text) ? `[${text}]` : text;
  if (raw === "" || raw.length > MAX_RAW_HOST || NOT_IN_HOST.test(raw)) return undefined;
  const isBracketed = raw.startsWith("[");
  if (!isBracketed && raw.includes(":")) return undefined;
  const ascii = domainToASCII(raw).replace(/\.$/, "");
  if (isBracketed) return IPV6.test(ascii) ? ascii : undefined;
  return ascii.length <= MAX_HOST && HOST.test(ascii) ? ascii : undefined;
}

/** Characters that part one URL from the next, or that programs read in several ways. */
const NOT_IN_URL = /[\s\p{Cc}\\<>"]/u;
/** A scheme without the slashes after it, which some programs add: what follows is no port then. */
const SCHEME_ALONE = /^(?:(?:https?|wss?|ftp|file):(?!\/\/)|[a-z][a-z0-9+.-]*:(?!\/\/|\d))/iu;
/** The part of a URL before its authority. */
const BEFORE_AUTHORITY = /^(?:[a-z][a-z0-9+.-]*:)?\/\//iu;
const AUTHORITY = /^[^/?#]*/u;
const PORT = /:\d{1,5}$/;

/**
 * Returns the host of a URL, or of a host with or without a port. Undefined where programs differ in what the host is: for
 * credentials, backslashes, blanks within, a scheme without `//`, and anything else that is no host.
 */
export function hostOf(text: string): string | undefined {
  const whole = trimmedText(text);
  if (NOT_IN_URL.test(whole)) return undefined;
  if (SCHEME_ALONE.test(whole) && !BARE_IPV6.test(whole)) return undefined;
  const [authority = ""] = AUTHORITY.exec(whole.replace(BEFORE_AUTHORITY, "")) ?? [];
  if (authority.length > MAX_RAW_HOST) return undefined;
  return hostForm(BARE_IPV6.test(authority) ? authority : authority.replace(PORT, ""));
}

/** A display name before an address in angle brackets: quoted, or without the characters that separate addresses. */
const DISPLAY_NAME = /^(?:"[^"\\]*"|[^"@,;:<>\\]*)$/u;
const LOCAL_PART = /^[^\s\p{Cc}@,;:<>()[\]"\\]+$/u;
/** Maximum characters of an address with its display name. */
const MAX_ADDRESS = 1_024;

/**
 * Returns the domain of one e-mail address, with or without a display name. Undefined for anything else: several addresses, comments,
 * quoted local parts.
 */
export function emailDomainOf(text: string): string | undefined {
  const whole = trimmedText(text);
  if (whole.length > MAX_ADDRESS) return undefined;
  let address = whole;
  if (whole.endsWith(">")) {
    const open = whole.lastIndexOf("<");
    if (open < 0 || !DISPLAY_NAME.test(whole.slice(0, open).trim())) return undefined;
    address = whole.slice(open + 1, -1).trim();
  }
  const at = address.indexOf("@");
  if (at < 1 || !LOCAL_PART.test(address.slice(0, at))) return undefined;
  return hostForm(address.slice(at + 1));
}
