import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect } from "chai";
import { RuleTypeSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { COMMANDS } from "../../src/cli/run.ts";
import { OPERATOR_NAMES } from "../../src/policy/operators/index.ts";
import { GUIDES } from "../../src/server/docs/guides.ts";
import { enumWordsFromDesc } from "../../src/server/rest/enum-words.ts";
import { agentctl } from "../cli/harness.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { leftOut } from "../support/debian.ts";
import { startService, type TestService } from "../support/service.ts";
import { type CodeBlock, linksOf, runnableBlocks, tableBelow } from "./page.ts";
import { createReadersFolder, DOCUMENTED_HTTP, missingForPython, type ReadersFolder, ReadersShell } from "./reader.ts";
import { ROOT } from "./source-files.ts";

const README = readPage("README.md");
/** The guides in the order of the documentation. */
const PAGES_OF_DOCS = GUIDES.map(({ path }) => path).filter((path) => path !== README.path);
const GUIDE_PAGES = PAGES_OF_DOCS.map(readPage);
/** The section whose commands those of the guides continue. */
const PRELUDE = runnableBlocks(README.text.split(/^## /m).find((text) => text.startsWith("One decision\n")) ?? "");
const PAGES = [README, ...GUIDE_PAGES];
const KEY_LINE = "KEY=$(cat .data/admin-key)";

interface Page {
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly CodeBlock[];
}

function readPage(path: string): Page {
  const text = readFileSync(join(ROOT, path), "utf8");
  return { path, text, blocks: runnableBlocks(text) };
}

describe("the program agentctl in texts", () => {
  it("is never taken from the public registry, where another program has its name.", () => {
    const paths = ["*.md", "src/**/*.{md,ts,tsx,yaml,sh}", "proto/**/*.proto"].flatMap((glob) =>
      globSync(glob, { cwd: ROOT }),
    );
    const wrong = /\b(npx|bunx|pnpx|npm (exec|i|install|x)|(pnpm|yarn) (dlx|add))( -\S+)* agentctl\b/;
    const found = paths.filter((path) => wrong.test(readFileSync(join(ROOT, path), "utf8")));
    expect(found).to.deep.equal([]);
  });
});

describe("the pages on threats and on standards", () => {
  const PATHS = ["src/server/THREATS.md", "src/verify/MAPPING.md"];
  let service: TestService;
  before(async () => {
    service = await startService();
  });
  after(() => service?.stop());

  for (const path of PATHS) {
    const text = readFileSync(join(ROOT, path), "utf8");
    it(`name commands that exist in ${path}.`, () => {
      const named = [...text.matchAll(/`agentctl ([a-z -]+)`/g)].map(([, words = ""]) => words);
      expect(named.length).to.be.above(10);
      expect(named.filter((words) => !COMMANDS.some(({ name }) => name === words))).to.deep.equal([]);
    });

    it(`name commands that run in ${path}.`, async () => {
      const named = new Set([...text.matchAll(/`agentctl ([a-z -]+)`/g)].map(([, words = ""]) => words));
      const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
      for (const words of named) {
        const listing = words.endsWith(" list") || words === "vault verify";
        const { code, stderr } = await agentctl([...words.split(" "), listing ? "--json" : "--help"], env);
        expect(code, `${words}: ${stderr}`).to.equal(0);
      }
    });

    it(`fill every cell of ${path}: each row has a command, or says that nothing meets it.`, () => {
      for (const row of text.split("\n").filter((line) => line.startsWith("| ") && line.split("|").length === 6)) {
        const cells = row
          .slice(1, -1)
          .split("|")
          .map((cell) => cell.trim());
        expect(cells, row).not.to.include("");
        if (!["Shown by", "none"].some((word) => cells.includes(word)) && !row.startsWith("| ---")) {
          expect(row).to.match(/`agentctl [a-z -]+`/);
        }
      }
    });

    it(`claim no conformance in ${path}.`, () => {
      expect(text).not.to.match(/\b(conform(s|ant|ance)?|compl(y|ies|iant|iance)|certified)\b/i);
    });
  }
});

describe("the commands of the README and the guides", () => {
  let database: TestDatabase;
  let folder: ReadersFolder;
  before(async () => {
    database = await createTestDatabase();
    folder = await createReadersFolder({
      databaseUrl: database.url,
      packages: ["@modelcontextprotocol/server-filesystem"],
    });
  });
  after(async () => {
    await folder?.remove();
    await database?.drop();
  });

  it("use the default addresses and the key file.", () => {
    expect(README.text).to.include(DOCUMENTED_HTTP).and.to.include(KEY_LINE);
  });

  // One workspace for all pages, as a reader has it. A guide's shell begins with the README's first blocks.
  for (const page of PAGES.filter(({ blocks }) => blocks.length > 0)) {
    const title = `print what ${page.path} shows.`;
    const missing = page.blocks.some(({ language }) => language === "python") ? missingForPython() : [];
    if (missing.length > 0) {
      it.skip(leftOut(title, missing));
      continue;
    }
    it(title, async () => {
      const shell = new ReadersShell(folder);
      try {
        for (const block of page === README ? page.blocks : [...PRELUDE, ...page.blocks]) await shell.check(block);
      } finally {
        await shell.close();
      }
    });
  }
});

describe("the examples of rules and operators", () => {
  let service: TestService;
  const call = async (path: string, body: object, method = "POST"): Promise<unknown> => {
    const headers = { "x-api-key": service.adminKey, "content-type": "application/json" };
    return await (await fetch(`${service.http}${path}`, { method, headers, body: JSON.stringify(body) })).json();
  };
  const { text, blocks } = readPage("src/policy/operators/GUIDE.md");
  const examples = tableBelow(text, "Every operator").map((cells) => cells.map((cell) => cell.replace(/^`|`$/g, "")));
  let agentId = "";

  before(async () => {
    service = await startService();
    const { agent } = (await call("/v1/enforce/agents", { name: "shipper" })) as { agent: { agent_id: string } };
    agentId = agent.agent_id;
    const [, tool = ""] = /tools '(\{[\s\S]*?\n\})'/.exec(blocks[0]?.code ?? "") ?? [];
    await call("/v1/enforce/tools", JSON.parse(tool));
    const [, path = "", list = ""] = /PUT (\S+lists\S+) '(\{.*?\})'/.exec(blocks[0]?.code ?? "") ?? [];
    await call(path, JSON.parse(list), "PUT");
  });
  after(() => service?.stop());

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

  it("hold every block that is run; other pages mark theirs as not run.", () => {
    const others = globSync("src/**/*.md", { cwd: ROOT }).filter((path) => !PAGES_OF_DOCS.includes(path));
    expect(others.filter((path) => readPage(path).blocks.length > 0)).to.deep.equal([]);
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
