import { CHAR_CLASSES, classOf, LOCAL, WORD } from "../char-classes.ts";
import { unitAt } from "../text-view.ts";
import type { AtSignDetector } from "./detector.ts";

/** RFC 5321 §4.5.3.1: longest local part, and longest domain. Of a longer local part the end is taken. */
export const MAX_LOCAL = 64;
const MAX_DOMAIN = 255;
const DOT = 0x2e;
const HYPHEN = 0x2d;

const DOMAIN =
  /^(?:[\p{L}\p{M}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.)+(?:xn--[a-z0-9-]{1,59}|[\p{L}\p{M}]{2,63})/iu;
/** Ends of file names such as `logo@2x.png`; none is a top-level domain. */
const FILE_NAME = /\.(?:png|jpe?g|gif|svg|webp)$/i;
const LEADING_MARKS = /^[.%+'_-]*/;

const isDomainUnit = (unit: number): boolean => unit === DOT || unit === HYPHEN || (classOf(unit) & WORD) !== 0;

/**
 * E-mail addresses with a domain name of at least two labels, internationalised ones (RFC 6531) included. Left out are
 * local parts with the rarest marks of RFC 5322, such as `=` and `/`, since those stand before addresses in URLs and code.
 */
export const email: AtSignDetector = {
  kind: "email",
  trigger: "at-sign",
  maxLength: MAX_LOCAL + 1 + MAX_DOMAIN,
  match(view, at) {
    const { text } = view;
    let first = at;
    while (first > 0 && at - first < MAX_LOCAL && ((CHAR_CLASSES[text.charCodeAt(first - 1)] as number) & LOCAL) !== 0)
      first--;
    const start = first + (LEADING_MARKS.exec(text.slice(first, at))?.[0].length ?? 0);
    if (start === at) return undefined;
    let end = at + 1;
    while (end - at <= MAX_DOMAIN && isDomainUnit(unitAt(view, end))) end++;
    const domain = DOMAIN.exec(text.slice(at + 1, end))?.[0];
    return domain === undefined || FILE_NAME.test(domain) ? undefined : { start, end: at + 1 + domain.length };
  },
};
