import { expect } from "chai";
import { capturedText, parsePathTemplate } from "../../../src/server/rest/path-template.ts";
import { createRouteTrie } from "../../../src/server/rest/route-trie.ts";

const GOOD = [
  { given: "/v1/agents", segments: "v1 agents", variables: [], verb: "" },
  { given: "/v1/agents/{agent_id}", segments: "v1 agents *", variables: ["agent_id 2-3"], verb: "" },
  { given: "/v1/{name=shelves/*/books/*}", segments: "v1 shelves * books *", variables: ["name 1-5 multi"], verb: "" },
  { given: "/v1/{path=**}", segments: "v1 **", variables: ["path 1-end multi"], verb: "" },
  { given: "/v1/{a.b.c=*}/x/{d}", segments: "v1 * x *", variables: ["a.b.c 1-2", "d 3-4"], verb: "" },
  { given: "/v1/{name=a/*/b/**}:cancel", segments: "v1 a * b **", variables: ["name 1-end multi"], verb: "cancel" },
  { given: "/v1/mandates:compile", segments: "v1 mandates", variables: [], verb: "compile" },
  { given: "/v1/*/x/**", segments: "v1 * x **", variables: [], verb: "" },
  { given: "/v1/{kind=fixed}", segments: "v1 fixed", variables: ["kind 1-2"], verb: "" },
  { given: "/.well-known/jwks.json", segments: ".well-known jwks.json", variables: [], verb: "" },
  { given: "/v1/caf%C3%A9", segments: "v1 café", variables: [], verb: "" },
];

const BAD = [
  { given: "", error: "`/` is expected" },
  { given: "v1", error: "`/` is expected" },
  { given: "/", error: "a segment is expected" },
  { given: "/v1/", error: "a segment is expected" },
  { given: "/v1//x", error: "a segment is expected" },
  { given: "/v1/{}", error: "a field path is expected" },
  { given: "/v1/{1a}", error: "a field path is expected" },
  { given: "/v1/{a", error: "`}` is expected" },
  { given: "/v1/{a.}", error: "`}` is expected" },
  { given: "/v1/{a=}", error: "a segment is expected" },
  { given: "/v1/{a={b}}", error: "a segment is expected" },
  { given: "/v1/x:", error: "a verb is expected" },
  { given: "/v1/x:y:z", error: "unexpected `:`" },
  { given: "/v1/{a}b", error: "unexpected `b`" },
  { given: "/v1/a b", error: "unexpected ` `" },
  { given: "/v1/**/x", error: "`**` must be the last segment" },
  { given: "/v1/{a=**}/{b}", error: "`**` must be the last segment" },
  { given: "/v1/{a}/{a}", error: "field `a` is captured twice" },
  { given: "/v1/%zz", error: "a percent-escape is malformed" },
];

describe("parsePathTemplate", () => {
  for (const { given, segments, variables, verb } of GOOD) {
    it(`reads \`${given}\`.`, () => {
      const template = parsePathTemplate(given);
      const words = template.segments.map((s) => (s.kind === "literal" ? s.text : s.kind === "any" ? "*" : "**"));
      expect(words.join(" ")).to.equal(segments);
      const found = template.variables.map(
        (v) => `${v.fieldPath} ${v.start}-${v.end ?? "end"}${v.multi ? " multi" : ""}`,
      );
      expect(found).to.deep.equal(variables);
      expect(template.verb).to.equal(verb);
    });
  }
  for (const { given, error } of BAD) {
    it(`refuses \`${given}\` because ${error}.`, () => {
      expect(() => parsePathTemplate(given)).to.throw(error);
    });
  }
});

const TEMPLATES = [
  "/v1/books",
  "/v1/books/{id}",
  "/v1/books/best",
  "/v1/books/{id}:archive",
  "/v1/books:compile",
  "/v1/{name=shelves/*/books/*}",
  "/v1/{x}/best/end",
  "/v1/books/{id}/a",
  "/v1/files/{path=**}",
  "/v1/files/{path=**}:copy",
  "/v1/files/special",
  "/v1/caf%C3%A9",
];

