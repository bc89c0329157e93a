import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";

const ROOT = join(import.meta.dirname, "..", "..");
const MISSING = "// @ts-expect-error: `toArguments` is missing.";

describe("the compiler's errors about guarded functions", () => {
  const folder = join(ROOT, ".generated/typed-caller");
  before(() => mkdir(folder, { recursive: true }));
  after(() => rm(folder, { recursive: true, force: true }));

  it("name `toArguments` wherever it is missing.", async () => {
    const text = await readFile(join(import.meta.dirname, "typed-caller.ts"), "utf8");
    const shown = text.replaceAll("../../src/", `${ROOT}/src/`).replaceAll(MISSING, "// Missing:");
    await writeFile(join(folder, "caller.ts"), shown);
    const compilerOptions = { noEmit: true, rewriteRelativeImportExtensions: false, rootDir: ROOT, types: ["node"] };
    const config = { extends: "../../tsconfig.json", compilerOptions, include: ["."] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    const tsc = join(ROOT, "node_modules/.bin/tsc");
    const { stdout } = await promisify(execFile)(tsc, ["-p", folder]).catch((error: { stdout: string }) => error);
    const errors = stdout.split(/^(?=\S)/m).filter((each) => each.includes("error TS"));
    expect(errors).to.have.length(text.split(MISSING).length - 1);
    for (const error of errors) expect(error).to.contain("Property 'toArguments' is missing in type");
  });
});
