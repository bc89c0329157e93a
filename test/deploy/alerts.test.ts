import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { parse } from "yaml";
import { describeWithPackages } from "../support/debian.ts";
import { ALERTS_FILE, PROMETHEUS_PACKAGES, readAlerts } from "./prometheus.ts";
import "../support/scratch.ts";

const run = promisify(execFile);
const TESTS = join(import.meta.dirname, "../testdata/deploy/alerts.yaml");

interface RuleTests {
  readonly tests: readonly {
    readonly alert_rule_test: readonly { alertname: string; exp_alerts: readonly object[] }[];
  }[];
}

describeWithPackages("the alerts", PROMETHEUS_PACKAGES, () => {
  let dir: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), "acp-alerts-"));
  });
  after(() => rm(dir, { recursive: true, force: true }));

  it("are rules that Prometheus takes.", async () => {
    const { stdout } = await run("promtool", ["check", "rules", ALERTS_FILE]);
    expect(stdout).to.include(`SUCCESS: ${readAlerts().length} rules found`);
  });

  it("are tested in both ways: each fires once, and none where all is well.", async () => {
    const { tests } = parse(await readFile(TESTS, "utf8")) as RuleTests;
    const names = readAlerts().map(({ alert }) => alert);
    expect(tests.map(({ alert_rule_test: each }) => each.map(({ alertname }) => alertname))).to.deep.equal([
      names,
      names,
    ]);
    expect(tests.map(({ alert_rule_test: each }) => each.map(({ exp_alerts: { length } }) => length))).to.deep.equal([
      names.map(() => 0),
      names.map(() => 1),
    ]);
  });

  it("fire as the tests say.", async () => {
    const file = join(dir, "tests.yaml");
    await writeFile(file, (await readFile(TESTS, "utf8")).replace("RULES", ALERTS_FILE));
    const { stdout } = await run("promtool", ["test", "rules", file]);
    expect(stdout).to.include("SUCCESS");
  });
});