const MATCHES = [
  { path: "/v1/books", template: "/v1/books", captured: [] },
  { path: "/v1/books/b1", template: "/v1/books/{id}", captured: ["b1"] },
  { path: "/v1/books/best", template: "/v1/books/best", captured: [] },
  { path: "/v1/books/best/end", template: "/v1/{x}/best/end", captured: ["books"] },
  { path: "/v1/books/best/a", template: "/v1/books/{id}/a", captured: ["best"] },
  { path: "/v1/books/b1:archive", template: "/v1/books/{id}:archive", captured: ["b1"] },
  { path: "/v1/books/b1:unknown", template: "/v1/books/{id}", captured: ["b1:unknown"] },
  { path: "/v1/books/b1%3Aarchive", template: "/v1/books/{id}", captured: ["b1:archive"] },
  { path: "/v1/books:compile", template: "/v1/books:compile", captured: [] },
  { path: "/v1/books/a%2Fb", template: "/v1/books/{id}", captured: ["a/b"] },
  { path: "/v1/books/a%20b+c", template: "/v1/books/{id}", captured: ["a b+c"] },
  { path: "/v1/books/%E2%82%AC", template: "/v1/books/{id}", captured: ["€"] },
  { path: "/v1/books/%zz", template: "/v1/books/{id}", captured: [undefined] },
  { path: "/v1/books/%ff", template: "/v1/books/{id}", captured: [undefined] },
  { path: "/v1/bo%6Fks", template: "/v1/books", captured: [] },
  { path: "/v1/caf%C3%A9", template: "/v1/caf%C3%A9", captured: [] },
  {
    path: "/v1/shelves/s%20/books/b%2Fc",
    template: "/v1/{name=shelves/*/books/*}",
    captured: ["shelves/s /books/b%2Fc"],
  },
  { path: "/v1/files/a/b%20c/d%2fe", template: "/v1/files/{path=**}", captured: ["a/b c/d%2fe"] },
  { path: "/v1/files", template: "/v1/files/{path=**}", captured: [""] },
  { path: "/v1/files/special", template: "/v1/files/special", captured: [] },
  { path: "/v1/files/special/x", template: "/v1/files/{path=**}", captured: ["special/x"] },
  { path: "/v1/files/a/b:copy", template: "/v1/files/{path=**}:copy", captured: ["a/b"] },
  { path: "/v1/books/", template: undefined, captured: [] },
  { path: "/v1/books/b1/x", template: undefined, captured: [] },
  { path: "/v1/shelves/s/books/", template: undefined, captured: [] },
  { path: "/", template: undefined, captured: [] },
  { path: "/v2/books", template: undefined, captured: [] },
];

describe("createRouteTrie", () => {
  const trie = createRouteTrie<ReturnType<typeof parsePathTemplate>>();
  for (const text of TEMPLATES) {
    const template = parsePathTemplate(text);
    trie.add(template, template);
  }

  for (const { path, template, captured } of MATCHES) {
    it(`leads \`${path}\` to ${template === undefined ? "nothing" : `\`${template}\``}.`, () => {
      const match = trie.match(path);
      expect(match?.value.text).to.equal(template);
      const values = match?.value.variables.map((variable) => capturedText(variable, match.segments)) ?? [];
      expect(values).to.deep.equal(captured);
    });
  }

  it("keeps the first of two routes that differ only in the names of their variables.", () => {
    const older = { name: "older" };
    const small = createRouteTrie<{ name: string }>();
    expect(small.add(parsePathTemplate("/v1/{a}/x/{b=**}:go"), older)).to.equal(undefined);
    expect(small.add(parsePathTemplate("/v1/{c.d}/x/{e=**}:go"), { name: "newer" })).to.equal(older);
    expect(small.match("/v1/1/x/2/3:go")?.value).to.equal(older);
  });
});
