import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { RuleTypeSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { DEFAULT_GRPC_PORT, DEFAULT_HOST, DEFAULT_HTTP_PORT } from "../../src/config.ts";
import { OPERATOR_NAMES } from "../../src/policy/operators/index.ts";
import { GUIDES } from "../../src/server/docs/guides.ts";
import { enumWordsFromDesc } from "../../src/server/rest/enum-words.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { asFarAsShown, isTextAsShown, linksOf, type RunnableBlock, runnableBlocks, tableBelow } from "./page.ts";
import { ROOT } from "./source-files.ts";

const README = readPage("README.md");
/** The guides in the order of the documentation. */
const PAGES_OF_DOCS = GUIDES.map(({ path }) => path).filter((path) => path !== README.path);
const GUIDE_PAGES = PAGES_OF_DOCS.map(readPage);
/** The section whose commands those of the guides continue. */
const PRELUDE = runnableBlocks(README.text.split(/^## /m).find((text) => text.startsWith("One decision\n")) ?? "");
const PAGES = [README, ...GUIDE_PAGES];
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

  // One workspace for all pages, as a reader has it. A guide's shell begins with the README's first blocks.
  for (const page of PAGES) {
    it(`print what ${page.path} shows.`, async () => {
      const shell = page === README ? shellBlocks(page) : [...PRELUDE, ...shellBlocks(page)];
      const { outputs, agentId } = await runShell(shell, server);
      for (const [index, block] of shell.entries()) assertShown(block, outputs[index] ?? "");
      for (const block of page.blocks) {
        if (block.language === "ts") assertShown(block, await runModule(block.code, server, agentId));
        if (block.language === "sql") assertShown(block, await runSql(block.code, database.url));
      }
    });
  }
});

describe("the examples of rules and operators", () => {
  let database: TestDatabase;
  let server: TestServer;
  const call = async (path: string, body: object): Promise<unknown> => {
    const headers = { "x-api-key": server.adminKey, "content-type": "application/json" };
    return await (await fetch(`${server.http}${path}`, { method: "POST", headers, body: JSON.stringify(body) })).json();
  };
  const { text, blocks } = readPage("src/policy/operators/GUIDE.md");
  const examples = tableBelow(text, "Every operator").map((cells) => cells.map((cell) => cell.replace(/^`|`$/g, "")));
  let agentId = "";

  before(async function () {
    this.timeout(180_000);
    database = await createTestDatabase();
    server = await startServer({ databaseUrl: database.url });
    const { agent } = (await call("/v1/enforce/agents", { name: "shipper" })) as { agent: { agent_id: string } };
    agentId = agent.agent_id;
    const [, tool = ""] = /tools '(\{[\s\S]*?\n\})'/.exec(blocks[0]?.code ?? "") ?? [];
    await call("/v1/enforce/tools", JSON.parse(tool));
  });
  after(async () => {
    await server?.stop();
    await database?.drop();
  });

  it("are one for each operator.", () => {
    expect(examples.map(([name]) => name)).to.have.members(OPERATOR_NAMES);
  });

  it("of types of rules: one for each type, and each decides as it says.", async () => {
    const rows = tableBelow(readPage("src/policy/GUIDE.md").text, "Types of rules").map((cells) =>
      cells.map((cell) => cell.replace(/^`|`$/g, "")),
    );
    const rules = rows.filter(([, rule = ""]) => rule.startsWith("{"));
    const words = enumWordsFromDesc(RuleTypeSchema).words;
    expect(rules.map(([type]) => type)).to.include.members([...words]);
    for (const [type = "", text = "", fires = "", passes = ""] of rules) {
      const rule = JSON.parse(text) as { readonly type: string; readonly decision: string };
      expect(rule.type).to.equal(type);
      const drafts = [{ name: "example", rules: [rule] }];
      expect(await call("/v1/enforce/mandates:compile", { rules: [rule] }), text).to.include({ valid: true });
      if (fires === "") continue;
      expect((await decisionsOf(fires, drafts)).at(-1), fires).to.equal(rule.decision);
      expect([...new Set(await decisionsOf(passes, drafts))], passes).to.deep.equal(["allow"]);
    }
  });

  async function decisionsOf(steps: string, drafts: readonly object[]): Promise<string[]> {
    const answer = await call("/v1/enforce/preflight", { agent_id: agentId, steps: JSON.parse(steps), drafts });
    const { preflight } = answer as { preflight: { steps: { decision: string }[] } };
    return preflight.steps.map(({ decision }) => decision);
  }

  for (const [name = "", condition = "", fires = "", passes = ""] of examples) {
    it(`decide as they say: ${name}.`, async () => {
      const rule = JSON.parse(condition) as { readonly operator: string };
      expect(rule.operator).to.equal(name);
      const rules = [{ type: "argument", tool: "ship_order", decision: "block", conditions: { rules: [rule] } }];
      for (const [text, want] of [
        [fires, "block"],
        [passes, "allow"],
      ] as const) {
        const action = { action_type: "order.ship", tool: "ship_order", metadata: { arguments: JSON.parse(text) } };
        const drafts = [{ name: "example", rules }];
        const answer = await call("/v1/enforce/probe", { agent_id: agentId, ...action, drafts });
        expect(answer, text).to.have.nested.property("probe.decision", want);
      }
    });
  }
});

describe("the README and the guides", () => {
  it("are linked: every guide from the README, and every guide of src is one of the documentation.", () => {
    const linked = new Set(linksOf(README.text));
    expect(PAGES_OF_DOCS.filter((path) => !linked.has(path))).to.deep.equal([]);
    const unlisted = globSync("src/**/GUIDE.md", { cwd: ROOT }).filter((path) => !PAGES_OF_DOCS.includes(path));
    expect(unlisted).to.deep.equal([]);
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
