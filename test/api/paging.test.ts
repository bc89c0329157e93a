import { expect } from "chai";
import {
  decodeNamePageToken,
  decodePageToken,
  encodePageToken,
  nextPageToken,
  pageKind,
  pageSizeFrom,
} from "../../src/api/paging.ts";
import { reasonOf } from "../support/workspace.ts";

const KIND = pageKind("agents", 1, "dep_a");

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const [mark] = JSON.parse(Buffer.from(encodePageToken(KIND, 1), "base64url").toString());

const WRONG = [
  { description: "no base64", token: "ä ö" },
  { description: "no JSON", token: "abc" },
  { description: "another list", token: encodePageToken(pageKind("tools"), 7) },
  { description: "another filter", token: encodePageToken(pageKind("agents", 2, "dep_a"), 7) },
  { description: "a filter split elsewhere", token: encodePageToken(pageKind("agents", "1,dep_a"), 7) },
  { description: "a position of another kind", token: encodePageToken(KIND, "7") },
  { description: "a negative position", token: encodePageToken(KIND, -1) },
  { description: "a fraction", token: encodePageToken(KIND, 1.5) },
  { description: "a number too large", token: encodePageToken(KIND, 2 ** 60) },
  { description: "null", token: encoded(null) },
  { description: "a position too many", token: encoded([mark, 1, 2]) },
  { description: "a very long text", token: "A".repeat(10_000) },
];

describe("page tokens", () => {
  it("give back the position that they were made with.", () => {
    expect(decodePageToken(KIND, encodePageToken(KIND, 123_456_789))).to.equal(123_456_789);
    expect(decodeNamePageToken(KIND, encodePageToken(KIND, "payments/send"))).to.equal("payments/send");
    expect(nextPageToken(KIND, 5)).to.equal(encodePageToken(KIND, 5));
  });

  it("are absent at both ends of a list.", () => {
    expect(decodePageToken(KIND, "")).to.equal(undefined);
    expect(decodeNamePageToken(KIND, "")).to.equal(undefined);
    expect(nextPageToken(KIND, undefined)).to.equal(undefined);
  });

  it("fit into the field that takes them, whatever the filter and the position.", () => {
    const kind = pageKind("agents", "x".repeat(5_000));
    expect(encodePageToken(kind, "n".repeat(128)).length).to.be.at.most(512);
  });

  for (const { description, token } of WRONG) {
    it(`are refused with ${description}.`, async () => {
      expect(await reasonOf(() => decodePageToken(KIND, token))).to.equal("INVALID_PAGE_TOKEN");
    });
  }

  it("are refused with a name that the store cannot hold.", async () => {
    const token = encodePageToken(KIND, "a\u0000");
    expect(await reasonOf(() => decodeNamePageToken(KIND, token))).to.equal("INVALID_PAGE_TOKEN");
  });
});

describe("pageSizeFrom", () => {
  it("takes 50 for absent and 500 at most.", () => {
    const sizes = [0, 1, 500, 501].map((pageSize) => pageSizeFrom({ pageSize }));
    expect(sizes).to.deep.equal([50, 1, 500, 500]);
  });
});
