import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { listFileFrom } from "../../src/cli/list-values.ts";
import type { Run } from "./harness.ts";
import { type Served, startServed } from "./served.ts";

describe("agentctl list", () => {
  let served: Served;
  let folder: string;
  before(async () => {
    served = await startServed();
    folder = await mkdtemp(join(tmpdir(), "lists-"));
  });
  after(async () => {
    await served?.stop();
    await rm(folder, { recursive: true });
  });

  const ok = async (...argv: readonly string[]): Promise<Run> => {
    const run = await served.agentctl("list", ...argv);
    expect(run.code, run.stderr).to.equal(0);
    return run;
  };
  const file = async (name: string, text: string): Promise<string> => {
    const path = join(folder, name);
    await writeFile(path, text);
    return path;
  };
  const valuesOf = async (name: string): Promise<string[]> =>
    (await ok("get", name, "--all")).stdout.trim().split("\n");

  it("puts, shows, changes and deletes a list.", async () => {
    await ok(
      "put",
      "hosts",
      "--file",
      await file("hosts.yaml", "kind: host\nvalues: [Example.com, '*.corp.example']\n"),
    );
    expect(await valuesOf("hosts")).to.deep.equal(["*.corp.example", "example.com"]);
    expect((await ok("add", "hosts", "b.example", "c.example", "--json")).json()).to.include({ added: 2 });
    await ok("remove", "hosts", "EXAMPLE.com", "c.example");
    expect(await valuesOf("hosts")).to.deep.equal(["*.corp.example", "b.example"]);
    expect((await ok("get", "hosts", "--search", "corp")).stdout.trim()).to.equal("*.corp.example");
    expect((await ok("ls")).stdout).to.match(/hosts +host +2 +0/);
    await ok("put", "hosts", "--file", await file("hosts.csv", 'value,note\nd.example,"a, b"\n\n'));
    expect(await valuesOf("hosts")).to.deep.equal(["d.example"]);
    await ok("delete", "hosts", "--yes");
    expect((await served.agentctl("list", "get", "hosts")).code).to.not.equal(0);
  });

  type Answer = { readonly list: { readonly size: number; readonly digest: string }; readonly added: number };
  const answered = async (...argv: readonly string[]): Promise<Answer> => (await ok(...argv, "--json")).json() as never;

  it("puts a list only from the digest that it has, was read with, or was told.", async () => {
    const a = await file("a.csv", "a\n");
    const b = await file("b.csv", "b\n");
    const { list } = await answered("put", "raced", "--file", a, "--kind", "text", "--expected-digest", "none");
    const stale = await served.agentctl("list", "put", "raced", "--file", b, "--expected-digest", "none");
    expect(stale.code).to.equal(1);
    expect(stale.stderr).to.include("409").and.include(list.digest);
    await answered("put", "raced", "--file", b, "--expected-digest", list.digest);
    expect(
      (await served.agentctl("list", "put", "raced", "--file", a, "--expected-digest", list.digest)).code,
    ).to.equal(1);
    // Two at the same time, neither of which was told a digest.
    const racing = ["c", "d", "e", "f"].map(async (each) =>
      served.agentctl("list", "put", "raced", "--file", await file(`${each}.csv`, each)),
    );
    const runs = await Promise.all(racing);
    expect(await valuesOf("raced")).to.have.length(1);
    for (const { code, stderr } of runs) if (code !== 0) expect(stderr).to.include("is not as expected");
    expect(runs.some(({ code }) => code === 0)).to.equal(true);
  });

  it("reads CSV by RFC 4180, and JSON and YAML by their names.", () => {
    const csv = (text: string) => listFileFrom("a.csv", text).values;
    expect(csv('\ufeffValue,x\r\n"a, ""b""",1\r\nplain,"2\n3"\r\n\r\n"multi\nline"')).to.deep.equal([
      'a, "b"',
      "plain",
      "multi\nline",
    ]);
    expect(csv("a\nb")).to.deep.equal(["a", "b"]);
    expect(csv("")).to.deep.equal([]);
    const long = `"${"x".repeat(4_000_000)}`;
    expect(csv(`${long}"\nb`)[1]).to.equal("b");
    expect(() => csv(long)).to.throw("is no CSV");
    expect(() => csv(`${'""'.repeat(2_000_000)}"`)).to.throw("is no CSV");
    for (const broken of ['"a', 'a\n"b"c\n', 'a"b']) expect(() => csv(broken), broken).to.throw("is no CSV");
    expect(listFileFrom("a.json", '["a", "b"]')).to.deep.equal({ kind: undefined, values: ["a", "b"] });
    expect(listFileFrom("a.yml", "kind: text\nvalues: [a]")).to.deep.equal({ kind: "text", values: ["a"] });
    expect(() => csv("M\ufffdnchen")).to.throw("is not in UTF-8");
    for (const text of ["a: [", "values: [1]", "kind: text", "7"])
      expect(() => listFileFrom("a.yaml", text), text).to.throw("--file");
  });
});
