import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { startGate } from "../log/gate.ts";
import { post } from "../log/rest.ts";
import { withOwner } from "../support/owner.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { registerAgents } from "./agents.ts";
import { startReplicatedPostgres } from "./replicated-postgres.ts";
import { type Acknowledged, startRetryingCallers } from "./retrying-callers.ts";

/** Size of a run. */
export interface FailoverSize {
  readonly callers: number;
  /** Milliseconds of calls before the primary is killed, and after the first decision on the promoted standby. */
  readonly calmMs: number;
  /** Actions that the limit allows; fewer than the callers make. */
  readonly limit: number;
}

/** Result of a run. */
export interface FailoverReport {
  readonly acknowledged: number;
  readonly allowed: number;
  /** Milliseconds from the end of the primary to the first decision on the promoted standby. */
  readonly outageMs: number;
  /** Descriptions of the faults; empty when nothing acknowledged was lost and the limit held exactly. */
  readonly faults: readonly string[];
}

const REPLICAS = 2;
const AGENTS = 20;
const ACTION = "failover.act";
/** Milliseconds in which the standby has to be promoted and to serve decisions. */
const MAX_OUTAGE_MS = 120_000;

interface Sealed {
  readonly decision: string;
  readonly count: number;
}

/** Reads the decisions of the run from the log, in its order. */
function sealedIn(databaseUrl: string): Promise<ReadonlyMap<string, Sealed>> {
  const select = "select entry_id, body from ledger_entry where action_type = $1 order by workspace_id, seq";
  return withOwner(databaseUrl, async (client) => {
    const { rows } = await client.query<{ entry_id: string; body: string }>(select, [ACTION]);
    return new Map(
      rows.map(({ entry_id, body }) => {
        const { decision, authorisation } = JSON.parse(body);
        return [entry_id, { decision, count: authorisation.collective_limits[0].count }];
      }),
    );
  });
}

function faultsIn(acknowledged: readonly Acknowledged[], sealed: ReadonlyMap<string, Sealed>, limit: number): string[] {
  const faults: string[] = [];
  const lost = acknowledged.filter(({ reply }) => sealed.get(reply.decision_id)?.decision !== reply.decision);
  if (lost.length > 0)
    faults.push(`${lost.length} acknowledged decisions are not in the promoted log as they were told`);
  const ids = new Set(acknowledged.map(({ reply }) => reply.decision_id));
  if (ids.size !== acknowledged.length) faults.push(`${acknowledged.length - ids.size} decisions were told twice`);
  const wrong = [...sealed.values()].findIndex(
    ({ decision, count }, index) => count !== index + 1 || decision !== (index < limit ? "allow" : "block"),
  );
  if (wrong >= 0)
    faults.push(`decision ${wrong} of the log does not keep the limit: ${JSON.stringify([...sealed.values()][wrong])}`);
  if (sealed.size <= limit) faults.push(`only ${sealed.size} decisions: the limit of ${limit} was not reached`);
  return faults;
}

/** Kills the primary under the callers, promotes the standby, and compares what was acknowledged with the promoted log. */
export async function runFailover({ callers, calmMs, limit }: FailoverSize): Promise<FailoverReport> {
  await using cleanup = new AsyncDisposableStack();
  const pair = await startReplicatedPostgres(cleanup);
  const gate = await startGate(`postgresql://owner@127.0.0.1:${pair.primaryPort}/${pair.database}`);
  cleanup.defer(async () => gate.close());
  const databaseUrl = gate.url;
  const env = { ACP_ADMIN_KEY: randomBytes(24).toString("base64url"), ACP_LOG_LEVEL: "error" };
  const servers: TestServer[] = [];
  for (let replica = 0; replica < REPLICAS; replica++) {
    const server = await startServer({ databaseUrl, env });
    cleanup.defer(async () => void (await server.stop()));
    servers.push(server);
  }
  const [first] = servers as [TestServer];
  const agentIds = await registerAgents(first, AGENTS);
  await post(first, "/v1/enforce/mandates", {
    name: "failover",
    rules: [
      {
        type: "sequence",
        decision: "block",
        conditions: {
          mode: "velocity",
          scope: "workspace",
          match_action_types: [ACTION],
          max_count: limit,
          window_seconds: 86_400,
        },
      },
    ],
  });
  const load = startRetryingCallers(servers, agentIds, callers, ACTION);
  await delay(calmMs);
  gate.shut();
  await pair.killPrimary();
  const killedAt = performance.now();
  await pair.promote();
  gate.leadTo(pair.standbyPort);
  gate.open();
  const mendedAt = performance.now();
  const firstAfter = () => load.acknowledged.find(({ at }) => at > mendedAt)?.at;
  while (firstAfter() === undefined && performance.now() - killedAt < MAX_OUTAGE_MS) await delay(10);
  const servedAt = firstAfter();
  if (servedAt === undefined)
    return { acknowledged: 0, allowed: 0, outageMs: Number.NaN, faults: ["no decision after the promotion"] };
  await delay(calmMs);
  await load.stop();
  const sealed = await sealedIn(`postgresql://owner@127.0.0.1:${pair.standbyPort}/${pair.database}`);
  return {
    acknowledged: load.acknowledged.length,
    allowed: load.acknowledged.filter(({ reply }) => reply.decision === "allow").length,
    outageMs: servedAt - killedAt,
    faults: faultsIn(load.acknowledged, sealed, limit),
  };
}
