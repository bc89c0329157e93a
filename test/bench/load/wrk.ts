import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { httpBytes, requestsOf } from "../workload.ts";
import type { LoadPlan, Measured, ToolSource } from "./plan.ts";
import { runTool, withFolder } from "./tool-process.ts";
import { costsOf, quantile, usageOf } from "./usage.ts";

type WrkSource = Extract<ToolSource, { kind: "wrk" }>;

const SCRIPT = join(import.meta.dirname, "wrk.lua");
/** Milliseconds that the tool may take beside its load. */
const MOST_BESIDE_MS = 30_000;
/** Seconds after which it gives a reply up, which fails the measurement. */
const TIMEOUT = "10s";

/** How often a latency of so many microseconds was seen, the shortest first. */
export type Latencies = readonly (readonly [microseconds: number, count: number])[];

/** What the script reports of a run. */
export interface WrkReport {
  readonly requests: number;
  /** How long it took. */
  readonly microseconds: number;
  /** Requests without a reply, or with another status than one of success. */
  readonly failed: number;
  readonly latencies: Latencies;
}

const countOf = (latencies: Latencies): number => latencies.reduce((sum, [, count]) => sum + count, 0);

/**
 * The latencies that were seen. The tool adds to them what callers would have seen that call at a steady pace: for each
 * latency of two paces and more, those that are shorter by one pace, by two and so on, as long as they exceed one. From
 * the longest on that can be taken back. Throws when what is left is not one for each request.
 */
export function seenLatencies({ requests, microseconds, latencies }: WrkReport, callers: number): Latencies {
  if (countOf(latencies) === requests) return latencies;
  const pace = Math.floor(microseconds / Math.floor(requests / callers));
  const counts = new Map(latencies);
  for (const [longer] of latencies.toReversed()) {
    const count = counts.get(longer) ?? 0;
    if (count === 0 || longer < 2 * pace) continue;
    for (let added = longer - pace; added > pace; added -= pace) counts.set(added, (counts.get(added) ?? 0) - count);
  }
  const seen = Array.from(counts).filter(([, count]) => count !== 0);
  if (countOf(seen) !== requests || seen.some(([, count]) => count < 0)) {
    throw new Error("wrk's latencies do not fit its requests; `--own-load` measures without it");
  }
  return seen.sort(([one], [other]) => one - other);
}

/** Milliseconds of each request, in order. */
function sortedMilliseconds(latencies: Latencies): Float64Array {
  const sorted = new Float64Array(countOf(latencies));
  let at = 0;
  for (const [microseconds, count] of latencies) {
    sorted.fill(microseconds / 1_000, at, at + count);
    at += count;
  }
  return sorted;
}

async function run({ target, callers }: WrkSource, file: string, milliseconds: number): Promise<WrkReport> {
  // It takes whole seconds.
  const seconds = Math.ceil(milliseconds / 1_000);
  const options = ["-t", "1", "-c", String(callers), "-d", `${seconds}s`, "--timeout", TIMEOUT, "-s", SCRIPT];
  const args = [...options, `http://${target.address}`, "--", file];
  const output = await runTool("wrk", args, seconds * 1_000 + MOST_BESIDE_MS);
  const line = output.split("\n").find((text) => text.startsWith("{"));
  if (line === undefined) throw new Error(`wrk reported nothing:\n${output}`);
  const report = JSON.parse(line) as WrkReport;
  if (report.failed > 0 || report.requests === 0)
    throw new Error(`requests of wrk failed:\n${output.replace(line, "")}`);
  return report;
}

/** Measures REST calls that wrk makes; its warm-up is a run of its own. */
export async function measureWrk(source: WrkSource, { warmUpMs, measureMs, watched }: LoadPlan): Promise<Measured> {
  const { address, apiKey, agentIds } = source.target;
  const requests = requestsOf(agentIds).map((request) => httpBytes(request, address, apiKey));
  return withFolder(async (folder) => {
    const file = join(folder, "requests");
    await writeFile(file, Buffer.concat(requests.flatMap((bytes) => [Buffer.from(`${bytes.length}\n`), bytes])));
    await run(source, file, warmUpMs);
    const before = usageOf(watched);
    const report = await run(source, file, measureMs);
    const after = usageOf(watched);
    const sorted = sortedMilliseconds(seenLatencies(report, source.callers));
    return {
      perSecond: (report.requests * 1e6) / report.microseconds,
      p50: quantile(sorted, 0.5),
      p99: quantile(sorted, 0.99),
      ...costsOf(before, after, report.requests),
    };
  });
}
