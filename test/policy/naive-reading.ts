import type { JsonValue } from "@bufbuild/protobuf";
import type { ArgumentValue, ReadArgument } from "../../src/provenance/read-argument.ts";
import type { ValueKind } from "../../src/provenance/sources.ts";

/*
 * Reads values once more, as kinds of provenance rules do. Right for plain values alone: ASCII, without `.`, `..` and fragments, in
 * which every `@` stands in an address and every host ends in letters.
 */

const ADDRESS = /[\w.]+@[\w.]+\w/g;
const NO_TEXT = ["", "none", "null"];

/** Reads a plain value. */
export function readNaively(kind: ValueKind, value: JsonValue | undefined): ReadArgument {
  if (value === undefined || value === null) return { kind: "empty" };
  if (typeof value === "string" && NO_TEXT.includes(value.trim().toLowerCase())) return { kind: "empty" };
  if (typeof value !== "string" && typeof value !== "number") return { kind: "unreadable" };
  const read = formsOf(kind, String(value).trim().toLowerCase().replace(/\s+/g, " "));
  return read === undefined ? { kind: "unreadable" } : { kind: "value", value: { parts: [], folders: [], ...read } };
}

function formsOf(kind: ValueKind, text: string): Pick<ArgumentValue, "whole"> | ArgumentValue | undefined {
  const number = /^[\d,]+$/.test(text) ? [text.replaceAll(",", "")] : [];
  switch (kind) {
    case "number":
      return number.length === 0 ? undefined : { whole: number };
    case "resource":
      return { whole: [text] };
    case "host": {
      const host = hostOf(text);
      return host === undefined ? undefined : { whole: [host] };
    }
    case "destination":
    case "credential":
      return { whole: [text, ...accountsOf(text)], parts: receiversOf(text), folders: [] };
    case "path": {
      const names = text.split("/").filter((name) => name !== "");
      const start = text.startsWith("/") ? "/" : "";
      const [path = "", ...folders] = names.map((_, index) => start + names.slice(0, names.length - index).join("/"));
      return { whole: [path], parts: [], folders };
    }
    case "text":
      return { whole: [text, ...number], parts: partsOf(text), folders: [] };
  }
}

/** Returns the host of a URL or of a name; undefined for anything else. */
function hostOf(text: string): string | undefined {
  if (/[\s"<>@,]/.test(text) || text.startsWith("/")) return undefined;
  return URL.parse(text.includes("://") ? text : `http://${text}`)?.hostname.replace(/^www\./, "");
}

/** Returns the digits and letters of an account number, an IBAN or not, as the only element. */
function accountsOf(text: string): string[] {
  const plain = text.replaceAll(" ", "");
  const isIban = /^[a-z]{2}\d{2}[a-z0-9]{8,32}$/.test(plain);
  const isDigits = /^\d{6,}$/.test(plain) && text.length <= 40;
  return isIban || isDigits ? [plain] : [];
}

/** Lists the addresses of receivers; none if a receiver is anything but one address, or a name before one in brackets. */
function receiversOf(text: string): string[] {
  const receivers = text.split(",").map((receiver) => receiver.trim());
  const read = receivers.map((receiver) => {
    const [, name = "", address = receiver] = /^([^<>]*)<([^<>]*)>$/.exec(receiver) ?? [];
    return address.replace(ADDRESS, "") === "" ? [address, ...(name.match(ADDRESS) ?? [])] : [];
  });
  return read.every((each) => each.length > 0) ? read.flat() : [];
}

/** Lists the addresses, hosts and quoted strings of a text. */
function partsOf(text: string): string[] {
  const words = text.split(/[\s",<>]+/);
  const rest = words.filter((word) => !word.includes("@"));
  const names = rest.flatMap((word) => (word.includes("://") ? word : word.split("/")));
  const hosts = names.filter((name) => /\.[a-z]+(\/|$)/.test(name)).flatMap((name) => hostOf(name) ?? []);
  const quoted = [...text.matchAll(/"([^"]+)"/g)].map(([, inside = ""]) => inside.trim());
  return [...(text.match(ADDRESS) ?? []), ...hosts, ...quoted];
}
