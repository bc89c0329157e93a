/*
 * What revoking an agent with much authority costs. Run with `node test/bench/revoke.ts`. One process on a durable
 * database; the call goes over HTTP, so the certificate travels as well.
 */
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { RevocationService } from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { give, newAuthority, newGrant } from "../revocation/authority.ts";
import { type Fleet, startFleet } from "../revocation/fleet.ts";
import { startOwnPostgres } from "../support/own-postgres.ts";

const SIZES = [0, 1_000, 20_000];
const ROUNDS = 3;
/** Milliseconds that the largest revoke may take. */
const BOUND_MS = 2_000;

/** Registers an agent with half as many sessions as grants given and received, and so many pieces in all. */
async function newLoadedAgent({ controlPlanes, log }: Fleet, size: number): Promise<string> {
  const client = (controlPlanes[0] as ControlPlane).client(AgentService);
  const [agentId = "", other = ""] = await Promise.all(
    ["loaded", "other"].map(async (name) => (await client.registerAgent({ name })).agent?.agentId ?? ""),
  );
  const all = Array.from({ length: size }, (_, index) => {
    if (index % 2 === 0) return newAuthority("session", agentId);
    return index % 4 === 1 ? newGrant(agentId, other) : newGrant(other, agentId);
  });
  if (size > 0) await give(log, all);
  return agentId;
}

async function revokeMs(fleet: Fleet, size: number): Promise<number> {
  const agentId = await newLoadedAgent(fleet, size);
  const [controlPlane] = fleet.controlPlanes as [ControlPlane];
  // The process reads what was made on another one before it is measured.
  await controlPlane.client(AgentService).getAgent({ agentId });
  const startedAt = performance.now();
  const { counts } = await controlPlane.client(RevocationService).revokeAgent({ agentId });
  const took = performance.now() - startedAt;
  const ended = (counts?.sessions ?? 0) + (counts?.grantsGiven ?? 0) + (counts?.grantsReceived ?? 0);
  if (ended !== size) throw new Error(`the revoke ended ${ended} of ${size}`);
  return took;
}

const cleanup = new AsyncDisposableStack();
try {
  const fleet = await startFleet(await startOwnPostgres(cleanup), [0], cleanup);
  await revokeMs(fleet, 10);
  let worst = 0;
  for (const size of SIZES) {
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) times.push(await revokeMs(fleet, size));
    worst = Math.max(...times);
    console.log(`${String(size).padStart(6)} pieces  ${times.map((ms) => `${Math.round(ms)} ms`).join(", ")}`);
  }
  console.log(`${worst < BOUND_MS ? "PASS" : "FAIL"}  the largest < ${BOUND_MS} ms`);
  if (worst >= BOUND_MS) process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
