import { readFileSync } from "node:fs";
import { join } from "node:path";
import { GUIDES } from "../../src/server/docs/guides.ts";
import { leftOut } from "../support/debian.ts";
import { type CodeBlock, runnableBlocks } from "./page.ts";
import { createReadersFolder, missingForPython, type ReadersFolder, ReadersShell } from "./reader.ts";
import { ROOT } from "./source-files.ts";

const blocksOf = (path: string): readonly CodeBlock[] => runnableBlocks(readFileSync(join(ROOT, path), "utf8"));

describe("the README and every guide, read from first to last in one shell", () => {
  let folder: ReadersFolder;
  let shell: ReadersShell;
  before("starts the service with the embedded database and opens the shell", async () => {
    folder = await createReadersFolder();
    shell = new ReadersShell(folder);
  });
  after("closes the shell and stops the service", async () => {
    await shell?.close();
    await folder?.remove();
  });

  const missing = missingForPython();
  for (const { path } of GUIDES) {
    for (const [index, block] of blocksOf(path).entries()) {
      const title = `prints what ${path} shows of block ${index + 1}.`;
      if (block.language === "python" && missing.length > 0) it.skip(leftOut(title, missing));
      else it(title, () => shell.check(block));
    }
  }

  // A second reading finds the mandates of the first, which the service does not create twice.
  it("leaves things as they were: the README prints the same again.", async () => {
    for (const block of blocksOf("README.md")) await shell.checkAgain(block);
  });
});
