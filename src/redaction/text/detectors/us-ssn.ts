import { contextOf, isContinued } from "../number-span.ts";
import type { NumberDetector } from "./detector.ts";

const DASHED = /^(\d{3})[-\u2010-\u2013](\d{2})[-\u2010-\u2013](\d{4})(?![0-9A-Za-z]|-\d)/;
const LOOSE = /^(\d{3})[ .\u00a0]?(\d{2})[ .\u00a0]?(\d{4})(?![0-9A-Za-z])/;
const CONTEXT = /\bssn\b|social security/i;
/** Never given out, but printed on sample cards (SSA, "Social Security Cards Issued by Woolworth"). */
const SAMPLES = ["078-05-1120", "219-09-9999"];

/** The rules of the SSA: no part is all zeros, and the area is neither 666 nor 900 or more. */
function isIssued([, area = "", group = "", serial = ""]: RegExpExecArray): boolean {
  if (area === "000" || area === "666" || area >= "900" || group === "00" || serial === "0000") return false;
  return !SAMPLES.includes(`${area}-${group}-${serial}`);
}

/** Social security numbers of the United States: with hyphens anywhere, otherwise only where the context names them. */
export const usSsn: NumberDetector = {
  kind: "us_ssn",
  trigger: "number",
  maxLength: 11,
  match(span) {
    if (span.start !== span.digit || isContinued(span)) return undefined;
    const found = DASHED.exec(span.text) ?? (CONTEXT.test(contextOf(span)) ? LOOSE.exec(span.text) : null);
    if (found === null || !isIssued(found)) return undefined;
    return { start: span.start, end: span.start + found[0].length };
  },
};
