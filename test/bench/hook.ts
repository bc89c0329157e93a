/*
 * What the hooks of a coding agent add to a tool call, before and after it: the medians of their whole command lines against the service on
 * this machine, beside Node.js that starts and does nothing, in the same run. Run with `node test/bench/hook.ts [calls]`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runAgentctl } from "../../src/cli/run.ts";
import { startServiceProcess } from "../support/service.ts";

const CALLS = Number(process.argv[2] ?? 40);
/** Most milliseconds of one call, from the shell to the end of the process. */
const MOST_MS = 150;
const event = (name: string, index: number): string =>
  JSON.stringify({
    hook_event_name: name,
    session_id: "bench",
    tool_use_id: `call_${index}`,
    tool_name: "Bash",
    tool_input: { command: "true" },
    tool_response: "",
  });

const median = (times: readonly number[]): number =>
  [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;

async function timed(input: string, program: string, ...argv: readonly string[]): Promise<number> {
  const before = performance.now();
  const child = spawn(program, argv, { stdio: ["pipe", "ignore", "inherit"] });
  child.stdin?.end(input);
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`${program} ended with ${code}`);
  return performance.now() - before;
}

await using cleanup = new AsyncDisposableStack();
const service = await startServiceProcess({ env: { ACP_LOG_LEVEL: "error" } });
cleanup.defer(async () => void (await service.stop()));
const folder = await mkdtemp(join(tmpdir(), "acp-hook-bench-"));
cleanup.defer(() => rm(folder, { recursive: true, force: true }));
const { PATH = "" } = process.env;
const env = { HOME: folder, INIT_CWD: folder, ACP_AGENT_KEY: service.adminKey, PATH };
const report: string[] = [];
const io = {
  env,
  write: async (text: string) => void report.push(text),
  note: (text: string) => process.stderr.write(text),
  confirm: async () => undefined,
};
const argv = ["attach", "codex", "--json", "--url", service.http, "--agent", await service.agent()];
if ((await runAgentctl(argv, io)) !== 0) throw new Error(`attach failed: ${report.join("")}`);
const { settings, node } = JSON.parse(report.join("")) as { settings: string; node: string };
const { hooks } = JSON.parse(await readFile(settings, "utf8")) as {
  hooks: Record<"PreToolUse" | "PostToolUse", [{ hooks: [{ command: string }] }]>;
};
const times = { bare: [] as number[], PreToolUse: [] as number[], PostToolUse: [] as number[] };
for (let index = 0; index < CALLS; index++) {
  times.bare.push(await timed("", node, "-e", "0"));
  for (const name of ["PreToolUse", "PostToolUse"] as const)
    times[name].push(await timed(event(name, index), "/bin/sh", "-c", hooks[name][0].hooks[0].command));
}
const bareMs = median(times.bare);
console.log(`${node} -e 0   ${bareMs.toFixed(0)} ms`);
for (const name of ["PreToolUse", "PostToolUse"] as const) {
  const ms = median(times[name]);
  const verdict = ms <= MOST_MS ? "holds" : "missed";
  console.log(
    `${name.padEnd(12)} ${ms.toFixed(0)} ms, ${(ms / bareMs).toFixed(2)} times that; at most ${MOST_MS} ms: ${verdict}`,
  );
  if (ms > MOST_MS) process.exitCode = 1;
}
