import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Registry } from "prom-client";
import { ROOT } from "../architecture/source-files.ts";
import { metricsOf, metricsText, sumOf } from "../support/metrics.ts";
import { startService, type TestService } from "../support/service.ts";

const PAGE = "src/server/METRICS.md";
/** Nothing listens there: the parts that use Redis exist, and go without it. */
const NO_REDIS = "redis://127.0.0.1:1";

/** A row of the page's table: name, type, labels, meaning. */
type Row = readonly [name: string, type: string, labels: string, meaning: string];

function rowsOfPage(): Row[] {
  const lines = readFileSync(join(ROOT, PAGE), "utf8").split("\n");
  return lines
    .filter((line) => /^\| `(acp|process|nodejs)_/.test(line))
    .map(
      (line) =>
        line
          .slice(2, -2)
          .split(" | ")
          .map((cell) => cell.trim()) as unknown as Row,
    )
    .filter(({ length }) => (length as number) === 4);
}

describe("the page of metrics", () => {
  let service: TestService;
  let registry: Registry;
  before(async () => {
    service = await startService({
      env: { REDIS_URL: NO_REDIS },
      metricsPage(own) {
        registry = own;
        return own;
      },
    });
    const agentId = await service.agent();
    await service.admin.intercept({ agentId, actionType: "note.write", actionContent: "" });
  });
  after(() => service?.stop());

  it("is the table of the guide: name, type, labels and meaning of each.", async () => {
    const found = registry.getMetricsAsArray().map((metric) => {
      const { name, type, help } = metric as unknown as { name: string; type: string; help: string };
      const { labelNames = [] } = metric as unknown as { labelNames?: string[] };
      return [`\`${name}\``, type, labelNames.map((label) => `\`${label}\``).join(" "), help] as const;
    });
    const byName = ([a]: readonly string[], [b]: readonly string[]) => ((a ?? "") < (b ?? "") ? -1 : 1);
    const wanted = found.toSorted(byName).map((row) => `| ${row.join(" | ")} |`);
    expect(
      rowsOfPage()
        .toSorted(byName)
        .map((row) => `| ${row.join(" | ")} |`),
    ).to.deep.equal(wanted);
  });

  it("passes the checks of promtool.", async () => {
    const input = await metricsText(service.http);
    const { status, stdout, stderr, error } = spawnSync("promtool", ["check", "metrics"], { input, encoding: "utf8" });
    const cure = "promtool is missing; install it with `apt-get install -y --no-install-recommends prometheus`";
    expect(error?.message, cure).to.equal(undefined);
    expect([status, stdout, stderr]).to.deep.equal([0, "", ""]);
  });

  it("says that the database answers, which connections are open, and which version runs.", async () => {
    let samples = await metricsOf(service.http);
    // On a busy machine the database may be asked for too long once.
    while (sumOf(samples, "acp_database_up") !== 1) samples = await metricsOf(service.http);
    const states = samples.filter(({ name }) => name === "acp_pool_connections").map(({ labels }) => labels.state);
    expect(states).to.have.members(["busy", "idle", "waiting"]);
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect(sumOf(samples, "acp_build_info", { version })).to.equal(1);
    expect(sumOf(samples, "process_resident_memory_bytes")).to.be.above(1e6);
    expect(sumOf(samples, "process_cpu_seconds_total")).to.be.above(0);
    const started = sumOf(samples, "process_start_time_seconds") * 1_000;
    expect(started).to.be.within(Date.now() - 86_400_000, Date.now());
  });

  it("names no agent, action, key or person.", async () => {
    const agentId = await service.agent("Erika Mustermann");
    await service.admin.intercept({ agentId, actionType: "call.erika.mustermann", actionContent: "erika" });
    const text = await metricsText(service.http);
    expect(text).to.not.match(/agt_|key_|erika|mustermann/i);
  });
});
