import { ALNUM, classOf, SEPARATOR, SPACE } from "../char-classes.ts";
import { unitAt } from "../text-view.ts";
import { remainder } from "./check-digits.ts";
import type { NumberDetector } from "./detector.ts";

/** Length of the IBANs of each country, as in the registry that SWIFT keeps for ISO 13616. */
const LENGTHS: ReadonlyMap<string, number> = new Map(
  [
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29",
    "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20",
    "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29",
    "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30",
  ]
    .flatMap((line) => line.split(" "))
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))]),
);
const GROUP = 4;
const HYPHEN = 0x2d;

/** ISO 7064, MOD 97-10: letters count from 10, the first four characters go to the end. */
function isChecked(iban: string): boolean {
  const digits = `${iban.slice(4)}${iban.slice(0, 4)}`.replace(/[A-Z]/g, (letter) => String(letter.charCodeAt(0) - 55));
  return remainder(digits, 97) === 1;
}

/** Between groups: spaces, and a hyphen in capitals only, since hexadecimal groups have hyphens. */
const isGap = (unit: number, country: string): boolean =>
  unit === HYPHEN
    ? country === country.toUpperCase()
    : (classOf(unit) & SPACE) !== 0 && (classOf(unit) & SEPARATOR) !== 0;

/** IBANs (ISO 13616) in one piece or in groups of four, in any letter case. */
export const iban: NumberDetector = {
  kind: "iban",
  trigger: "number",
  maxLength: 33 + 8,
  match({ view, start, digit }) {
    const country = view.text.slice(start, digit);
    const length = LENGTHS.get(country.toUpperCase());
    if (length === undefined) return undefined;
    let read = "";
    let index = start;
    while (read.length < length) {
      const bits = classOf(unitAt(view, index));
      if ((bits & ALNUM) !== 0) read += view.text[index];
      else if (read.length % GROUP !== 0 || !isGap(unitAt(view, index), country)) return undefined;
      else if ((classOf(unitAt(view, index + 1)) & ALNUM) === 0) return undefined;
      index++;
    }
    if ((classOf(unitAt(view, index)) & ALNUM) !== 0) return undefined;
    return isChecked(read.toUpperCase()) ? { start, end: index } : undefined;
  },
};
