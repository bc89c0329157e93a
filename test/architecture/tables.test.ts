import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { REASON_CODES } from "../../src/policy/reason-codes.ts";
import { REASON_WORDS } from "../../src/server/rest/openapi-errors.ts";
import { tableBelow } from "./page.ts";
import { ROOT } from "./source-files.ts";
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

  it("name tests that exist as proof of every promise.", () => {
    const proofs = tableBelow(read("test/README.md"), "Promises").map(
      ([, files = ""]) => files.match(/(?<=`)[^`]+\.test\.ts(?=`)/g) ?? [],
    );
    expect(proofs.filter((files) => files.length === 0)).to.deep.equal([]);
    expect(proofs.flat().filter((file) => !existsSync(join(ROOT, file)))).to.deep.equal([]);
  });

  it("name folders and commands that exist.", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: object };
    const cells = tableBelow(read("README.md"), "Work on it").flatMap(
      ([cell = ""]) => cell.match(/(?<=`)[^`,]+(?=`)/g) ?? [],
    );
    const commands = cells.filter((cell) => cell.startsWith("npm "));
    expect(commands.filter((command) => !((command.split(" ").at(-1) ?? "") in scripts))).to.deep.equal([]);
    expect(cells.filter((cell) => cell.endsWith("/") && !existsSync(join(ROOT, cell)))).to.deep.equal([]);
  });
});
