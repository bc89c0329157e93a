import { expect } from "chai";
import { type Served, startServed } from "./served.ts";

describe("agentctl list with files of any size", function () {
  this.timeout(120_000);
  let served: Served;
  before(async () => {
    served = await startServed();
  });
  after(() => served?.stop());

  const file = (name: string, text: string): Promise<string> => served.folder.file(name, text);
  type Answer = { readonly list: { readonly size: number; readonly digest: string }; readonly added: number };
  const answered = async (...argv: readonly string[]): Promise<Answer> => {
    const run = await served.agentctl("list", ...argv, "--json");
    expect(run.code, run.stderr).to.equal(0);
    return run.json() as never;
  };

  it("puts a whole list in one change from CSV, YAML and JSON, in place of another one too.", async () => {
    // 100,000 values, 4 MiB in all.
    const values = (of: string) => Array.from({ length: 100_000 }, (_, index) => `${of} ${index} `.padEnd(41, "x"));
    const csv = await file("large.csv", values("csv").join("\r\n"));
    expect((await served.agentctl("list", "put", "large", "--file", csv)).stderr).to.include("needs a kind");
    const first = await answered("put", "large", "--file", csv, "--kind", "text");
    expect(first.list.size).to.equal(100_000);
    const yaml = await file(
      "large.yaml",
      `kind: text\nvalues:\n${values("yaml")
        .map((each) => `  - ${each}\n`)
        .join("")}`,
    );
    expect((await answered("put", "large", "--file", yaml)).added).to.equal(100_000);
    const json = await file("large.json", JSON.stringify(values("json")));
    expect((await answered("put", "large", "--file", json)).added).to.equal(100_000);
    expect((await answered("remove", "large", "--file", json)).list.size).to.equal(0);
    expect((await answered("add", "large", "--file", csv)).list.digest).to.equal(first.list.digest);
    const tooMany = await file("too-many.csv", [...values("csv"), "one more"].join("\n"));
    const refused = await served.agentctl("list", "put", "large", "--file", tooMany);
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.include("`values` must hold at most 100000 items");
  });
});
