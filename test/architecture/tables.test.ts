import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { REASON_CODES } from "../../src/policy/reason-codes.ts";
import { REASON_WORDS } from "../../src/server/rest/openapi-errors.ts";
import { linksOf, tableBelow } from "./page.ts";
import { ROOT, sourceFiles } from "./source-files.ts";
import { PAGES, withTables } from "./tables.ts";

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

describe("the tables of the guides", () => {
  for (const page of PAGES) {
    it(`are as \`npm run generate\` writes them in ${page.path}.`, () => {
      const text = read(page.path);
      expect(text).to.include(`\n| ${page.head} `);
      expect(text).to.equal(withTables(text, page));
    });
  }

  it("list every reason of an error.", () => {
    const listed = [...read("src/server/ERRORS.md").matchAll(/^\| `(\w+)` +\| \d/gm)].map(([, word]) => word);
    expect(listed).to.have.members(REASON_WORDS);
  });

  it("list every reason code of a decision.", () => {
    const rows = tableBelow(read("src/server/ERRORS.md"), "Reasons of decisions");
    expect(rows.map(([code]) => code)).to.have.members(REASON_CODES.map((code) => `\`${code}\``));
  });

  it("list everything that workspaces share.", () => {
    const pot = /(?:new (?:SharedPot|Slots)\(\{[^}]*?name: |createHeldBytes\()"(\w+)"/g;
    const named = sourceFiles("src", ".ts").flatMap(({ text }) => [...text.matchAll(pot)].map(([, name]) => name));
    const listed = tableBelow(read("src/server/GUIDE.md"), "Shares").map(([name = ""]) => name.replaceAll("`", ""));
    expect(listed).to.have.members(named);
  });

  it("name tests that exist as proof of every promise.", () => {
    const proofs = tableBelow(read("test/README.md"), "Promises").map(
      ([, files = ""]) => files.match(/(?<=`)[^`]+\.test\.ts(?=`)/g) ?? [],
    );
    expect(proofs.filter((files) => files.length === 0)).to.deep.equal([]);
    expect(proofs.flat().filter((file) => !existsSync(join(ROOT, file)))).to.deep.equal([]);
  });

  it("give a reason for every test that goes past the pooler.", () => {
    const past = sourceFiles("test", ".ts").filter(
      ({ path, text }) => !/^test\/(support|fire)\//.test(path) && /\b(sessionUrlOf|startGate|isPooled)\(/.test(text),
    );
    const rows = tableBelow(read("test/README.md"), "Past the pooler");
    expect(rows.map(([file]) => file)).to.have.members(past.map(({ path }) => `\`${path}\``));
    expect(rows.filter(([, reason = ""]) => reason === "")).to.deep.equal([]);
  });
});

describe("the pages for those who work on it", () => {
  const pages = ["README.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md"].map((path) => ({
    path,
    text: read(path),
  }));

  it("name commands that exist.", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: object };
    const named = pages.flatMap(({ text }) =>
      [...text.matchAll(/`npm (?:run )?([\w:]+)/g)].map(([, name = ""]) => name),
    );
    expect(named.filter((name) => !(name in scripts))).to.deep.equal([]);
  });

  it("name files and folders that exist.", () => {
    const named = pages.flatMap(({ text }) =>
      [...text.matchAll(/`((?:src|test|proto|gen|\.ci)\/[\w./-]*)`/g)].map(([, path = ""]) => path),
    );
    const linked = pages.flatMap(({ text }) => linksOf(text));
    expect([...named, ...linked].filter((path) => !existsSync(join(ROOT, path)))).to.deep.equal([]);
  });

  it("show every folder of the source on the map.", () => {
    const map = tableBelow(read("CONTRIBUTING.md"), "Map").map(([folders = ""]) => folders);
    const folders = readdirSync(join(ROOT, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.filter(({ name }) => !map.some((cell) => cell.includes(`\`src/${name}/\``)))).to.deep.equal([]);
  });
});
