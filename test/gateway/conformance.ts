/* Runs the official conformance suite for servers against the fixture server: directly, and through the gateway. Prints both columns. */
import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { startFixtureServer } from "./fixture-server.ts";
import { startForwarder } from "./forwarder.ts";
import { startGateway } from "./harness.ts";

/** The lists of required scenarios, one for each generation. */
export const REQUIREMENTS = ["2025-11-25", "2026-07-28"] as const;

/** What came of one scenario: checks that passed and failed. */
interface Score {
  readonly passed: number;
  readonly failed: number;
}

/** One scenario of a list, directly and through the gateway. */
export interface Row {
  readonly scenario: string;
  readonly direct: Score | undefined;
  readonly gateway: Score | undefined;
}

const SUITE = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json")),
  "dist/index.js",
);
const RESULT = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/;

/** Runs a list against a URL. */
async function run(url: string, requirements: string): Promise<Map<string, Score>> {
  const folder = await mkdtemp(join(tmpdir(), "acp-conformance-"));
  try {
    const args = [SUITE, "server", "--url", url, "--requirements", requirements, "-o", folder];
    await new Promise((resolve, reject) => {
      const child = spawn(process.execPath, args, { stdio: "ignore" });
      child.once("error", reject).once("exit", resolve);
    });
    const scores = new Map<string, Score>();
    for (const name of await readdir(folder)) {
      const scenario = RESULT.exec(name)?.[1];
      if (scenario === undefined) continue;
      const checks = JSON.parse(await readFile(join(folder, name, "checks.json"), "utf8")) as { status: string }[];
      const count = (status: string) => checks.filter((check) => check.status === status).length;
      scores.set(scenario, { passed: count("SUCCESS"), failed: count("FAILURE") });
    }
    return scores;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Runs both lists, each directly and through the gateway. */
export async function compareConformance(): Promise<ReadonlyMap<string, readonly Row[]>> {
  await using cleanup = new AsyncDisposableStack();
  const fixture = await startFixtureServer();
  cleanup.defer(() => fixture.close());
  const gateway = await startGateway({ env: { ACP_LOG_LEVEL: "error" } });
  cleanup.defer(async () => void (await gateway.stop()));
  await gateway.add("fixture", { url: fixture.url });
  const forwarder = await startForwarder(gateway.urlOf("fixture"), gateway.headers);
  cleanup.defer(() => forwarder.close());
  const lists = new Map<string, readonly Row[]>();
  for (const requirements of REQUIREMENTS) {
    const direct = await run(fixture.url, requirements);
    const through = await run(forwarder.url, requirements);
    const scenarios = [...new Set([...direct.keys(), ...through.keys()])].sort();
    lists.set(
      requirements,
      scenarios.map((scenario) => ({ scenario, direct: direct.get(scenario), gateway: through.get(scenario) })),
    );
  }
  return lists;
}

/** True for a scenario that passes directly and not through the gateway. */
export const isLost = ({ direct, gateway }: Row): boolean =>
  direct !== undefined &&
  direct.failed === 0 &&
  (gateway === undefined || gateway.failed > 0 || gateway.passed < direct.passed);

const scoreText = (score: Score | undefined): string =>
  score === undefined
    ? "did not run"
    : score.failed === 0
      ? `${score.passed} passed`
      : `${score.failed} of ${score.passed + score.failed} failed`;

if (import.meta.main) {
  let lost = 0;
  for (const [requirements, rows] of await compareConformance()) {
    console.log(`\n${`requirements of ${requirements}`.padEnd(52)}${"direct".padEnd(18)}gateway`);
    for (const row of rows) {
      lost += isLost(row) ? 1 : 0;
      const mark = isLost(row) ? "✗" : " ";
      console.log(`${mark} ${row.scenario.padEnd(50)}${scoreText(row.direct).padEnd(18)}${scoreText(row.gateway)}`);
    }
  }
  console.log(lost === 0 ? "\nthe gateway loses nothing" : `\nthe gateway loses ${lost} scenarios`);
  process.exitCode = lost === 0 ? 0 : 1;
}
