/* Debian's Prometheus with the configuration that is delivered, on replicas of this machine. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parse } from "yaml";
import { freePort } from "../support/free-port.ts";
import "../support/scratch.ts";

/** Debian's package with `prometheus` and `promtool`. */
export const PROMETHEUS_PACKAGES = ["prometheus"];
const DEPLOY = join(import.meta.dirname, "../../src/deploy");
/** File with the alerts. */
export const ALERTS_FILE = join(DEPLOY, "prometheus/alerts.yaml");
/** Milliseconds for Prometheus to be ready. */
const START_LIMIT_MS = 60_000;
const POLL_MS = 100;

/** Alert of the delivered file. */
export interface Alert {
  readonly alert: string;
  readonly expr: string;
}

/** Returns the delivered alerts. */
export function readAlerts(): readonly Alert[] {
  const { groups } = parse(readFileSync(ALERTS_FILE, "utf8")) as { groups: { rules: Alert[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

/** Query of a panel of the delivered board. */
export interface BoardQuery {
  readonly panel: string;
  readonly query: string;
}

/** Returns the queries of the delivered board, with values in place of Grafana's variables. */
export function readBoardQueries(): readonly BoardQuery[] {
  const text = readFileSync(join(DEPLOY, "grafana/board.json"), "utf8");
  const { panels } = JSON.parse(text) as { panels: { title: string; targets: { expr: string }[] }[] };
  return panels.flatMap(({ title, targets }) =>
    targets.map(({ expr }) => ({
      panel: title,
      query: expr.replaceAll("$__rate_interval", "30s").replaceAll("$job", "agent-control-plane"),
    })),
  );
}

/** A Prometheus that reads replicas. */
export interface Prometheus {
  /** Number of series that a query gives now. Rejects with what is wrong with the query. */
  count(query: string): Promise<number>;
  close(): Promise<void>;
}

function replaced(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`the configuration of Prometheus lacks \`${from}\``);
  return text.replace(from, to);
}

/** Starts Prometheus on two replicas, given by `host:port`, with the token for their metrics. */
export async function startPrometheus(targets: readonly [string, string], token: string): Promise<Prometheus> {
  const dir = await mkdtemp(join(tmpdir(), "acp-prometheus-"));
  const port = await freePort();
  const delivered = readFileSync(join(DEPLOY, "prometheus/prometheus.yaml"), "utf8");
  const changes: [from: string, to: string][] = [
    ["scrape_interval: 15s", "scrape_interval: 1s"],
    ["alerts.yaml", ALERTS_FILE],
    ["/run/acp/metrics-token", join(dir, "token")],
    ['"acp-1:7080", "acp-2:7080"', targets.map((target) => JSON.stringify(target)).join(", ")],
  ];
  await writeFile(join(dir, "token"), token);
  await writeFile(
    join(dir, "prometheus.yaml"),
    changes.reduce((text, [from, to]) => replaced(text, from, to), delivered),
  );
  const options = [
    `--config.file=${dir}/prometheus.yaml`,
    `--storage.tsdb.path=${dir}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  const child = spawn("prometheus", options, { stdio: ["ignore", "ignore", "pipe"] });
  process.once("exit", () => child.kill("SIGKILL"));
  let messages = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    messages += text;
  });
  const url = `http://127.0.0.1:${port}`;
  const isReady = () =>
    fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  for (const endsAt = performance.now() + START_LIMIT_MS; !(await isReady()); await delay(POLL_MS)) {
    if (child.exitCode !== null || performance.now() > endsAt) throw new Error(`Prometheus is not ready: ${messages}`);
  }
  return {
    async count(query) {
      const response = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query })}`);
      const answer = (await response.json()) as {
        status: string;
        error?: string;
        data: { result: { value: [number, string] }[] };
      };
      if (answer.status !== "success") throw new Error(`${query}: ${answer.error}`);
      // A share of nothing is no number, which a panel shows as nothing.
      return answer.data.result.filter(({ value }) => value[1] !== "NaN").length;
    },
    async close() {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      await rm(dir, { recursive: true, force: true });
    },
  };
}
