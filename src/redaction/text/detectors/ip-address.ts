import { isIPv6 } from "node:net";
import { createAddressTest } from "../../../webhook/address-ranges.ts";
import { type TextView, unitAt } from "../text-view.ts";
import type { NumberDetector } from "./detector.ts";

const OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const V4 = new RegExp(`^(?:${OCTET}\\.){3}${OCTET}(?![0-9A-Za-z]|[.-][0-9A-Za-z])`);
/** What makes four numbers a version or a section: a word for it, or a product with a slash, as in `Chrome/1.2.3.4`. */
const NUMBERING_BEFORE =
  /(?:\b(?:v|ver|version|release|build|rev|revision|section|sec|chapter|clause|rfc ?\d+)[^0-9A-Za-z]{0,3}|§ ?|[A-Za-z]\/|[.^~]|[=<>~]=\s?)$/i;
const NUMBERING_LENGTH = 15;
const V6_LENGTH = 39;
const isPublic = createAddressTest([]);

const isV6Unit = (unit: number): boolean => unit !== -1 && /[0-9A-Fa-f:]/.test(String.fromCharCode(unit));

/** Addresses of the public internet are all in blocks that begin with a digit. */
function v6Length(view: TextView, start: number): number {
  let end = start;
  while (end - start <= V6_LENGTH && isV6Unit(unitAt(view, end))) end++;
  const address = view.text.slice(start, end).replace(/(?<!:):$/, "");
  const isCutOff = /[0-9A-Za-z]/.test(String.fromCharCode(Math.max(0, unitAt(view, end))));
  return !isCutOff && isIPv6(address) && isPublic(address) ? address.length : 0;
}

/**
 * Public IPv4 and IPv6 addresses; those of private, local and documentation networks name nobody. Four numbers after a word
 * for a version or section, or after `v`, `§`, `^`, `~`, `==`, `>=`, `<=` or a product's slash are none: `v1.2.3.4` is left
 * alone, a bare `1.2.3.4` is not.
 */
export const ipAddress: NumberDetector = {
  kind: "ip_address",
  trigger: "number",
  maxLength: V6_LENGTH,
  match({ view, start, text }) {
    const before = view.text.slice(Math.max(0, start - NUMBERING_LENGTH), start);
    const v4 = V4.exec(text)?.[0];
    if (v4 !== undefined) {
      return isPublic(v4) && !NUMBERING_BEFORE.test(before) ? { start, end: start + v4.length } : undefined;
    }
    if (!/^[23][0-9A-Fa-f]{3}:$/.test(text.slice(0, 5)) || before.endsWith(":")) return undefined;
    const length = v6Length(view, start);
    return length === 0 ? undefined : { start, end: start + length };
  },
};
