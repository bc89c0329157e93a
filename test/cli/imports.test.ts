import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";

const CLI = join(import.meta.dirname, "..", "..", "src", "cli");

async function importsOf(folder: string): Promise<{ file: string; from: string }[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".ts"));
  const each = names.map(async (file) => {
    const source = await readFile(join(folder, file), "utf8");
    return [...source.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/g)].map(([, from = ""]) => ({ file, from }));
  });
  return (await Promise.all(each)).flat();
}

describe("the imports of agentctl", () => {
  it("leave the verifier by itself: its own files, and Node's hashes and signatures.", async () => {
    const imports = await importsOf(join(CLI, "verify"));
    expect(imports.length).to.be.greaterThan(10);
    expect(imports.filter(({ from }) => !/^(\.\/[\w-]+\.ts|node:crypto)$/.test(from))).to.deep.equal([]);
  });
});
