import { expect } from "chai";
import fc from "fast-check";
import { openJsonText } from "../../src/redaction/proxy/response-text.ts";
import { cut, responseOptions } from "./event-harness.ts";
import { PERSONAL } from "./harness.ts";

const OPTIONS = responseOptions();
const VALUES = Object.values(PERSONAL);
const MARKS = ["[EMAIL]", "[PAYMENT_CARD]", "[PERSON_NAME]"] as const;

function scrubbed(pieces: readonly string[]): string {
  const stream = openJsonText(OPTIONS);
  return pieces.map((piece) => stream.push(piece)).join("") + stream.end();
}

/** JSON with each character of its strings written as an escape, or as it is. */
const escaped = (text: string): string =>
  text.replace(/[a-z@ .]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Strings with and without a value in them; what else is in them is too short to be personal. */
const said = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 3 }).filter((text) => !/[\d@]/.test(text)),
  fc.constantFrom(...VALUES).map((value) => `"${value}"\n`),
);
const documents = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 3 }, said, fc.constantFrom(null, true, 12, -1.5e3), tie("list"), tie("map")),
  list: fc.array(tie("value"), { maxLength: 3 }),
  map: fc.dictionary(fc.constantFrom("a", "b", 'c"'), tie("value"), { maxKeys: 3 }),
}));

/** The same document with marks for values, by the plain way. */
function naive(value: unknown): unknown {
  const isCard = (text: string): boolean => text.includes(PERSONAL.card);
  if (typeof value === "string") {
    if (isCard(value)) return value.replace(PERSONAL.card, MARKS[1]);
    return value.replace(PERSONAL.email, MARKS[0]).replace(PERSONAL.name, MARKS[2]);
  }
  if (Array.isArray(value)) return value.map(naive);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, naive(member)]));
}

describe("the text of a JSON document", () => {
  it("says the same without its personal values, however it is cut and written.", () => {
    const places = fc.array(fc.nat(2_000), { maxLength: 40 });
    const isStructured = (value: unknown): boolean => typeof value === "object" && value !== null;
    fc.assert(
      fc.property(documents.value.filter(isStructured), places, fc.boolean(), (value, at, isEscaped) => {
        const plain = JSON.stringify(value);
        const text = isEscaped
          ? plain.replace(
              /"(?:[^"\\]|\\.)*"/g,
              (token) => `"${escaped(JSON.parse(token)).replace(/["\n]/g, (each) => (each === '"' ? '\\"' : "\\n"))}"`,
            )
          : plain;
        fc.pre(isJson(text));
        expect(JSON.parse(scrubbed(cut(text, at)))).to.deep.equal(naive(value));
      }),
      { numRuns: 500 },
    );
  });

  const CASES: readonly { readonly text: string; readonly want: string }[] = [
    { text: '{"n": 4111111111111111 , "m": 12}', want: '{"n": "[PAYMENT_CARD]" , "m": 12}' },
    { text: "4111 1111 1111 1111", want: "[PAYMENT_CARD]" },
    { text: "[4111 1111 1111 1111]", want: "[[PAYMENT_CARD]]" },
    { text: "{Zebulon Quist}", want: "{[PERSON_NAME]}" },
    { text: "Mail jane.roe@corp-mail.org", want: "Mail [EMAIL]" },
    { text: '{"a":"jane.roe@corp-mail.org', want: '{"a":"[EMAIL]' },
    { text: '{"a":"\\q jane.roe@corp-mail.org"}', want: '{"a":"\\\\q [EMAIL]"}' },
    { text: '{"a":"\\ud83d\\ude00"}', want: '{"a":"😀"}' },
    { text: "", want: "" },
    { text: " null ", want: " null " },
  ];
  for (const { text, want } of CASES) {
    it(`becomes ${JSON.stringify(want)}, whole and character by character.`, () => {
      expect(scrubbed([text])).to.equal(want);
      expect(scrubbed([...text]).replaceAll("\\ud83d\\ude00", "😀")).to.equal(want);
    });
  }
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
