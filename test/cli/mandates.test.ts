import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect } from "chai";
import { parse } from "yaml";
import { canonicalYaml, lineDiff } from "../../src/cli/mandate-yaml.ts";
import { agentctl, type Run } from "./harness.ts";
import { type Served, startServed } from "./served.ts";

const TOOL = {
  name: "send_payment",
  input_schema: {
    type: "object",
    properties: { amount: { type: "number" }, currency: { type: "string", enum: ["EUR", "USD"] } },
  },
};

/** One mandate with a rule of each of the nine types, some of them chosen by the compiler, and every kind of member. */
const EVERY_TYPE = `# Every type of rule.
name: Every type
description: "Nine: types"
priority: 7
mode: observe
rules:
  - type: argument
    tool: send_payment
    decision: escalate
    description: large ones
    escalation_ttl_seconds: 60
    conditions:
      operator: OR
      rules:
        - { field: amount, operator: ">", value: 500.5, currency: EUR, on_missing: ignore }
        - { field: currency, operator: not_in, value: [EUR] }
        - { field: amount, operator: exists }
  - tool: send_payment
    decision: block
    conditions: { rules: [{ field: amount, operator: between, value: [1, 2], currency: USD }] }
  - tool: elsewhere
    decision: block
    conditions: { rules: [{ field: a.b, operator: "==", value: "no", on_missing: violate }] }
  - { type: metadata, decision: allow, conditions: { rules: [{ field: ok, operator: "==", value: false }] } }
  - { type: action, decision: block, conditions: { match_action_types: ["db.*", "rm"] } }
  - { type: content, decision: block, conditions: { patterns: ['iban\\s+\\d+', "a#b: c"] } }
  - type: sequence
    decision: block
    conditions:
      { mode: velocity, match_action_types: [pay], max_count: 0, window_seconds: 60, scope: workspace, count_decisions: [allow] }
  - { type: sequence, decision: block, conditions: { mode: ordered, steps: [read, send], window_seconds: 60 } }
  - { type: trust, decision: block, conditions: { below: 0 } }
  - { type: schedule, decision: escalate, conditions: { time_zone: UTC, days: [sat, sun], from: 08:00, to: "17:30", outside: true } }
  - { type: schema, tool: send_payment, decision: block }
  - { type: semantic, decision: block, conditions: { prompt: "must not\\nleak", min_confidence: 0, on_unavailable: allow, timeout_ms: 5 } }
`;
const simple = (name: string, actionType = name): string =>
  `name: ${name}\nrules:\n  - type: action\n    decision: block\n    conditions:\n      match_action_types:\n        - ${actionType}\n`;

