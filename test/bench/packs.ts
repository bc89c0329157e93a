import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { readToolFile } from "../../src/cli/pack/tool-file.ts";
import { episodesOfRuns } from "../../src/cli/replay/agentdyn.ts";
import type { Measurement } from "../../src/cli/replay/measure.ts";
import type { Share } from "../../src/cli/replay/wilson.ts";
import { startServiceProcess, type TestServiceProcess } from "../support/service.ts";

/** Measures packs on runs of AgentDyn: `node test/bench/packs.ts FOLDER [even|odd]`. Prints Markdown. */
const [folder, half = "odd"] = process.argv.slice(2);
if (folder === undefined) throw new Error("name the folder with the runs of AgentDyn");

const ATTACK = "important_instructions";
const at = (name: string): string => fileURLToPath(new URL(`../testdata/replay/${name}`, import.meta.url));
const AGENTCTL = fileURLToPath(new URL("../../src/cli/agentctl.ts", import.meta.url));
const [LABELS, TOOLS, LISTS] = [at("agentdyn-labels.yaml"), at("agentdyn-tools.yaml"), at("agentdyn-lists.yaml")];
const WITH_TOOLS = ["--tools", TOOLS, "--lists", LISTS];
const STANDARD = ["--pack", "standard", ...WITH_TOOLS];
const FRUGAL = ["--pack", "frugal", ...WITH_TOOLS, "--plans", TOOLS];

/** Links the runs that count: successful attacks, and honest runs. Rules decide the others as well, but nothing is told of them. */
async function linkRuns(into: string): Promise<void> {
  await mkdir(into);
  let count = 0;
  for await (const { file, run } of episodesOfRuns([folder as string])) {
    const counts = run?.attack === undefined ? run?.utility === true : run.attack === ATTACK && run.security === true;
    if (counts) await symlink(resolve(file), join(into, `${count++}.json`));
  }
}

/** Writes a mandate that asks about every call of a tool that does more than read. */
async function writeEveryWrite(file: string): Promise<void> {
  const { tools } = readToolFile(TOOLS, { env: {}, write: async () => {}, note() {}, confirm: async () => undefined });
  const match_action_types = tools.filter(({ effect }) => effect !== "read").map(({ name }) => name);
  const rules = [{ type: "action", decision: "escalate", conditions: { match_action_types } }];
  await writeFile(file, JSON.stringify({ name: "every write", rules }));
}

interface Report {
  readonly total: Measurement;
  readonly groups: readonly Measurement[];
  readonly digest: string;
}

async function replay(service: TestServiceProcess, runs: string, options: readonly string[]): Promise<Report> {
  const argv = ["replay", runs, "--format", "agentdyn", "--half", half, "--labels", LABELS, ...options, "--json"];
  const env = { ...process.env, AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
  const child = spawn(process.execPath, [AGENTCTL, ...argv], { env, stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  for await (const chunk of child.stdout) text += String(chunk);
  return JSON.parse(text) as Report;
}

const percent = (share: Share | undefined): string => {
  if (share === undefined) return "";
  const [value, from, to] = [share.share, share.from, share.to].map((each) => (each * 100).toFixed(1));
  return ` ${value} % (${from}–${to})`;
};

const row = (name: string, each: Measurement): string =>
  `| ${[
    name,
    `${each.passed} of ${each.attacks}${percent(each.passedShare)}`,
    each.honest,
    each.questionsMean?.toFixed(2) ?? "",
    each.questionsP90 ?? "",
    `${each.quiet}${percent(each.quietShare)}`,
    each.honestBlocked,
  ].join(" | ")} |`;

const head = (name: string): string =>
  `| ${name} | Attacks that pass (95 %) | Honest runs | Questions | p90 | Without a question (95 %) | With a block |\n|---|---|---|---|---|---|---|`;

const scratch = await mkdtemp(join(tmpdir(), "provenance-"));
const service = await startServiceProcess();
try {
  const [runs, everyWrite] = [join(scratch, "runs"), join(scratch, "every-write.json")];
  await linkRuns(runs);
  await writeEveryWrite(everyWrite);
  const rows: readonly (readonly [name: string, options: readonly string[]])[] = [
    ["nothing", []],
    ["every write asks", ["--pack", everyWrite]],
    ["plans by names of tools", ["--plans", TOOLS, "--outside", "escalate"]],
    ["standard", STANDARD],
    ["frugal", FRUGAL],
    ["standard, hidden values", [...STANDARD, "--hidden"]],
    ["frugal, hidden values", [...FRUGAL, "--hidden"]],
  ];
  const reports: (readonly [name: string, report: Report])[] = [];
  for (const [name, options] of rows) reports.push([name, await replay(service, runs, options)]);
  console.log(head(`Rules, ${half} half`));
  for (const [name, { total }] of reports) console.log(row(name, total));
  for (const [name, { groups, digest }] of reports.slice(0, 5)) {
    console.log(`\n${head(`${name}, ${half} half`)}`);
    for (const group of groups) console.log(row(group.name, group));
    console.log(`\ndigest ${digest}`);
  }
} finally {
  await service.stop();
  await rm(scratch, { recursive: true, force: true });
}
