/*
 * What traces cost a decision: decisions a second over REST of calls without a trace, of calls in one while the service records none, and
 * with every call recorded and sent to a collector on this machine, in turns in one process. Run with
 * `node test/bench/traces.ts [seconds of a round]`.
 */
import { startService, type TestService } from "../support/service.ts";
import { startCollector, withEndpoint } from "../tracing/collector.ts";

const SECONDS = Number(process.argv[2] ?? 3);
const ROUNDS = 9;
const CALLERS = 32;
const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const median = (figures: readonly number[]): number =>
  [...figures].sort((a, b) => a - b)[Math.floor(figures.length / 2)] ?? 0;

async function decisionsPerSecond(
  { http, adminKey }: TestService,
  agentId: string,
  trace: { readonly traceparent?: string } = { traceparent: TRACEPARENT },
): Promise<number> {
  const headers = { "x-api-key": adminKey, "content-type": "application/json", ...trace };
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
  const kinds = {
    plain: () => decisionsPerSecond(off, offAgent, {}),
    off: () => decisionsPerSecond(off, offAgent),
    on: () => decisionsPerSecond(on, onAgent),
  };
  const costs = { off: [] as number[], on: [] as number[] };
  // The first round warms up.
  for (let round = 0; round <= ROUNDS; round += 1) {
    const rates = { plain: 0, off: 0, on: 0 };
    const order = ["plain", "off", "on"] as const;
    for (const kind of round % 2 === 0 ? order : order.toReversed()) rates[kind] = await kinds[kind]();
    if (round === 0) continue;
    costs.off.push(rates.plain / rates.off);
    costs.on.push(rates.plain / rates.on);
    console.log(`round ${round}  ${order.map((kind) => `${kind} ${rates[kind].toFixed(0)}`).join("  ")} a second`);
  }
  const told = (figures: readonly number[]): string =>
    `${median(figures).toFixed(2)} x  (${Math.min(...figures).toFixed(2)} - ${Math.max(...figures).toFixed(2)})`;
  console.log(`calls in a trace, none recorded  ${told(costs.off)}  <= 1.05`);
  console.log(`calls in a trace, all recorded   ${told(costs.on)}`);
  console.log(`spans that arrived               ${collector.spans.length}`);
} finally {
  await Promise.all([off.stop(), on.stop()]);
  await collector.close();
}
process.exit();
