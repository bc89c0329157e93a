/*
 * How soon a runtime hears that its agent was revoked, on whichever process it listens. Run with
 * `node test/bench/watch-agent.ts`. Three processes on one database; the client library watches each agent on all of them.
 */
import { setTimeout as pause } from "node:timers/promises";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { RevocationService } from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { startFleet } from "../revocation/fleet.ts";
import { startOwnPostgres } from "../support/own-postgres.ts";

const REVOKES = 50;
const PROCESSES = 3;
/** Milliseconds from the return of RevokeAgent. */
const BOUND_MS = 50;

/** Milliseconds from the call and from the return of RevokeAgent until one process was heard; below 0: before it returned. */
interface Heard {
  readonly fromCall: number;
  readonly fromReturn: number;
}

async function heardAt(signal: AbortSignal): Promise<number> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(performance.now()), { once: true }));
}

/** Revokes a new agent through one process while all of them are listened to. */
async function revokeOnce(controlPlanes: readonly ControlPlane[], round: number): Promise<Heard[]> {
  const revoker = controlPlanes[round % controlPlanes.length] as ControlPlane;
  const { agent } = await revoker.client(AgentService).registerAgent({ name: `watched ${round}` });
  const agentId = agent?.agentId ?? "";
  const watches = controlPlanes.map((controlPlane) => controlPlane.watchAgent(agentId));
  await Promise.all(watches.map(({ ready }) => ready));
  // What opening the streams left to do is not measured.
  await pause(20);
  const hearing = watches.map(({ signal }) => heardAt(signal));
  const calledAt = performance.now();
  await revoker.client(RevocationService).revokeAgent({ agentId });
  const returnedAt = performance.now();
  const times = await Promise.all(hearing);
  for (const watch of watches) watch.close();
  return times.map((at) => ({ fromCall: at - calledAt, fromReturn: at - returnedAt }));
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * part) - 1] ?? Number.NaN;
}

const cleanup = new AsyncDisposableStack();
try {
  const skews = Array.from({ length: PROCESSES }, () => 0);
  const { controlPlanes } = await startFleet(await startOwnPostgres(cleanup), skews, cleanup);
  const overHttp = controlPlanes.slice(PROCESSES);
  const heard: Heard[] = [];
  for (let round = -5; round < REVOKES; round++) {
    const times = await revokeOnce(overHttp, round + 5);
    // The first ones warm up.
    if (round >= 0) heard.push(...times);
  }
  for (const name of ["fromCall", "fromReturn"] as const) {
    const values = heard.map((each) => each[name]);
    const [p50, p99, most] = [0.5, 0.99, 1].map((part) => `${quantile(values, part).toFixed(1)} ms`);
    console.log(`${name.padEnd(10)}  p50 ${p50}  p99 ${p99}  most ${most}  (${values.length} signals)`);
  }
  const p99 = quantile(
    heard.map(({ fromReturn }) => fromReturn),
    0.99,
  );
  console.log(`${p99 <= BOUND_MS ? "PASS" : "FAIL"}  p99 from the return of RevokeAgent <= ${BOUND_MS} ms`);
  if (p99 > BOUND_MS) process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
