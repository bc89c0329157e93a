import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { expect } from "chai";
import typesFromOpenApi, { astToString } from "openapi-types";
import { codeBlocks } from "../../architecture/page.ts";
import { ROOT } from "../../architecture/source-files.ts";
import { startService, type TestService } from "../../support/service.ts";

const run = promisify(execFile);

/** The program that the guide shows for REST clients. */
function programOfGuide(): string {
  const blocks = codeBlocks(readFileSync(join(ROOT, "src/server/rest/GUIDE.md"), "utf8"));
  return blocks.find(({ language }) => language === "ts")?.code ?? "";
}

describe("the document at /openapi.json", () => {
  let service: TestService;
  let text: string;
  before(async () => {
    service = await startService();
    text = await (await fetch(`${service.http}/openapi.json`)).text();
  });
  after(async () => {
    await service?.stop();
  });

  it("passes the recommended rules of redocly without a warning.", async () => {
    const config = await createConfig({ extends: ["recommended"] });
    const problems = await lintFromString({ source: text, absoluteRef: "/openapi.json", config });
    expect(problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)).to.deep.equal([]);
  });

  it("gives openapi-typescript the types with which openapi-fetch calls the service.", async () => {
    const folder = await mkdtemp(join(tmpdir(), "acp-openapi-"));
    try {
      await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
      await writeFile(join(folder, "package.json"), '{"type": "module"}');
      await writeFile(join(folder, "schema.d.ts"), astToString(await typesFromOpenApi(text)));
      const program = programOfGuide().replaceAll("http://127.0.0.1:7080", service.http);
      await writeFile(join(folder, "client.ts"), program);
      const strict = [
        "--strict",
        "--noEmit",
        "--skipLibCheck",
        "--target",
        "es2023",
        "--lib",
        "es2023,dom,dom.iterable",
      ];
      const modules = ["--module", "nodenext", "--types", "node", "--allowImportingTsExtensions"];
      const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
      await run(process.execPath, [tsc, ...strict, ...modules, "client.ts"], { cwd: folder });
      const env = { ...process.env, KEY: service.adminKey };
      const { stdout } = await run(process.execPath, ["client.ts"], { cwd: folder, env });
      expect(stdout.trim().split("\n")).to.deep.equal([
        "allow",
        "escalate: `amount > 500 EUR` holds",
        "AGENT_NOT_FOUND: no agent `agt_unknown`",
        "pending",
      ]);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
