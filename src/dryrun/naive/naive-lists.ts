import { foldNaively, trimmed } from "./naive-patterns.ts";

/*
 * Named lists a second time, in plain words and by another reader of hosts: it shares no code with `src/policy/lists`.
 */

/** Returns the host that a URL parser finds behind a text; undefined unless the text is a host from end to end. */
function host(text: string): string | undefined {
  const isIpv6 = /^[0-9a-f]*:[0-9a-f.]*:[0-9a-f:.]*$/i.test(text);
  const written = isIpv6 ? `[${text}]` : text;
  const hasOthers = /[\s\p{Cc}/\\?#@%<>^|*,;'"`(){}]/u.test(written);
  if (written === "" || written.length > 1_024 || hasOthers || (!written.startsWith("[") && written.includes(":")))
    return undefined;
  const url = URL.parse(`http://${written}/`);
  const found = url?.hostname.replace(/\.$/, "") ?? "";
  const labels = found.startsWith("[") ? [] : found.split(".");
  const isName = labels.every((label) => /^[a-z0-9_-]{1,63}$/.test(label) && !/^-|-$/.test(label));
  return found !== "" && found.length <= 253 && isName ? found : undefined;
}

function hostIn(text: string): string | undefined {
  if (/[\s\p{Cc}\\<>"]/u.test(text)) return undefined;
  const [, scheme = "", after = ""] = /^([a-z][a-z0-9+.-]*:\/\/|\/\/)?(.*)$/is.exec(text) ?? [];
  const [authority = ""] = after.split(/[/?#]/);
  if (authority.length > 1_024) return undefined;
  if (authority.split(":").length > 2 && !authority.includes("[")) return host(authority);
  const [, name = authority, port] = /^(.*):(\d{1,5})$/s.exec(authority) ?? [];
  const isScheme = ["http", "https", "ws", "wss", "ftp", "file"].includes(name.toLowerCase());
  return scheme === "" && port !== undefined && isScheme ? undefined : host(name);
}

function domainIn(text: string): string | undefined {
  if (text.length > 1_024) return undefined;
  const [, name, inside] = /^(.*)<([^<]*)>$/s.exec(text) ?? [];
  if (text.endsWith(">")) {
    if (name === undefined || !/^("[^"\\]*"|[^"@,;:<>\\]*)$/.test(name.trim())) return undefined;
  }
  const [local = "", domain, ...others] = (text.endsWith(">") ? (inside ?? "").trim() : text).split("@");
  if (domain === undefined || others.length > 0 || local === "" || /[\s\p{Cc},;:<>()[\]"\\]/u.test(local))
    return undefined;
  return host(domain);
}

/** Tests whether a list has a text; undefined for a text that its kind cannot read. */
export function naiveListed(
  { kind, values }: { readonly kind: string; readonly values: readonly string[] },
  text: string,
): boolean | undefined {
  if (kind === "text") return values.some((value) => value === foldNaively(text));
  const found = kind === "host" ? hostIn(trimmed(text)) : domainIn(trimmed(text));
  if (found === undefined) return undefined;
  const isAddress = found.startsWith("[") || /^\d+(\.\d+){3}$/.test(found);
  return values.some((value) => {
    if (!value.startsWith("*.")) return value === found;
    const top = value.slice(2);
    return !isAddress && (found === top || found.endsWith(`.${top}`));
  });
}
