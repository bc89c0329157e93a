import { randomBytes } from "node:crypto";
import { agentctl } from "../cli/harness.ts";
import type { TestServer } from "../support/server.ts";
import { createFireWorkspace, type FireWorkspace } from "./agents.ts";
import { startKilledFleet } from "./killed-fleet.ts";
import { countLost } from "./lost-decisions.ts";
import { startRetryingCallers } from "./retrying-callers.ts";

/** Size of a run. */
export interface KillSize {
  readonly processes: number;
  readonly workspaces: number;
  readonly callers: number;
  readonly seconds: number;
  /** Milliseconds between kills. */
  readonly everyMs: number;
}

/** Result of a run. */
export interface KillReport {
  readonly kills: number;
  readonly acknowledged: number;
  /** Logs that `agentctl vault verify` accepts. */
  readonly verified: number;
  /** Descriptions of broken promises. */
  readonly faults: readonly string[];
}

const ACTION = "killed.act";
/** Kills of a run whose processes start slowly. */
const LEAST_KILLS = 2;

async function faultOfLog({ http }: TestServer, { workspaceId, apiKey }: FireWorkspace): Promise<string | undefined> {
  const { code, stderr } = await agentctl(["vault", "verify"], { AGENTCTL_URL: http, AGENTCTL_KEY: apiKey });
  return code === 0 ? undefined : `the log of ${workspaceId} does not verify: ${stderr}`;
}

/** Kills one of several processes after the other under callers of many workspaces, and verifies every log in the end. */
export async function runKills(databaseUrl: string, size: KillSize): Promise<KillReport> {
  await using cleanup = new AsyncDisposableStack();
  const env = { ACP_ADMIN_KEY: randomBytes(24).toString("base64url"), ACP_LOG_LEVEL: "error" };
  const fleet = await startKilledFleet({ databaseUrl, processes: size.processes, env }, cleanup);
  const { servers } = fleet;
  const [first] = servers as [TestServer];
  const workspaces: FireWorkspace[] = [];
  while (workspaces.length < size.workspaces)
    workspaces.push(await createFireWorkspace(first, `killed-${workspaces.length}`));
  const load = startRetryingCallers(servers, workspaces, size.callers, ACTION);
  const end = performance.now() + size.seconds * 1_000;
  while (performance.now() < end || fleet.kills < LEAST_KILLS) await fleet.killOneAfter(size.everyMs);
  await load.stop();
  const faults: string[] = [];
  const lost = await countLost(databaseUrl, ACTION, load.acknowledged);
  if (lost > 0) faults.push(`${lost} acknowledged decisions are not in the log as they were told`);
  const [one] = servers as [TestServer];
  const broken: string[] = [];
  for (const workspace of workspaces) broken.push(...[(await faultOfLog(one, workspace)) ?? []].flat());
  const verified = workspaces.length - broken.length;
  return { kills: fleet.kills, acknowledged: load.acknowledged.length, verified, faults: [...faults, ...broken] };
}
