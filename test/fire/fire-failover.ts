import { runFailover } from "./failover.ts";

const RUNS = 5;
const SIZE = { callers: 200, calmMs: 4_000, limit: 1_000 };

/** Runs the failover several times. Resolves with whether every run was without a fault. */
export async function fireFailover(): Promise<boolean> {
  let held = 0;
  for (let run = 1; run <= RUNS; run++) {
    const { acknowledged, allowed, outageMs, faults } = await runFailover(SIZE);
    for (const fault of faults) console.log(`run ${run}: ${fault}`);
    if (faults.length === 0) held += 1;
    const outage = (outageMs / 1_000).toFixed(1);
    console.log(
      `run ${run}  ${acknowledged} acknowledged, ${allowed} of them allowed; first decision ${outage} s after the kill`,
    );
  }
  console.log(`failover, ${SIZE.callers} callers, two replicas: ${held} of ${RUNS} without a fault`);
  return held === RUNS;
}
