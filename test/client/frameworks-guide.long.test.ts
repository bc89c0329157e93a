import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";

const ROOT = join(import.meta.dirname, "../..");
const EXAMPLE = /^<!-- compile -->\n```ts\n(.*?)^```$/gms;
const ENTRIES: Readonly<Record<string, string>> = { "": "index", "/proto": "proto", "/node": "node/index" };

/** Has the examples import the sources in place of the published package. */
function withSources(example: string): string {
  return example.replace(/"@agent-control-plane\/client(\/[a-z-]+)?"/g, (_, entry = "") => {
    const file = ENTRIES[entry] ?? `adapters${entry}`;
    return `"../../src/client/${file}.ts"`;
  });
}

describe("the examples of the guide to frameworks", () => {
  const folder = join(ROOT, ".generated/frameworks-guide");
  after(() => rm(folder, { recursive: true, force: true }));

  it("compile with the frameworks themselves.", async () => {
    const guide = await readFile(join(ROOT, "src/client/FRAMEWORKS.md"), "utf8");
    const [setup = "", ...examples] = [...guide.matchAll(EXAMPLE)].map(([, code = ""]) => withSources(code));
    expect(examples).to.have.length(5);
    await mkdir(folder, { recursive: true });
    for (const [index, example] of examples.entries()) {
      await writeFile(join(folder, `example-${index}.ts`), `${setup}\n${example}\nexport {};\n`);
    }
    const options = { noUnusedLocals: false, noUnusedParameters: false, noEmit: true, rootDir: ROOT, types: ["node"] };
    const config = { extends: "../../tsconfig.json", compilerOptions: options, include: ["."] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    const tsc = join(ROOT, "node_modules/.bin/tsc");
    const failed = await promisify(execFile)(tsc, ["-p", folder]).catch((error: { stdout: string }) => error.stdout);
    if (typeof failed === "string") expect.fail(failed);
  });
});