describe("agentctl mandate", () => {
  let served: Served;
  let count = 0;

  before(async () => {
    served = await startServed();
    await served.rest("POST /v1/enforce/tools", TOOL);
  });
  after(() => served.stop());

  /** Makes a folder of files. */
  async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
    const folder = served.folder.path(`set-${count++}`);
    await mkdir(folder);
    for (const [name, text] of Object.entries(files)) {
      const path = `${folder}/${name}`;
      await mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
      await writeFile(path, text);
    }
    return folder;
  }
  const run = (...argv: readonly string[]): Promise<Run> => served.agentctl("mandate", ...argv);
  /** Runs with a person at the terminal. */
  const asked = (answer: boolean, ...argv: readonly string[]): Promise<Run> =>
    agentctl(["mandate", ...argv], { AGENTCTL_URL: served.http, AGENTCTL_KEY: served.adminKey }, answer);
  const packed = async (name: string): Promise<{ name: string; version: number }[]> =>
    ((await served.rest(`GET /v1/enforce/packs/${name}`)) as never as { mandates: [] }).mandates;
  const seqNow = async (): Promise<string> =>
    String(((await served.rest("GET /v1/enforce/vault/checkpoint")) as { note?: string }).note).split("\n")[1] ?? "";

  it("applies YAML and JSON of every shape, below folders, as one version of the pack.", async () => {
    const folder = await folderOf({
      "one.yaml": simple("one"),
      "list.yml": `- ${simple("two").replaceAll("\n", "\n  ").trimEnd()}\n`,
      "below/documents.yaml": `---\n${simple("three")}---\n# nothing\n---\n${simple("four")}`,
      "below/wrapped.json": JSON.stringify({ $schema: "x", mandates: [parse(simple("five"))] }),
      ".hidden/bad.yaml": "[",
      "notes.txt": "[",
    });
    const applied = await run("apply", folder, "--pack", "shapes", "--yes");
    expect(applied.stdout).to.match(/applied version 1 of pack `shapes`\n$/);
    expect(applied.code).to.equal(0);
    expect((await packed("shapes")).map(({ name }) => name)).to.deep.equal(["five", "four", "one", "three", "two"]);
  });

  it("shows what it would create, update and archive, line by line, and changes nothing.", async () => {
    const first = await folderOf({ "a.yaml": `${simple("diff a")}---\n${simple("diff b")}---\n${simple("diff c")}` });
    await run("apply", first, "--pack", "diffs", "--yes");
    const next = await folderOf({
      "a.yaml": `${simple("diff a")}---\n${simple("diff b", "other")}---\n${simple("diff d")}`,
    });
    const seq = await seqNow();
    const { code, stdout } = await run("diff", next, "--pack", "diffs");
    expect(code).to.equal(0);
    expect(stdout.split("\n")).to.include.members([
      "created    diff d",
      "  + name: diff d",
      "updated    diff b",
      "  -         - diff b",
      "  +         - other",
      "archived   diff c",
      "pack `diffs`: 1 created, 1 updated, 1 archived, 1 unchanged",
    ]);
    expect(stdout).to.not.include("  -     decision");
    const { created, updated, archived } = (await run("diff", next, "--pack", "diffs", "--json")).json();
    expect([created, updated, archived].map((list) => (list as { name: string }[])[0]?.name)).to.deep.equal([
      "diff d",
      "diff b",
      "diff c",
    ]);
    expect(await seqNow()).to.equal(seq);
  });

  it("warns of expressions that may not do what was meant, by file, line and column.", async () => {
    const doubtful = `name: doubtful
rules:
  - { type: action, tool: send_payment, decision: block, when: 'args.currency == "KP"' }
  - type: sequence
    decision: escalate
    conditions: { mode: velocity, match_action_types: [pay], max_count: 1, window_seconds: 60 }
    when: agent.trust < 70
  - type: action
    tool: send_payment
    decision: escalate
    when: |
      args.amount + args.currency > 5
`;
    const folder = await folderOf({ "doubtful.yaml": doubtful });
    for (const command of ["validate", "diff"]) {
      const { code, stdout } = await run(command, folder, "--pack", "doubtful");
      expect(code, stdout).to.equal(0);
      const warned = stdout
        .split("\n")
        .flatMap((line) => /^(.*:\d+:\d+): warning: .* \((WHEN_\w+)\)$/.exec(line)?.slice(1) ?? []);
      expect(
        warned.map((each) => each.replace(`${folder}/`, "")),
        stdout,
      ).to.deep.equal([
        "doubtful.yaml:3:79",
        "WHEN_EXACT_TEXT",
        "doubtful.yaml:7:11",
        "WHEN_DOES_NOT_FILTER",
        "doubtful.yaml:12:7",
        "WHEN_ALWAYS_FAILS",
      ]);
    }
    const bad = await folderOf({ "bad.yaml": doubtful.replace("agent.trust < 70", "agent.trst < 70") });
    const refused = await run("validate", bad, "--pack", "doubtful");
    expect(refused.code).to.equal(1);
    expect(refused.stdout).to.match(/bad\.yaml:7:16: `rules\[1\]\.when`: .*did you mean `trust`\? \(WHEN_UNKNOWN\)/);
  });

  const trusted = (below: number): string =>
    `name: trusted\nrules:\n  - type: trust\n    decision: block\n    conditions:\n      below: ${below}\n`;

  it("shows which tests of the last version come out otherwise, before and after it applies.", async () => {
    const pack = ["--pack", "tested"];
    await run("apply", await folderOf({ "t.yaml": trusted(10) }), ...pack, "--yes");
    expect((await run("test", "trusted", "--generate")).code).to.equal(0);
    const next = await folderOf({ "t.yaml": trusted(20) });
    const seq = await seqNow();
    const changed =
      /t\.yaml:3:5: warning: test `tst_\w+` of version 1 of mandate `trusted` fails: trust 10 was `allow` and is `block`, and the rule fires \(TEST_FAILS\)/;
    for (const argv of [
      ["diff", next],
      ["validate", next],
      ["apply", next, "--dry-run"],
    ]) {
      const { code, stdout } = await run(...argv, ...pack);
      expect(stdout, argv[0]).to.match(changed);
      expect(code, argv[0]).to.equal(0);
      const { warnings } = (await run(...argv, ...pack, "--json")).json() as { warnings: { reason: string }[] };
      expect(new Set(warnings.map(({ reason }) => reason)), argv[0]).to.deep.equal(new Set(["TEST_FAILS"]));
    }
    expect((await run("apply", next, "--dry-run", ...pack)).stdout).to.match(/nothing was applied\n$/);
    expect(await seqNow()).to.equal(seq);
    const { stdout, code } = await run("apply", next, ...pack, "--yes");
    expect(code).to.equal(0);
    expect(stdout.match(/trust 10 was/g), stdout).to.have.length(1);
    expect(stdout).to.match(/applied version 2 of pack `tested`, with \d+ warnings\n$/);
    const back = await run("apply", await folderOf({ "t.yaml": trusted(30) }), ...pack, "--yes", "--json");
    const { warnings } = back.json() as { warnings: { file: string; line: number; reason: string; message: string }[] };
    expect(warnings.length).to.be.above(0);
    expect(warnings[0]).to.include({ line: 3, reason: "TEST_FAILS" });
    expect(warnings[0]?.message).to.contain("of version 1 of mandate `trusted`");
  });

  it("says what is wrong with file, line and column, in every file, and changes nothing.", async () => {
    const folder = await folderOf({
      "a.yaml": [
        "# A comment.",
        "name: wrong",
        "rules:",
        "  - tool: send_payment",
        "    decision: block",
        "    conditions:",
        "      rules:",
        "        - field: amuont",
        '          operator: ">"',
        "          value: 5",
        "  - type: action",
        "    decision: block",
        "",
      ].join("\n"),
      "b.json": `{\n  "name": "also wrong",\n  "scope": "agent", "agent_id": "agt_none",\n  "rules": [{"type": "trust", "decision": "block", "conditions": {"below": 5}}]\n}`,
    });
    const seq = await seqNow();
    for (const command of ["validate", "diff", "apply"]) {
      const { code, stdout } = await run(command, folder, "--pack", "wrong", ...(command === "apply" ? ["--yes"] : []));
      expect(code, command).to.equal(1);
      const lines = stdout.trimEnd().split("\n");
      expect(lines).to.have.length(4);
      expect(lines[0]).to.match(/a\.yaml:8:18: .*did you mean `amount`\?.*\(FIELD_NOT_IN_SCHEMA\)$/);
      expect(lines[1]).to.match(/a\.yaml:11:5: .*\(MATCH_MISSING\)$/);
      expect(lines[2]).to.match(/b\.json:3:33: .*\(AGENT_NOT_FOUND\)$/);
      expect(lines[3]).to.equal("3 violations");
    }
    const { violations } = (await run("validate", folder, "--json")).json() as { violations: object[] };
    expect(violations[0]).to.include({ line: 8, column: 18, reason: "FIELD_NOT_IN_SCHEMA" });
    expect(await seqNow()).to.equal(seq);
  });

  it("finds the place of what the service does not know or accept, and of what is no YAML.", async () => {
    const cases = [
      ["unknown member", `name: x\nrulez: []\n`, /:2:1: .*rulez/],
      ["unknown member inside", `${simple("x")}    desciption: why\n`, /:7:\d+: .*desciption|:\d+:\d+: .*desciption/],
      ["a word that is none", "name: x\nscope: planet\nrules: []\n", /:2:8: .*scope/],
      ["no rules", "name: x\n", /:1:1: .*rules/],
      ["no YAML", "name: [x\nrules: 5\n", /:\d+:\d+: .*\(\w+\)/],
      ["a name twice in one mandate", "name: x\nname: y\n", /:2:1: .*\(DUPLICATE_KEY\)/],
      ["a text", "just text\n", /:1:1: .*\(NOT_A_MANDATE\)/],
      ["a list of texts", "- a\n", /:1:3: .*\(NOT_A_MANDATE\)/],
      ["one name for two", `${simple("twice")}---\n${simple("TWICE")}`, /:9:7: .*\(NAME_REPEATED\)/],
    ] as const;
    for (const [what, text, wanted] of cases) {
      const { code, stdout, stderr } = await run("validate", await folderOf({ "f.yaml": text }));
      expect(stdout, `${what} ${stderr}`).to.match(wanted);
      expect(code, what).to.equal(1);
    }
  });

  it("bounds what aliases grow to.", async () => {
    const levels = Array.from({ length: 12 }, (_, at) => `l${at + 1}: &l${at + 1} [${`*l${at}, `.repeat(9)}]`);
    const text = `l0: &l0 [x]\n${levels.join("\n")}\nname: bomb\n`;
    const { code, stdout } = await run("validate", await folderOf({ "f.yaml": text }));
    expect(stdout).to.match(/:1:1: cannot be read: .*alias/);
    expect(code).to.equal(1);
  });

  it("asks before it applies, and applies nothing unless the answer is yes.", async () => {
    const folder = await folderOf({ "a.yaml": simple("asked") });
    const argv = ["apply", folder, "--pack", "asked"];
    const alone = await run(...argv);
    expect([alone.code, alone.stderr]).to.deep.equal([
      2,
      "Apply these changes?agentctl: there is no terminal for the question: pass --yes to apply\n",
    ]);
    expect(alone.stdout).to.include("created    asked");
    expect((await asked(false, ...argv)).stderr).to.include("nothing was applied");
    expect((await run("diff", folder, "--pack", "asked")).stdout).to.include("1 created");
    expect((await asked(true, ...argv)).stdout).to.include("applied version 1");
    const again = await run(...argv);
    expect([again.code, again.stdout]).to.deep.equal([
      0,
      "pack `asked`: 0 created, 0 updated, 0 archived, 1 unchanged\nnothing to change\n",
    ]);
    const json = await run(...argv, "--json");
    expect(json.json().pack).to.include({ name: "asked", version: 1 });
  });

  it("marks errors of expressions in the line of the file, however the text is written.", async () => {
    const rule = "  - type: action\n    decision: block\n    tool: send_payment\n    when:";
    const files = {
      "1.yaml": `${rule} args.amuont > 500\n`,
      "2.yaml": `${rule} "args.currency == \\"EUR\\" && args.amuont > 500"\n`,
      "3.yaml": `${rule} >-\n      args.amount > 500 &&\n      args.amuont\n      > 7\n`,
      "4.yaml": `${rule} |\n      args.amount > 500\n        && args.amuont > 7\n`,
      "5.yaml": `${rule} 'args.currency != "it''s" && ("日本" == args.amuont)'\n`,
      "6.yaml": `${rule} args.amount in [${"5, ".repeat(60)}amount]\n`,
      "7.yaml": `${rule} args.amount >\n`,
    };
    const folder = await folderOf(
      Object.fromEntries(Object.entries(files).map(([name, text]) => [name, `name: ${name}\nrules:\n${text}`])),
    );
    const { code, stdout } = await run("validate", folder);
    expect(code).to.equal(1);
    const lines = stdout.split("\n");
    const shown = lines.flatMap((line, index) => (/^ +\^$/.test(line) ? [lines.slice(index - 2, index + 1)] : []));
    expect(shown, stdout).to.have.length(7);
    const member = "the tool's schema has no such member `amuont`";
    const places = ["1.yaml:6:15:", "2.yaml:6:44:", "3.yaml:8:11:", "4.yaml:8:16:", "5.yaml:6:53:"];
    for (const [index, place] of places.entries()) {
      const [title = "", text = "", caret = ""] = shown[index] ?? [];
      expect(title)
        .to.include(place)
        .and.include(`\`rules[0].when\`: ${member}`)
        .and.match(/\(WHEN_UNKNOWN\)$/);
      // Wide characters take two columns.
      const before = text.replace(/[日本]/g, "$& ");
      expect(before.slice(caret.length - 1), text).to.match(/^\.?amuont/);
    }
    const [, long = "", caretOfLong = ""] = shown[5] ?? [];
    expect(long).to.match(/^ {2}….*amount\]$/);
    expect(long.slice(caretOfLong.length - 1)).to.equal("amount]");
    const [title = "", end = "", caretOfEnd = ""] = shown[6] ?? [];
    expect(title).to.include("ends too early, after `>`").and.include("(WHEN_SYNTAX)");
    expect(caretOfEnd.length).to.equal(end.length + 1);
    const { violations } = (await run("validate", folder, "--json")).json() as { violations: object[] };
    expect(violations[0]).to.have.all.keys("file", "line", "column", "reason", "message");
    expect(violations[0]).to.include({ line: 6, column: 15, reason: "WHEN_UNKNOWN" });
    const text = `name: exact\nrules:\n${rule} |\n      args.amount > 5 &&\n      args.currency == "EUR"\n`;
    const warned = await run("validate", await folderOf({ "8.yaml": text }));
    expect(warned.code, warned.stdout + warned.stderr).to.equal(0);
    expect(warned.stdout).to.match(
      /8\.yaml:8:21: warning: another spelling .*\(WHEN_EXACT_TEXT\)\n {8}args\.currency == "EUR"\n {22}\^\n/,
    );
  });

  it("exports what applies again without a change, for every type of rule, and what the served schema admits.", async () => {
    const pack = ["--pack", "round-trip"];
    const written = await folderOf({ "every.yaml": EVERY_TYPE, "b.yaml": simple('"Über: größe/../x"', "any") });
    const applied = await run("apply", written, ...pack, "--yes");
    expect(applied.code, applied.stdout + applied.stderr).to.equal(0);
    expect((await packed("round-trip")).map(({ version }) => version)).to.deep.equal([1, 1]);
    const out = served.folder.path("exported");
    const exported = await run("export", out, ...pack);
    expect(exported.code, exported.stderr).to.equal(0);
    expect(await readdir(out)).to.have.members(["every-type.yaml", "uber-gro-e-x.yaml"]);
    const seq = await seqNow();
    const { stdout } = await run("apply", out, ...pack, "--yes");
    expect(stdout).to.equal("pack `round-trip`: 0 created, 0 updated, 0 archived, 2 unchanged\nnothing to change\n");
    expect(await seqNow()).to.equal(seq);
    const schema = await (await fetch(`${served.http}/schemas/mandate.json`)).json();
    const printed = await agentctl(["schema", "mandate"], {});
    expect([printed.code, JSON.parse(printed.stdout)]).to.deep.equal([0, schema]);
    expect((await agentctl(["schema", "mandate", "--json"], {})).json()).to.deep.equal(schema);
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(schema as object);
    for (const name of await readdir(out)) {
      const text = await readFile(`${out}/${name}`, "utf8");
      expect(text.split("\n")[0]).to.equal(`# yaml-language-server: $schema=${served.http}/schemas/mandate.json`);
      const mandate = parse(text) as object;
      for (const shape of [mandate, [mandate], { mandates: [mandate] }]) {
        expect(validate(shape), JSON.stringify(validate.errors)).to.equal(true);
      }
      expect(validate({ ...mandate, rulez: [] })).to.equal(false);
      expect(validate({ ...mandate, rules: undefined })).to.equal(false);
      expect(validate({ ...mandate, mode: "maybe" })).to.equal(false);
    }
    await rm(`${out}/every-type.yaml`);
    expect((await run("diff", out, ...pack)).stdout).to.include("archived   Every type");
  });

  it("refuses to export beside files that would be applied as well, and exports again over its own.", async () => {
    const folder = await folderOf({ "a.yaml": simple("again") });
    await run("apply", folder, "--pack", "again", "--yes");
    const refused = await run("export", folder, "--pack", "again");
    expect(refused.code).to.equal(2);
    expect(refused.stderr).to.include("a.yaml").and.to.include("remove it");
    const out = served.folder.path("again");
    for (let round = 0; round < 2; round++) expect((await run("export", out, "--pack", "again")).code).to.equal(0);
    expect(await readdir(out)).to.deep.equal(["again.yaml"]);
    expect((await run("export", out, "--pack", "nothing-here")).stderr).to.include("no mandates in force");
  });

  it("takes mandates that belong to no pack when it is told to, and says where they are in the way otherwise.", async () => {
    await served.rest("POST /v1/enforce/mandates", parse(simple("loose one")) as object);
    const out = served.folder.path("loose");
    expect((await run("export", out, "--pack", "loose", "--adopt")).code).to.equal(0);
    const refused = await run("validate", out, "--pack", "loose");
    expect(refused.stdout).to.match(/loose-one\.yaml:2:7: .*outside the pack.*\(MANDATE_EXISTS\)/);
    const adopted = await run("apply", out, "--pack", "loose", "--adopt", "--yes");
    expect(adopted.stdout).to.include("1 unchanged").and.to.include("applied version 1");
    expect((await packed("loose"))[0]).to.include({ name: "loose one", version: 1 });
  });

  it("does not archive a whole pack for want of mandates, unless it is told to.", async () => {
    await run("apply", await folderOf({ "a.yaml": simple("last") }), "--pack", "emptied", "--yes");
    const empty = await folderOf({ "a.yaml": "mandates: []\n" });
    const refused = await run("apply", empty, "--pack", "emptied", "--yes");
    expect([refused.code, refused.stderr]).to.satisfy(
      ([code, text]: [number, string]) => code === 2 && text.includes("--allow-empty"),
    );
    expect((await run("apply", await folderOf({}), "--yes")).stderr).to.include("contains no .yaml");
    expect((await run("apply", empty, "--pack", "emptied", "--yes", "--allow-empty")).stdout).to.include("1 archived");
    expect((await run("apply", empty, "--pack", " ", "--yes")).stderr).to.include("--pack must not be blank");
  });

  it("finds a pack by its name, however that is written, and says what is wrong with one.", async () => {
    const files = await folderOf({ "a.yaml": simple("a rule of the house") });
    expect((await run("apply", files, "--pack", "Hausregeln / Größe", "--yes")).stdout).to.include("1 created");
    const again = await run("apply", files, "--pack", "HAUSREGELN  / GRÖSSE", "--yes");
    expect(again.stdout).to.include("pack `Hausregeln / Größe`: 0 created").and.include("nothing to change");
    const exported = await run("export", await folderOf({}), "--pack", "hausregeln / größe");
    expect(exported.stdout).to.include("a-rule-of-the-house.yaml");
    expect((await run("apply", files, "--pack", "h\u200bause", "--yes")).stderr).to.include("U+200B");
    const faulty = await folderOf({ "b.yaml": simple("P\u0430yroll") });
    const refused = await run("validate", faulty);
    expect([refused.code, refused.stdout]).to.satisfy(
      ([code, text]: [number, string]) => code === 1 && /b\.yaml:1:\d+: `name`: mixes scripts \(U\+0430\)/.test(text),
      refused.stdout,
    );
  });

  it("leaves a pack alone that somebody else changed while the question stood.", async () => {
    const folder = await folderOf({ "a.yaml": simple("mine") });
    const env = { AGENTCTL_URL: served.http, AGENTCTL_KEY: served.adminKey };
    const other = await folderOf({ "a.yaml": simple("theirs") });
    const { code, stderr } = await agentctl(["mandate", "apply", folder, "--pack", "contested"], env, async () => {
      await run("apply", other, "--pack", "contested", "--yes");
      return true;
    });
    expect([code, stderr]).to.satisfy(
      ([exit, text]: [number, string]) => exit === 2 && text.includes("not as expected"),
    );
    expect((await packed("contested")).map(({ name }) => name)).to.deep.equal(["theirs"]);
  });
});

