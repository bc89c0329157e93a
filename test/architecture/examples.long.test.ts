import { execFile } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import typesFromOpenApi, { astToString } from "openapi-types";
import { openApiFromServices } from "../../src/server/rest/openapi.ts";
import { SERVICES } from "../conformance/methods.ts";
import { codeBlocks } from "./page.ts";
import { withClientSources } from "./reader.ts";
import { ROOT } from "./source-files.ts";

/** Returns the TypeScript examples of a page. One that is not run alone goes on from the first example of its page. */
function examplesOf(path: string): readonly { readonly name: string; readonly text: string }[] {
  const blocks = codeBlocks(readFileSync(join(ROOT, path), "utf8")).filter(({ language }) => language === "ts");
  return blocks.map(({ code, notRun }, index) => ({
    name: `${path.replaceAll("/", "-")}-${index + 1}.ts`,
    text: notRun === undefined || index === 0 ? code : `${blocks[0]?.code}\n${code}`,
  }));
}

describe("the TypeScript examples of the README and the guides", () => {
  const folder = join(ROOT, ".generated/examples");
  before(() => mkdir(folder, { recursive: true }));
  after(() => rm(folder, { recursive: true, force: true }));

  it("compile under the options of the project, against the sources and the frameworks themselves.", async () => {
    const examples = ["README.md", ...globSync("src/**/*.md", { cwd: ROOT })].flatMap(examplesOf);
    for (const { name, text } of examples)
      await writeFile(join(folder, name), `${withClientSources(text)}\nexport {};\n`);
    const openApi = JSON.stringify(
      await openApiFromServices(SERVICES, { title: "Agent Control Plane", version: "v1" }),
    );
    await writeFile(join(folder, "schema.d.ts"), astToString(await typesFromOpenApi(openApi)));
    const compilerOptions = {
      // An example may leave what it makes unused.
      noUnusedLocals: false,
      noEmit: true,
      rewriteRelativeImportExtensions: false,
      rootDir: ROOT,
      types: ["node"],
    };
    const config = { extends: "../../tsconfig.json", compilerOptions, include: ["."] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    const tsc = join(ROOT, "node_modules/.bin/tsc");
    const { stdout } = await promisify(execFile)(tsc, ["-p", folder]).catch((error: { stdout: string }) => error);
    expect(stdout).to.equal("");
  });
});
