import { fold, trimmedText } from "../../text/fold.ts";
import { emailDomainOf, hostForm, hostOf, isAddress } from "../../text/hosts.ts";

/** Way in which the values of a list are read and compared; the words of the proto enum `ListKind`. */
export type ListKind = "text" | "host" | "email_domain";

/** A value in the form in which it compares, or the reason why the kind does not take it: the end of a sentence. */
export type ReadValue =
  | { readonly kind: "value"; readonly form: string }
  | { readonly kind: "fault"; readonly fault: string };

/** Maximum characters of a value, as given and in the form in which it compares. */
export const MAX_VALUE_LENGTH = 256;
/** Stands for a host and everything below it. */
const ANY_BELOW = "*.";
const value = (form: string): ReadValue => ({ kind: "value", form });
const fault = (text: string): ReadValue => ({ kind: "fault", fault: text });

function readHost(text: string, what: string): ReadValue {
  const raw = trimmedText(text);
  const isAnyBelow = raw.startsWith(ANY_BELOW);
  const host = hostForm(isAnyBelow ? raw.slice(ANY_BELOW.length) : raw);
  if (host === undefined) return fault(`is not ${what}, nor \`*.\` before one`);
  if (isAnyBelow && isAddress(host)) return fault("has `*.` before an IP address, which has nothing below it");
  return value(isAnyBelow ? ANY_BELOW + host : host);
}

/** Reads a value of a list of some kind. */
export function readListValue(kind: ListKind, text: string): ReadValue {
  if (!text.isWellFormed()) return fault("holds half of a surrogate pair");
  if (text.length > MAX_VALUE_LENGTH) return fault(`has more than ${MAX_VALUE_LENGTH} characters`);
  if (fold(text) === "") return fault("is blank");
  switch (kind) {
    case "host":
      return readHost(text, "a host name or IP address");
    case "email_domain":
      return readHost(trimmedText(text).replace(/^@/, ""), "a domain");
    case "text": {
      const form = fold(text);
      if (form.length > MAX_VALUE_LENGTH)
        return fault(`has more than ${MAX_VALUE_LENGTH} characters without its disguise`);
      return value(form);
    }
  }
}

/**
 * Lists the values of which one makes a text belong to a list of some kind; undefined for a text that cannot be read as the kind.
 * `folded` is the text as `fold` gives it.
 */
export function coveringValues(kind: ListKind, text: string, folded: string): readonly string[] | undefined {
  if (kind === "text") return [folded];
  const host = kind === "host" ? hostOf(text) : emailDomainOf(text);
  if (host === undefined) return undefined;
  if (isAddress(host)) return [host];
  const values = [host];
  for (let start = 0; start >= 0 && start < host.length; ) {
    values.push(ANY_BELOW + host.slice(start));
    const dot = host.indexOf(".", start);
    start = dot < 0 ? -1 : dot + 1;
  }
  return values;
}
