import { expect } from "chai";
import { namePageFrom, type Page, pageFrom } from "../../src/api/paging.ts";
import { reasonOf } from "../support/harness.ts";

const pageOf = (pageToken = "", pageSize = 0): Page<number> => pageFrom({ pageSize, pageToken }, "agents", 1, "dep_a");
const namePageOf = (pageToken: string): Page<string> => namePageFrom({ pageSize: 0, pageToken }, "agents", 1, "dep_a");
const first = { pageSize: 0, pageToken: "" };

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const [digest] = JSON.parse(Buffer.from(pageOf().tokenAfter(1) ?? "", "base64url").toString());

const WRONG = [
  { description: "no base64", token: "ä ö" },
  { description: "no JSON", token: "abc" },
  { description: "another list", token: pageFrom(first, "tools").tokenAfter(7) },
  { description: "another filter", token: pageFrom(first, "agents", 2, "dep_a").tokenAfter(7) },
  { description: "a filter split elsewhere", token: pageFrom(first, "agents", "1,dep_a").tokenAfter(7) },
  { description: "a position of another kind", token: namePageOf("").tokenAfter("7") },
  { description: "a negative position", token: pageOf().tokenAfter(-1) },
  { description: "a fraction", token: pageOf().tokenAfter(1.5) },
  { description: "a number too large", token: pageOf().tokenAfter(2 ** 60) },
  { description: "null", token: encoded(null) },
  { description: "no position", token: encoded([digest, null]) },
  { description: "a position too many", token: encoded([digest, 1, 2]) },
  { description: "a very long text", token: "A".repeat(10_000) },
];

describe("page tokens", () => {
  it("give back the position that they were made with.", () => {
    expect(pageOf(pageOf().tokenAfter(123_456_789)).after).to.equal(123_456_789);
    expect(namePageOf(namePageOf("").tokenAfter("payments/send") ?? "").after).to.equal("payments/send");
  });

  it("are absent at both ends of a list.", () => {
    expect(pageOf("").after).to.equal(undefined);
    expect(namePageOf("").after).to.equal(undefined);
    expect(pageOf().tokenAfter(undefined)).to.equal(undefined);
  });

  it("fit into the field that takes them, whatever the filter and the position.", () => {
    const token = namePageFrom(first, "agents", "x".repeat(5_000)).tokenAfter("n".repeat(128));
    expect(token?.length).to.be.at.most(512);
  });

  for (const { description, token } of WRONG) {
    it(`are refused with ${description}.`, async () => {
      expect(await reasonOf(() => pageOf(token))).to.equal("INVALID_PAGE_TOKEN");
    });
  }

  it("are refused with a name that the store cannot hold.", async () => {
    const token = namePageOf("").tokenAfter("a\u0000") ?? "";
    expect(await reasonOf(() => namePageOf(token))).to.equal("INVALID_PAGE_TOKEN");
  });
});

describe("the page size", () => {
  it("is 50 when absent and 500 at most.", () => {
    expect([0, 1, 500, 501].map((pageSize) => pageOf("", pageSize).size)).to.deep.equal([50, 1, 500, 500]);
  });
});
