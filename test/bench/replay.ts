/*
 * How long `agentctl replay` takes for 1,000 recorded sessions of 20 calls, twice, with the digests of both. Run with
 * `node test/bench/replay.ts [sessions]`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { seededBelow } from "../support/seeded-below.ts";
import { startServiceProcess, type TestServiceProcess } from "../support/service.ts";
import { figure, tableFrom } from "./report.ts";

const SESSIONS = Number(process.argv[2] ?? 1_000);
const CALLS = 20;
/** Words of a page that a call returns, of which a session remembers each that is new. */
const WORDS = 200;
/** Seconds that 1,000 sessions take at most. */
const MOST_SECONDS = 60;

const TOOLS = [
  { name: "read_page", input_schema: { type: "object", properties: { url: { type: "string" } } } },
  {
    name: "send_mail",
    input_schema: { type: "object", properties: { to: { type: "array", items: { type: "string" } } } },
  },
];
const argument = (tool: string, path: string, kind: string) => ({
  type: "provenance",
  tool,
  decision: "escalate",
  conditions: { arguments: [{ path, kind }], trusted: ["prompt", "session", "approved"] },
});
const MANDATE = {
  name: "known places and people",
  rules: [argument("read_page", "url", "host"), argument("send_mail", "to[]", "destination")],
};

/** Writes sessions that read pages and mail people, some of whom only the pages name. */
function sessions(): string {
  const below = seededBelow(1);
  const page = (): string => Array.from({ length: WORDS }, () => `word${below(20_000)}`).join(" ");
  const call = (index: number) =>
    index % 4 === 3
      ? { tool: "send_mail", arguments: { to: [`person${below(50)}@mail.example`] }, result: "sent" }
      : {
          tool: "read_page",
          arguments: { url: `https://site${below(30)}.example/` },
          result: `${page()} person${below(50)}@mail.example`,
        };
  return Array.from({ length: SESSIONS }, (_, index) => {
    const steps = Array.from({ length: CALLS }, (_each, step) => call(step));
    const prompt = "Read site1.example and site2.example, and mail person1@mail.example";
    return `${JSON.stringify({ id: `session ${index}`, prompt, steps })}\n`;
  }).join("");
}

/** Replays in a process of its own; gives seconds and the report. */
async function run(service: TestServiceProcess, argv: readonly string[]) {
  const startedAt = performance.now();
  const env = { ...process.env, AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey };
  const child = spawn(process.execPath, ["src/cli/agentctl.ts", "replay", ...argv, "--json"], { env });
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (child.exitCode === null) await once(child, "exit");
  if (child.exitCode !== 0) throw new Error(`agentctl ended with ${child.exitCode}: ${errors}`);
  const report = JSON.parse(output) as { readonly digest: string; readonly calls: number; readonly asked: number };
  return { seconds: (performance.now() - startedAt) / 1_000, ...report };
}

const folder = await mkdtemp(join(tmpdir(), "replay-"));
const service = await startServiceProcess();
try {
  const files = { sessions: sessions(), "pack.json": JSON.stringify(MANDATE), "tools.json": JSON.stringify(TOOLS) };
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  const argv = [join(folder, "sessions"), "--pack", join(folder, "pack.json"), "--tools", join(folder, "tools.json")];
  const [first, second] = [await run(service, argv), await run(service, argv)];
  const most = (MOST_SECONDS * SESSIONS) / 1_000;
  const isSame = first.digest === second.digest;
  const rows = [first, second].map(({ seconds, calls, asked, digest }) => [
    `${calls} calls, ${asked} asked`,
    figure(seconds),
    figure(calls / seconds),
    digest.slice(0, 16),
    seconds <= most && isSame ? "PASS" : "FAIL",
  ]);
  console.log(tableFrom(["sessions", "seconds", "calls a second", "digest", `<= ${most} s`], rows));
  if (rows.some((row) => row.at(-1) === "FAIL")) process.exitCode = 1;
} finally {
  await service.stop();
  await rm(folder, { recursive: true });
}
