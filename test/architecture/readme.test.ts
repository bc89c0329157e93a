import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { CONFIG_VARIABLES, DEFAULT_GRPC_PORT, DEFAULT_HOST, DEFAULT_HTTP_PORT } from "../../src/config.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { asFarAsShown, isTextAsShown, linksOf, type RunnableBlock, runnableBlocks, tableBelow } from "./page.ts";
import { ROOT } from "./source-files.ts";

const README = readPage("README.md");
/** The guide of a folder whose only page it is. */
const DRY_RUNS = "src/dryrun/README.md";
const GATEWAY = "src/gateway/README.md";
/** The guides in the order in which the README lists them. */
const GUIDES = linksOf(README.text)
  .filter((path) => path.endsWith("/GUIDE.md") || path === DRY_RUNS || path === GATEWAY)
  .filter((path, index, paths) => paths.indexOf(path) === index)
  .map(readPage);
const PAGES = [README, ...GUIDES];
/** Ends the output of each block. */
const END = "--- end of block ---";
const HTTP = `http://${DEFAULT_HOST}:${DEFAULT_HTTP_PORT}`;
const GRPC = `${DEFAULT_HOST}:${DEFAULT_GRPC_PORT}`;
const KEY_LINE = "KEY=$(cat .data/admin-key)";

const run = promisify(execFile);

interface Page {
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly RunnableBlock[];
}

function readPage(path: string): Page {
  const text = readFileSync(join(ROOT, path), "utf8");
  return { path, text, blocks: runnableBlocks(text) };
}

const shellBlocks = ({ blocks }: Page): readonly RunnableBlock[] => blocks.filter(({ language }) => language === "sh");

/** Puts the test server's addresses and key in place of the documented defaults. */
function forServer(code: string, { http, grpc, adminKey }: TestServer): string {
  return code.replaceAll(HTTP, http).replaceAll(GRPC, grpc).replace(KEY_LINE, `KEY=${adminKey}`);
}

/** Runs shell blocks in one shell. Returns their outputs, and the agent that they registered. */
async function runShell(
  blocks: readonly RunnableBlock[],
  server: TestServer,
): Promise<{ readonly outputs: readonly string[]; readonly agentId: string }> {
  const script = blocks.map(({ code }) => `${forServer(code, server)}\necho; echo '${END}'`);
  const { stdout } = await run("bash", ["-euo", "pipefail", "-c", `${script.join("\n")}\necho $AGENT`], { cwd: ROOT });
  const outputs = stdout.split(END).map((output) => output.trim());
  return { outputs, agentId: outputs.at(-1) ?? "" };
}

/** Entries of the published client, and their sources. */
const CLIENT_ENTRIES = { "": "index.ts", "/node": "node/index.ts", "/proto": "proto.ts" };

/** Runs a module as printed, with the entries of the client taken from the sources. */
async function runModule(code: string, server: TestServer, agentId: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "acp-readme-"));
  const source = (entry: keyof typeof CLIENT_ENTRIES): string =>
    `"${pathToFileURL(join(ROOT, "src/client", CLIENT_ENTRIES[entry])).href}"`;
  const text = forServer(code, server).replace(/"@agent-control-plane\/client(\/node|\/proto|)"/g, (_, entry) =>
    source(entry),
  );
  try {
    const file = join(folder, "example.ts");
    await writeFile(file, text);
    const env = { ...process.env, KEY: server.adminKey, AGENT: agentId };
    return (await run(process.execPath, [file], { env })).stdout;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function runSql(statement: string, url: string): Promise<string> {
  return JSON.stringify(await withClient(url, async (client) => (await client.query(statement)).rows));
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

describe("the commands of the README and the guides", () => {
  let database: TestDatabase;
  let server: TestServer;
  before(async function () {
    this.timeout(180_000);
    database = await createTestDatabase();
    server = await startServer({ databaseUrl: database.url });
  });
  after(async () => {
    await server?.stop();
    await database?.drop();
  });

  it("use the default addresses and the key file.", () => {
    expect(README.text).to.include(HTTP).and.to.include(KEY_LINE);
  });

  // One workspace for all pages, as a reader has it. A guide's shell begins with the README's blocks.
  for (const page of PAGES) {
    it(`print what ${page.path} shows.`, async () => {
      const shell = page === README ? shellBlocks(page) : [...shellBlocks(README), ...shellBlocks(page)];
      const { outputs, agentId } = await runShell(shell, server);
      for (const [index, block] of shell.entries()) assertShown(block, outputs[index] ?? "");
      for (const block of page.blocks) {
        if (block.language === "ts") assertShown(block, await runModule(block.code, server, agentId));
        if (block.language === "sql") assertShown(block, await runSql(block.code, database.url));
      }
    });
  }
});

describe("the README and the guides", () => {
  it("are linked: every guide from the README.", () => {
    const guides = globSync("src/**/GUIDE.md", { cwd: ROOT });
    expect(GUIDES.map(({ path }) => path)).to.have.members([...guides, DRY_RUNS, GATEWAY]);
  });

  it("link to files that exist.", () => {
    const broken = PAGES.flatMap(({ path, text }) =>
      linksOf(text)
        .map((link) => join(dirname(path), link))
        .filter((file) => !existsSync(join(ROOT, file)))
        .map((file) => `${path} links to ${file}`),
    );
    expect(broken).to.deep.equal([]);
  });
});

describe("the tables of the README and of the tests", () => {
  it("list every variable as the program knows it.", () => {
    const want = CONFIG_VARIABLES.map(({ name, default: preset, meaning }) => [
      ...[`\`${name}\``, preset ? `\`${preset}\`` : "", meaning],
    ]);
    expect(tableBelow(README.text, "Configuration")).to.deep.equal(want);
  });

  it("name tests that exist as proof of every promise.", () => {
    const proofs = tableBelow(readFileSync(join(ROOT, "test/README.md"), "utf8"), "Promises").map(
      ([, files = ""]) => files.match(/(?<=`)[^`]+\.test\.ts(?=`)/g) ?? [],
    );
    expect(proofs.filter((files) => files.length === 0)).to.deep.equal([]);
    expect(proofs.flat().filter((file) => !existsSync(join(ROOT, file)))).to.deep.equal([]);
  });

  it("name folders and commands that exist.", () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: object };
    const cells = tableBelow(README.text, "Work on it").flatMap(
      ([cell = ""]) => cell.match(/(?<=`)[^`,]+(?=`)/g) ?? [],
    );
    const commands = cells.filter((cell) => cell.startsWith("npm "));
    expect(commands.filter((command) => !((command.split(" ").at(-1) ?? "") in scripts))).to.deep.equal([]);
    expect(cells.filter((cell) => cell.endsWith("/") && !existsSync(join(ROOT, cell)))).to.deep.equal([]);
  });
});
