/*
 * What traces cost a decision: decisions a second over REST without them, and with every call recorded and sent to a collector on this
 * machine, in turns in one process. Run with `node test/bench/traces.ts [seconds of a round]`.
 */
import { startService, type TestService } from "../support/service.ts";
import { startCollector, withEndpoint } from "../tracing/collector.ts";

const SECONDS = Number(process.argv[2] ?? 3);
const ROUNDS = 5;
const CALLERS = 32;
const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const median = (figures: readonly number[]): number =>
  [...figures].sort((a, b) => a - b)[Math.floor(figures.length / 2)] ?? 0;

async function decisionsPerSecond({ http, adminKey }: TestService, agentId: string): Promise<number> {
  const headers = { "x-api-key": adminKey, "content-type": "application/json", traceparent: TRACEPARENT };
  const body = JSON.stringify({ agent_id: agentId, action_type: "pay", action_content: "12 EUR" });
  const until = performance.now() + SECONDS * 1000;
  let count = 0;
  const call = async (): Promise<void> => {
    while (performance.now() < until) {
      const response = await fetch(`${http}/v1/enforce/intercept`, { method: "POST", headers, body });
      if (!response.ok) throw new Error(`a decision answered ${response.status}`);
      await response.arrayBuffer();
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, call));
  return count / SECONDS;
}

const collector = await startCollector();
const off = await startService();
const on = await withEndpoint(collector.url, (env) => startService({ env }));
try {
  const [offAgent, onAgent] = [await off.agent(), await on.agent()];
  const figures = { off: [] as number[], on: [] as number[] };
  // The first round warms both up.
  for (let round = 0; round <= ROUNDS; round += 1) {
    const rates = { off: await decisionsPerSecond(off, offAgent), on: await decisionsPerSecond(on, onAgent) };
    if (round === 0) continue;
    figures.off.push(rates.off);
    figures.on.push(rates.on);
  }
  const [without, traced] = [median(figures.off), median(figures.on)];
  console.log(`decisions a second without traces  ${without.toFixed(0)}`);
  console.log(`decisions a second with traces     ${traced.toFixed(0)}  cost ${(without / traced).toFixed(2)} x`);
  console.log(`spans that arrived                 ${collector.spans.length}`);
} finally {
  await Promise.all([off.stop(), on.stop()]);
  await collector.close();
}
process.exit();
