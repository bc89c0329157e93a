import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { doToEnd } from "../../src/async/work.ts";
import { type ContentJob, digestsOfContent } from "../../src/observation/content-values.ts";
import { MAX_SESSION_DIGESTS } from "../../src/provenance/session-values.ts";

const KEY = randomBytes(32);
const LETTERS = "abcdefghijklmnopqrstuvwxyz";
const DECLARED = { trustedFields: undefined, freeFields: undefined, sessionArguments: [], sessionFields: [] };

/** Different words, each of which is one value. */
const words = (count: number, first = "w"): string[] =>
  Array.from({ length: count }, (_, index) =>
    [0, 1, 2, 3].reduce((word, place) => word + LETTERS[Math.floor(index / 26 ** place) % 26], first),
  );

function countsOf(job: Partial<ContentJob>) {
  const base = { key: KEY, source: "result", content: "", declared: undefined, args: {} } as const;
  const { digests, isCut } = doToEnd(digestsOfContent({ ...base, ...job }));
  const counts = Object.entries(digests).map(([source, { length }]) => [source, length / 8]);
  return { ...Object.fromEntries(counts), isCut };
}

describe("the values of a content", () => {
  const enough = words(MAX_SESSION_DIGESTS);
  const tooMany = [...enough, "last"];

  it("are all of them, while a session keeps as many.", () => {
    const content = [...enough, ...enough].join("\n");
    expect(countsOf({ content })).to.deep.equal({ untrusted: MAX_SESSION_DIGESTS, isCut: false });
    expect(countsOf({ source: "prompt", content })).to.deep.equal({ prompt: MAX_SESSION_DIGESTS, isCut: false });
  });

  it("are the first ones of a prompt with more, and none of an untrusted result.", () => {
    for (const content of [tooMany.join(" "), tooMany.join("\n"), JSON.stringify(tooMany)]) {
      expect(countsOf({ content })).to.deep.equal({ isCut: true });
      expect(countsOf({ source: "prompt", content })).to.deep.equal({ prompt: MAX_SESSION_DIGESTS, isCut: true });
    }
  });

  it("are bounded for each source: those that are trusted stay beside too many that are not.", () => {
    const declared = { ...DECLARED, trustedFields: ["first", "names"], sessionFields: ["last"] };
    const result = { first: "alpha", body: tooMany, names: ["beta", "gamma"], last: "delta" };
    const counts = countsOf({ declared, content: JSON.stringify(result) });
    expect(counts).to.deep.equal({ lookup: 3, session: 1, isCut: true });
    const swapped = { first: tooMany, body: "alpha", last: "delta" };
    expect(countsOf({ declared, content: JSON.stringify(swapped) })).to.deep.equal({
      lookup: MAX_SESSION_DIGESTS,
      session: 1,
      // The names of the members are untrusted too.
      untrusted: 4,
      isCut: true,
    });
  });
});
