import { setImmediate } from "node:timers/promises";
import { expect } from "chai";
import fc from "fast-check";
import { writeJson } from "../../src/json/write-json.ts";

describe("writing JSON", () => {
  it("gives what JSON.stringify gives.", async () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 20 }),
      fc.tuple(fc.string({ unit: "binary", maxLength: 4 }), fc.nat({ max: 60_000 })).map(([part, n]) => part.repeat(n)),
      fc.constantFrom("\ud83d\ude00".repeat(70_000), `x${"\ud83d\ude00".repeat(70_000)}`, "\ud800".repeat(70_000)),
    );
    const value = fc.letrec((tie) => ({
      json: fc.oneof(
        { maxDepth: 4 },
        text,
        fc.double(),
        fc.boolean(),
        fc.constant(null),
        fc.constant(undefined),
        fc.array(fc.oneof(fc.double(), fc.nat()), { maxLength: 2_000 }),
        fc.array(tie("json"), { maxLength: 6 }),
        fc.dictionary(fc.oneof(fc.string(), fc.constant("__proto__")), tie("json"), { maxKeys: 6 }),
      ),
    })).json;
    await fc.assert(
      fc.asyncProperty(value, async (json) => {
        expect(await writeJson({ json })).to.equal(JSON.stringify({ json }));
      }),
      { numRuns: 300 },
    );
  });

  it("gives the event loop its turns, within long texts too.", async () => {
    for (const value of ["\n".repeat(8_000_000), Array(1_000_000).fill({}), Array(1_000_000).fill(0.1)]) {
      let isDone = false;
      const written = writeJson({ value }).finally(() => {
        isDone = true;
      });
      let turns = 0;
      for (; !isDone; turns++) await setImmediate();
      expect(turns).to.be.above(2);
      expect(await written).to.equal(JSON.stringify({ value }));
    }
  });
});
