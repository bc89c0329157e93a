import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import fc from "fast-check";
import { type JsonBounds, JsonFault, jsonReading, readJson, readJsonAtOnce } from "../../src/json/read-json.ts";

const WIDE: JsonBounds = { maxDepth: 1_000, maxValues: 10_000_000 };
/** Longer than what is read at once. */
const LONG = 400_000;

function faultOf(action: () => unknown): JsonFault {
  try {
    action();
  } catch (error) {
    if (error instanceof JsonFault) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

/** Reads a text in small pieces, without turns of the event loop. */
function inPieces(text: string, bounds = WIDE): unknown {
  const reading = jsonReading(text, bounds, { length: 20_000, values: 2_000 });
  for (;;) {
    const { done, value } = reading.next();
    if (done) return value;
  }
}

/** What a way of reading makes of a text: its value, or that it is refused. */
function outcomeOf(read: () => unknown): { readonly value: unknown } | "refused" {
  try {
    return { value: read() };
  } catch {
    return "refused";
  }
}

/** A JSON text of at least `length` characters, whose structure comes from a sequence of small numbers. */
function longText(choices: readonly number[], length: number): string {
  let at = 0;
  const next = (): number => choices[at++ % choices.length] ?? 0;
  const value = (depth: number): string => {
    const kind = depth > 6 ? next() % 4 : next() % 7;
    const gap = next() % 5 === 0 ? " \n" : "";
    if (kind === 0) return `${gap}"x${'\\\\\\"[{,'.repeat(next() % 9)}"`;
    if (kind === 1) return `${next()}.5e3${gap}`;
    if (kind === 2) return ["null", "true", "false", '"\\ud83d\\ude00"'][next() % 4] ?? "0";
    if (kind === 3) return `"${"long text ".repeat(next() * 7)}"`;
    const items = Array.from({ length: next() % 9 }, () => value(depth + 1));
    if (kind === 4) return `[${items.join(`,${gap}`)}]`;
    const names = ["a", "b", "__proto__", "10", "2", "n\\u0061me", "", "constructor"];
    return `{${items.map((item) => `"${names[next() % names.length]}"${gap}:${item}`).join(",")}}${gap}`;
  };
  const parts: string[] = [];
  for (let size = 0; size < length; ) {
    const part = value(0);
    parts.push(part);
    size += part.length + 1;
  }
  return next() % 2 === 0
    ? `[${parts.join(",")}]`
    : `{${parts.map((part, index) => `"m${index}":${part}`).join(", ")}} `;
}

const choices = fc.array(fc.nat({ max: 40 }), { minLength: 50, maxLength: 200 });

describe("reading JSON", () => {
  it("gives what JSON.parse gives, in one piece and in many.", () => {
    fc.assert(
      fc.property(choices, (drawn) => {
        const text = longText(drawn, 150_000);
        const want = JSON.parse(text);
        for (const got of [readJsonAtOnce(text, WIDE), inPieces(text)]) {
          expect(got).to.deep.equal(want);
          expect(JSON.stringify(got)).to.equal(JSON.stringify(want));
        }
      }),
      { numRuns: 60 },
    );
  });

  it("takes a text in pieces exactly if JSON.parse takes it.", () => {
    const marks = fc.constantFrom(...'[]{},:"\\ 0ae-', "", "]}", "}]", ",]", "[,", "{,", '":', "][");
    const edit = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat({ max: 3 }), marks);
    fc.assert(
      fc.property(choices, fc.array(edit, { minLength: 1, maxLength: 3 }), (drawn, edits) => {
        let text = longText(drawn, 100_000);
        for (const [place, cut, mark] of edits) {
          const at = Math.floor(place * text.length);
          text = text.slice(0, at) + mark + text.slice(at + cut);
        }
        const want = outcomeOf(() => JSON.parse(text));
        expect(outcomeOf(() => inPieces(text))).to.deep.equal(want);
      }),
      { numRuns: 300 },
    );
  });

  const FILLED = `${"1,".repeat(20_000)}1`;
  for (const [description, text] of Object.entries({
    "a comma before the end of a list": `[${FILLED},]`,
    "a comma before the end of a list that closes much later": `[[${FILLED},   ]]`,
    "a comma before the end of an object": `{"a":[${FILLED}],"b":1,}`,
    "a list that begins with a comma": `[${FILLED},[${" ".repeat(40_000)},1]]`,
    "a comma too many": `[${FILLED},,1]`,
    "a list that ends as an object": `[${FILLED}}`,
    "an object that ends as a list": `{"a":${FILLED.replaceAll("1", '1,"b":1').replaceAll(",,", ",")}]`,
    "a list without end": `[${FILLED}`,
    "a list that ends with a comma": `[${FILLED},`,
    "a second value": `[${FILLED}] 1`,
    "a bracket too many": `[${FILLED}]]`,
    "a value after a list without a comma": `[[${FILLED}] 1]`,
    "a name without a value": `{"a":[${FILLED}],"b"}`,
    "a text without end": `[${FILLED},"${"x".repeat(LONG)}`,
    nothing: "",
  })) {
    it(`refuses ${description}.`, () => {
      expect(() => JSON.parse(text)).to.throw(SyntaxError);
      for (const read of [inPieces, readJsonAtOnce]) {
        expect(faultOf(() => read(text, WIDE)).kind).to.equal("malformed");
      }
    });
  }

  it("says where a text is malformed, also behind the first piece.", () => {
    const text = `{"list":[${FILLED}],"next":tru}`;
    expect(faultOf(() => readJsonAtOnce(text, WIDE)).position ?? text.indexOf("tru}") + 3).to.equal(
      text.indexOf("tru}") + 3,
    );
    expect(faultOf(() => inPieces(`[${FILLED},{"a" 1}]`, WIDE)).position).to.equal(FILLED.length + 7);
  });

  it("refuses a text with too many values before it builds any, whatever is wrong behind them.", () => {
    const bounds = { maxDepth: 64, maxValues: 100 };
    expect(faultOf(() => readJsonAtOnce(`[${FILLED}}`, bounds)).kind).to.equal("too_many_values");
    expect(readJsonAtOnce(`[${Array(100).fill("1").join()}]`, bounds)).to.have.length(100);
    expect(faultOf(() => readJsonAtOnce(`[${Array(101).fill("1").join()}]`, bounds)).kind).to.equal("too_many_values");
  });

  it("counts brackets outside of texts.", () => {
    const bounds = { maxDepth: 3, maxValues: 100 };
    expect(readJsonAtOnce('[{"a":["[[[[{\\"[["]}]', bounds)).to.deep.equal([{ a: ['[[[[{"[['] }]);
    expect(faultOf(() => readJsonAtOnce('[{"a":[[]]}]', bounds)).kind).to.equal("too_deep");
    expect(faultOf(() => readJsonAtOnce("[".repeat(1_000_000), bounds)).kind).to.equal("too_deep");
  });

  it("names the path of a repeated member, in whichever piece it stands.", () => {
    const bounds = { ...WIDE, hasUniqueMembers: true };
    const text = `{"a":[${FILLED},{"b":{"c":1,"\\u0063":2}}],"d":1}`;
    for (const read of [inPieces, readJsonAtOnce]) {
      const { kind, path } = faultOf(() => read(text, bounds));
      expect({ kind, path }).to.deep.equal({ kind: "repeated_member", path: ["a", 20_001, "b", "c"] });
    }
    expect(faultOf(() => inPieces(`{"a":1,"b":[${FILLED}],"a":2}`, bounds)).path).to.deep.equal(["a"]);
    expect(readJsonAtOnce('{"a":1,"a":2}', WIDE)).to.deep.equal({ a: 2 });
  });

  it("gives the event loop its turns while it reads a long text, and only one at a time to many.", async () => {
    const texts = Array.from({ length: 8 }, (_, index) => JSON.stringify(Array(60_000).fill({ index })));
    let isDone = false;
    const values = Promise.all(texts.map((text) => readJson(text, WIDE))).finally(() => {
      isDone = true;
    });
    let turns = 0;
    for (; !isDone; turns++) await setImmediate();
    expect(turns).to.be.above(texts.length);
    expect((await values).map((value) => (value as { index: number }[]).at(-1)?.index)).to.deep.equal([
      ...texts.keys(),
    ]);
  });

  // Each took seconds with a scanner whose time grows with the square of the length.
  for (const [description, text] of Object.entries({
    "quotes without a comma": '"1 "'.repeat(450_000),
    backslashes: `["${"\\\\".repeat(900_000)}"]`,
    "quotes behind backslashes": `["${'\\"'.repeat(900_000)}"]`,
    "white space": `[1,${" ".repeat(1_800_000)}1]`,
    "commas after white space": `[${" ,".repeat(900_000)}`,
  })) {
    it(`reads 1.8 MB of ${description} in linear time.`, () => {
      expect(outcomeOf(() => inPieces(text))).to.deep.equal(outcomeOf(() => JSON.parse(text)));
    });
  }
});
