import type { JsonValue } from "@bufbuild/protobuf";
import { fold } from "../text/fold.ts";
import { accountForm, foldersOf, hostOf, numberForm, pathForm, textForm, urlForm } from "./forms.ts";
import { addressesIn, hostsIn, quotedIn, unreadableIn } from "./found-values.ts";
import type { ValueKind } from "./sources.ts";

/** A value of an argument, in the forms in which its kind compares it. */
export interface ArgumentValue {
  /** Forms of the whole: the value was seen where one of them was. */
  readonly whole: readonly string[];
  /** Parts, such as the addresses in a line of recipients: the value was seen too where each of them was. */
  readonly parts: readonly string[];
  /** Folders that hold a path: it is trusted too where one of them is. */
  readonly folders: readonly string[];
}

/** Result of reading an argument: its value; nothing that could come from anywhere; or a value that the kind cannot read. */
export type ReadArgument =
  | { readonly kind: "value"; readonly value: ArgumentValue }
  | { readonly kind: "empty" }
  | { readonly kind: "unreadable" };

const EMPTY: ReadArgument = { kind: "empty" };
const UNREADABLE: ReadArgument = { kind: "unreadable" };
/** Texts with which models leave an argument out. */
const EMPTY_WORDS: ReadonlySet<string> = new Set(["", "none", "null"]);

function valueFrom(
  whole: readonly (string | undefined)[],
  parts: readonly string[] = [],
  folders: readonly string[] = [],
): ReadArgument {
  const forms = [...new Set(whole.filter((form) => form !== undefined))];
  const own = [...new Set(parts)];
  return forms.length === 0 && own.length === 0
    ? UNREADABLE
    : { kind: "value", value: { whole: forms, parts: own, folders } };
}

/** Reads the value of an argument as a kind reads it. */
export function readArgument(kind: ValueKind, value: JsonValue | undefined): ReadArgument {
  if (value === undefined || value === null) return EMPTY;
  if (typeof value === "string" && EMPTY_WORDS.has(value.trim().toLowerCase())) return EMPTY;
  if (kind === "number") {
    return typeof value === "string" || typeof value === "number" ? valueFrom([numberForm(value)]) : UNREADABLE;
  }
  // A number stands for its text, such as that of an account.
  const text = typeof value === "number" ? numberForm(value) : value;
  return typeof text === "string" ? readText(kind, text) : UNREADABLE;
}

function readText(kind: Exclude<ValueKind, "number">, text: string): ReadArgument {
  switch (kind) {
    case "destination":
    case "credential":
      return valueFrom([textForm(text), accountForm(text)], addressesOf(fold(text)));
    case "host":
      return valueFrom([hostOf(text)]);
    case "resource":
      return valueFrom([textForm(text), urlForm(text)]);
    case "path": {
      const path = pathForm(text);
      return valueFrom([path], [], path === undefined ? [] : foldersOf(path));
    }
    case "text":
      // A text too long to be seen as a whole is compared by its parts.
      return textOf(text);
  }
}

/** One receiver of a list: quoted strings, which may hold the signs that separate, and anything else up to a separator. */
const RECEIVER = /(?:"[^"\n]*"|[^",;\n\r])+/gu;
/** A name before an address in angle brackets. */
const NAMED = /^(?<name>[^<>]*)<(?<address>[^<>]*)>$/u;

/**
 * Lists the addresses of a list of receivers, as `fold` gives it; none where a receiver is anything but one address with or without a
 * name: what programs read out of it is not known then.
 */
function addressesOf(folded: string): string[] {
  const found: string[] = [];
  for (const [receiver] of folded.matchAll(RECEIVER)) {
    const whole = receiver.trim();
    if (whole === "") continue;
    const { name = "", address = whole } = NAMED.exec(whole)?.groups ?? {};
    const plain = address.trim().replace(/^mailto:/u, "");
    const [only] = addressesIn(plain);
    const named = addressesIn(name);
    if (only !== plain || named.length !== name.split("@").length - 1) return [];
    found.push(only, ...named);
  }
  // The rest after a quote without its end is in no receiver.
  return folded.split('"').length % 2 === 0 ? [] : found;
}

function textOf(text: string): ReadArgument {
  const whole = [textForm(text), numberForm(text)].filter((form) => form !== undefined);
  const folded = fold(text);
  const parts = [...addressesIn(folded), ...hostsIn(folded), ...quotedIn(folded), ...unreadableIn(folded)];
  return { kind: "value", value: { whole: [...new Set(whole)], parts: [...new Set(parts)], folders: [] } };
}