describe("the canonical YAML of a mandate", () => {
  it("is the same in whatever order its members come, and without those that say nothing.", () => {
    const shown = {
      rules: [{ conditions: { outside: false, patterns: [], operator: "" }, type: "trust" }],
      name: " x ",
      pack: null,
    };
    expect(canonicalYaml({ ...shown, version: 4, scope: "workspace", mode: "enforce" })).to.equal(
      canonicalYaml({ name: "x", priority: 0, rules: [{ type: "trust", conditions: {} }] }),
    );
  });

  it("keeps what a condition compares with as it is.", () => {
    const value = { b: null, a: [], outside: false };
    const { rules } = parse(canonicalYaml({ rules: [{ conditions: { rules: [{ value }] } }] }));
    expect(rules[0].conditions.rules[0].value).to.deep.equal(value);
  });

  it("differs by lines, with some around each change.", () => {
    const lines = (count: number): string[] => Array.from({ length: count }, (_, at) => `line ${at}`);
    const [before, after] = [lines(20), lines(20)];
    after.splice(10, 1, "changed", "added");
    expect(lineDiff(before.join("\n"), after.join("\n"))).to.deep.equal([
      ...["  …", "  line 8", "  line 9", "- line 10", "+ changed", "+ added", "  line 11", "  line 12", "  …"].slice(1),
    ]);
    const large = lineDiff(lines(3000).join("\n"), lines(3000).reverse().join("\n"));
    expect(large).to.have.length(6000);
  });
});
