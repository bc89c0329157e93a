/*
 * How soon a caller that waits for a human hears the resolution, on whichever process it waits. Run with
 * `node test/bench/escalation.ts`. Three processes on one database; the client library waits on all of them at once.
 * With `REDIS_URL` the same again over Redis. Next to it a bare HTTP call of another process at the same rhythm, which tells
 * what the machine makes of processes that are woken.
 */
import { setTimeout as pause } from "node:timers/promises";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { EscalationService, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { MandateService, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type ControlPlane, createControlPlane } from "../../src/client/index.ts";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { startServer } from "../support/server.ts";
import { startChild } from "./child.ts";
import type { EchoAddresses } from "./echo-process.ts";

/** Two waits each; enough that the 99th percentile is not that of one slow commit. */
const ROUNDS = 1_000;
/** For the compilers of all processes, which take turns. */
const WARM_UP_ROUNDS = 200;
const PROCESSES = 3;
/** Milliseconds from the call of ResolveEscalation. */
const BOUND_MS = 20;
const ADMIN_KEY = "the-admin-key-of-the-bench";

/** Milliseconds from the call of ResolveEscalation until one process was heard, and from its return; below 0: before it returned. */
interface Heard {
  readonly fromCall: number;
  readonly fromReturn: number;
  /** The bare HTTP call shortly before. */
  readonly bare: number;
}

const FIGURES = ["fromCall", "fromReturn", "bare"] as const;
/** Milliseconds between calls: whoever is called next sleeps by then. */
const PAUSE_MS = 25;

async function startProcesses(
  databaseUrl: string,
  env: Readonly<Record<string, string>>,
  cleanup: AsyncDisposableStack,
): Promise<ControlPlane[]> {
  const controlPlanes: ControlPlane[] = [];
  for (let count = 0; count < PROCESSES; count++) {
    const server = await startServer({ databaseUrl, env: { ACP_ADMIN_KEY: ADMIN_KEY, ACP_LOG_LEVEL: "warn", ...env } });
    cleanup.defer(async () => void (await server.stop()));
    controlPlanes.push(createControlPlane({ baseUrl: server.http, apiKey: ADMIN_KEY }));
  }
  return controlPlanes;
}

/** Has an action reviewed, and an agent to try it. */
async function prepare(controlPlane: ControlPlane): Promise<string> {
  const conditions = { matchActionTypes: ["review.*"] };
  const rules = [{ type: RuleType.ACTION, decision: Decision.ESCALATE, conditions }];
  await controlPlane.client(MandateService).createMandate({ name: `reviews ${performance.now()}`, rules });
  const { agent } = await controlPlane.client(AgentService).registerAgent({ name: "reviewed" });
  return agent?.agentId ?? "";
}

/** Resolves a new escalation through one process while callers wait on the others. */
async function resolveOnce(
  controlPlanes: readonly ControlPlane[],
  agentId: string,
  round: number,
  echo: string,
): Promise<Heard[]> {
  const resolver = controlPlanes[round % controlPlanes.length] as ControlPlane;
  const action = { agentId, actionType: "review.send", actionContent: `letter ${round}` };
  const escalationId = (await resolver.intercept(action)).escalationId ?? "";
  const others = controlPlanes.filter((controlPlane) => controlPlane !== resolver);
  const hearing = others.map(async (controlPlane) => {
    // Without polling: only a stream can bring it.
    await controlPlane.waitForEscalation(escalationId, { timeout: 30, pollInterval: 30 });
    return performance.now();
  });
  // The streams stand by then; what opening them costs is not measured.
  await pause(PAUSE_MS);
  const bare = await bareCall(echo);
  await pause(PAUSE_MS);
  const calledAt = performance.now();
  await resolver.client(EscalationService).resolveEscalation({ escalationId, resolution: Resolution.APPROVED });
  const returnedAt = performance.now();
  return (await Promise.all(hearing)).map((at) => ({ fromCall: at - calledAt, fromReturn: at - returnedAt, bare }));
}

/** Milliseconds that the echo takes to answer. */
async function bareCall(echo: string): Promise<number> {
  const calledAt = performance.now();
  await (await fetch(`http://${echo}`, { method: "POST", body: "{}" })).text();
  return performance.now() - calledAt;
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * part) - 1] ?? Number.NaN;
}

async function measure(
  name: string,
  databaseUrl: string,
  echo: string,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  await using cleanup = new AsyncDisposableStack();
  const controlPlanes = await startProcesses(databaseUrl, env, cleanup);
  const agentId = await prepare(controlPlanes[0] as ControlPlane);
  const heard: Heard[] = [];
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    const times = await resolveOnce(controlPlanes, agentId, round, echo);
    if (round >= WARM_UP_ROUNDS) heard.push(...times);
  }
  const figure = (each: (typeof FIGURES)[number], part: number): number =>
    quantile(
      heard.map((times) => times[each]),
      part,
    );
  for (const each of FIGURES) {
    const [p50, p99, most] = [0.5, 0.99, 1].map((part) => `${figure(each, part).toFixed(1)} ms`);
    console.log(`${name.padEnd(14)} ${each.padEnd(10)}  p50 ${p50}  p99 ${p99}  most ${most}  (${heard.length})`);
  }
  const p99 = figure("fromCall", 0.99);
  const times = p99 / figure("bare", 0.99);
  console.log(`${name}: p99 from the call is ${times.toFixed(1)} times that of a bare HTTP call`);
  console.log(
    `${p99 <= BOUND_MS ? "PASS" : "FAIL"}  ${name}: p99 from the call of ResolveEscalation <= ${BOUND_MS} ms`,
  );
  if (p99 > BOUND_MS) process.exitCode = 1;
}

const cleanup = new AsyncDisposableStack();
try {
  const databaseUrl = await startOwnPostgres(cleanup);
  const child = startChild("echo-process.ts");
  cleanup.defer(() => child.end());
  const { http: echo } = await child.ask<EchoAddresses>({});
  await measure("listen/notify", databaseUrl, echo, {});
  const { REDIS_URL } = process.env;
  if (REDIS_URL) await measure("redis", databaseUrl, echo, { REDIS_URL });
} finally {
  await cleanup.disposeAsync();
}
