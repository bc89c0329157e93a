import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { CONFIG_VARIABLES, DEFAULT_GRPC_PORT, DEFAULT_HOST, DEFAULT_HTTP_PORT } from "../../src/config.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { asFarAsShown, isTextAsShown, type RunnableBlock, runnableBlocks, tableBelow } from "./page.ts";
import { ROOT } from "./source-files.ts";

const PAGE = readFileSync(join(ROOT, "README.md"), "utf8");
const SHELL = runnableBlocks(PAGE).filter(({ language }) => language === "sh");
const CODE = runnableBlocks(PAGE).filter(({ language }) => language === "ts");
/** Ends the output of each block. */
const END = "--- end of block ---";
const HTTP = `http://${DEFAULT_HOST}:${DEFAULT_HTTP_PORT}`;
const GRPC = `${DEFAULT_HOST}:${DEFAULT_GRPC_PORT}`;
const KEY_LINE = "KEY=$(cat .data/admin-key)";

const run = promisify(execFile);

/** The page speaks of the default ports and the kept key; the test's service has others. */
function forServer(code: string, { http, grpc, adminKey }: TestServer): string {
  return code.replaceAll(HTTP, http).replaceAll(GRPC, grpc).replace(KEY_LINE, `KEY=${adminKey}`);
}

/** Runs all shell blocks in one shell. Gives their outputs, and the agent that they registered. */
async function runShell(
  server: TestServer,
): Promise<{ readonly outputs: readonly string[]; readonly agentId: string }> {
  const script = SHELL.map(({ code }) => `${forServer(code, server)}\necho; echo '${END}'`);
  const { stdout } = await run("bash", ["-euo", "pipefail", "-c", `${script.join("\n")}\necho $AGENT`], { cwd: ROOT });
  const outputs = stdout.split(END).map((output) => output.trim());
  return { outputs, agentId: outputs.at(-1) ?? "" };
}

/** Runs a module as it stands on the page, with the package's entries taken from the sources. */
async function runModule(code: string, server: TestServer, agentId: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "acp-readme-"));
  const source = (path: string): string => `"${pathToFileURL(join(ROOT, "src", path, "index.ts")).href}"`;
  const text = forServer(code, server).replace(/"agent-control-plane\/([\w/]+)"/g, (_, path: string) => source(path));
  try {
    const file = join(folder, "example.ts");
    await writeFile(file, text);
    const env = { ...process.env, KEY: server.adminKey, AGENT: agentId };
    return (await run(process.execPath, [file], { env })).stdout;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function assertShown({ shown }: RunnableBlock, output: string): void {
  if (shown === undefined) return;
  if (shown.language === "text") {
    expect(isTextAsShown(output, shown.text), `${output}\nis not as shown:\n${shown.text}`).to.equal(true);
    return;
  }
  const want: unknown = JSON.parse(shown.text);
  expect(asFarAsShown(JSON.parse(output), want)).to.deep.equal(want);
}

describe("the README's commands", () => {
  let server: TestServer;
  before(async function () {
    this.timeout(180_000);
    server = await startServer();
  });
  after(() => server?.stop());

  it("speak of the service as it starts by default.", () => {
    const commands = SHELL.map(({ code }) => code).join("\n");
    expect(commands).to.include(HTTP).and.to.include(KEY_LINE);
    expect(CODE.map(({ code }) => code).join("\n")).to.include(GRPC);
  });

  it("print what the page shows, and so does the library's example.", async () => {
    const { outputs, agentId } = await runShell(server);
    for (const [index, block] of SHELL.entries()) assertShown(block, outputs[index] ?? "");
    for (const block of CODE) assertShown(block, await runModule(block.code, server, agentId));
  });
});

describe("the README's tables", () => {
  it("list every variable as the program knows it.", () => {
    const want = CONFIG_VARIABLES.map(({ name, default: preset, meaning }) => [
      ...[`\`${name}\``, preset ? `\`${preset}\`` : "", meaning],
    ]);
    expect(tableBelow(PAGE, "Configuration")).to.deep.equal(want);
  });

  it("name tests that exist as proof of every promise.", () => {
    const proofs = tableBelow(PAGE, "Promises").map(
      ([, files = ""]) => files.match(/(?<=`)[^`]+\.test\.ts(?=`)/g) ?? [],
    );
    expect(proofs.filter((files) => files.length === 0)).to.deep.equal([]);
    expect(proofs.flat().filter((file) => !existsSync(join(ROOT, file)))).to.deep.equal([]);
  });

  it("name folders and commands that exist.", () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: object };
    const cells = tableBelow(PAGE, "Work on it").map(([cell = ""]) => cell.replaceAll("`", ""));
    const commands = cells.filter((cell) => cell.startsWith("npm "));
    expect(commands.filter((command) => !((command.split(" ").at(-1) ?? "") in scripts))).to.deep.equal([]);
    expect(cells.filter((cell) => cell.endsWith("/") && !existsSync(join(ROOT, cell)))).to.deep.equal([]);
  });
});
