import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { RE2JS } from "re2js";
import { NaivePatterns } from "../../src/dryrun/naive/naive-patterns.ts";
import { checkPattern, compilePattern, PatternSet } from "../../src/policy/patterns.ts";

/** First index and the index after the last one, in UTF-16 code units. */
type Span = readonly [start: number, end: number];

/** A text, and what an expression matches in it. */
interface Case {
  readonly pattern: string;
  readonly text: string;
  /**
   * All matches from left to right. The search for the next one begins where a match ends, one character further after an empty match.
   */
  readonly spans: readonly Span[];
  /** Where others read the expression in another way. */
  readonly note?: string;
}

interface Table {
  /** Cases by the area of RE2's syntax. */
  readonly found: Readonly<Record<string, readonly Case[]>>;
  /** Expressions that RE2 does not have, or that are none. */
  readonly refused: readonly { readonly pattern: string; readonly note?: string }[];
}

// Both engines descend from one, so that they could be wrong together. The spans were written by hand from RE2's syntax, and compared
// with RE2 in C++, with JavaScript and with Python; the notes say where these differ.
const FILE = join(import.meta.dirname, "..", "testdata", "policy", "patterns.json");
const TABLE = JSON.parse(readFileSync(FILE, "utf8")) as Table;

const IGNORING_CASE = "(?i)";

/** Index after the character at an index. */
const after = (text: string, index: number): number => index + ((text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1);

/** Where the search after a match begins. */
const restAfter = (text: string, [start, end]: Span): number => (end > start ? end : after(text, end));

/** Finds all matches with the engine of the compiled rules. */
function compiledSpans({ pattern, text }: Case): Span[] {
  const matcher = RE2JS.compile(pattern).matcher(text);
  const spans: Span[] = [];
  for (let from = 0; from <= text.length && matcher.find(from); ) {
    const span: Span = [matcher.start(), matcher.end()];
    spans.push(span);
    from = restAfter(text, span);
  }
  return spans;
}

/** Counts the characters before an index. */
const charactersBefore = (text: string, index: number): number => [...text.slice(0, index)].length;

/** Tests with the naive engine whether an expression matches behind as many characters as `before` says, and up to `behind`. */
function isFoundBetween({ pattern, text }: Case, before: string, behind: string): boolean {
  const closed = pattern.includes("\\Q") && !pattern.includes("\\E") ? `${pattern}\\E` : pattern;
  const whole = `\\A(?s:.{${before}})(?:${closed})${behind}`;
  return new NaivePatterns().isFound(whole, text, { ignoreCase: false });
}

/**
 * Compares the naive engine with the spans. It only says whether there is a match: each span must be one, and none may begin between
 * two. Which of several ends comes first it does not tell.
 */
function naiveFaults(given: Case): string[] {
  const { text, spans } = given;
  const faults: string[] = [];
  let from = 0;
  for (const span of [...spans, undefined]) {
    const [start, end] = span ?? [text.length + 1, text.length];
    if (from < start) {
      const gap = `${charactersBefore(text, from)},${charactersBefore(text, start) - (span === undefined ? 0 : 1)}`;
      if (isFoundBetween(given, gap, "")) faults.push(`a match between ${from} and ${start}`);
    }
    if (span === undefined) break;
    const behind = `(?s:.{${charactersBefore(text.slice(end), text.length)}})\\z`;
    if (!isFoundBetween(given, String(charactersBefore(text, start)), behind)) faults.push(`no match at ${span}`);
    from = restAfter(text, span);
  }
  return faults;
}

describe("the regular expressions of rules and of the naive evaluator", () => {
  for (const [area, cases] of Object.entries(TABLE.found)) {
    it(`match what RE2 matches: ${area}.`, () => {
      for (const each of cases) {
        const { pattern, text, spans, note } = each;
        const title = `${pattern} in ${JSON.stringify(text)}${note === undefined ? "" : ` (${note})`}`;
        const isFound = spans.length > 0;
        expect(checkPattern(pattern, { ignoreCase: false }).kind, title).to.equal("compiled");
        expect(compiledSpans(each), title).to.deep.equal(spans);
        expect(compilePattern(pattern).found(text), title).to.equal(isFound);
        expect(naiveFaults(each), title).to.deep.equal([]);
        expect(new NaivePatterns().isFound(pattern, text, { ignoreCase: false }), title).to.equal(isFound);
        if (!pattern.startsWith(IGNORING_CASE)) continue;
        const rest = pattern.slice(IGNORING_CASE.length);
        expect(new PatternSet([rest], 1).search(text).length > 0, title).to.equal(isFound);
        expect(new NaivePatterns().isFound(rest, text), title).to.equal(isFound);
      }
    });
  }

  it("are refused where RE2 refuses them.", () => {
    for (const { pattern, note } of TABLE.refused) {
      expect(checkPattern(pattern, { ignoreCase: false }).kind, `${pattern} (${note})`).to.equal("invalid");
      expect(() => new NaivePatterns().isFound(pattern, "", { ignoreCase: false }), pattern).to.throw();
    }
  });
});
