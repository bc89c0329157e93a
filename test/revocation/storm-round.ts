import { setTimeout as pause } from "node:timers/promises";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { RevocationService, type RevokeAgentResponse } from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import type { ControlPlane, InterceptAction, InterceptResult } from "../../src/client/index.ts";
import { withOwner } from "../support/owner.ts";
import { give, newGrant } from "./authority.ts";
import type { Fleet } from "./fleet.ts";

/** What one round came to. */
export interface RoundReport {
  /** Decisions that were there before RevokeAgent was called. */
  readonly before: number;
  /** Decisions on actions that began after RevokeAgent had returned. */
  readonly after: number;
  /** Milliseconds that RevokeAgent took. */
  readonly revokeMs: number;
  /** What should not be, in words; empty in a round that keeps the promise. */
  readonly faults: readonly string[];
}

interface Seen {
  readonly startedAt: number;
  readonly endedAt: number;
  readonly caller: number;
  readonly result: InterceptResult;
}

/** Callers that hammer at once. */
const CALLERS = 64;
/** Decisions that every caller sees before the revoke, and calls that it begins after it. */
const BEFORE = 3;
const AFTER = 5;

/** The agent to revoke, its delegate, and the delegate's delegate. */
interface Cast {
  readonly agentId: string;
  readonly actions: readonly Pick<InterceptAction, "agentId" | "onBehalfOf">[];
}

async function register(controlPlane: ControlPlane, name: string): Promise<string> {
  const { agent } = await controlPlane.client(AgentService).registerAgent({ name });
  return agent?.agentId ?? "";
}

async function createCast({ controlPlanes, log }: Fleet): Promise<Cast> {
  const [first, second, third] = controlPlanes as [ControlPlane, ControlPlane, ControlPlane];
  const agentId = await register(first, "principal");
  const delegate = await register(second, "delegate");
  const child = await register(third, "delegate's delegate");
  const grant = newGrant(agentId, delegate);
  await give(log, [grant, newGrant(delegate, child, grant)]);
  const onBehalfOf = agentId;
  return { agentId, actions: [{ agentId }, { agentId: delegate, onBehalfOf }, { agentId: child, onBehalfOf }] };
}

/** The callers of one round, each one call after the other until they are told to stop. */
class Callers {
  readonly seen: Seen[] = [];
  readonly #running: Promise<void>[];
  readonly #begun: number[][];
  #isOver = false;

  constructor({ controlPlanes }: Fleet, { actions }: Cast) {
    this.#begun = Array.from({ length: CALLERS }, () => []);
    this.#running = this.#begun.map((_, caller) => {
      const controlPlane = controlPlanes[caller % controlPlanes.length] as ControlPlane;
      const action = actions[Math.floor(caller / controlPlanes.length) % actions.length] as Cast["actions"][number];
      return this.#hammer(caller, controlPlane, { actionType: "read", actionContent: "", ...action });
    });
  }

  /** Waits until every caller began so many calls at or after a time. */
  async haveBegun(count: number, sinceMs: number): Promise<void> {
    const isThere = (begun: readonly number[]) => begun.filter((at) => at >= sinceMs).length >= count;
    while (!this.#begun.every(isThere)) await Promise.race([pause(5), ...this.#running]);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#running);
  }

  async #hammer(caller: number, controlPlane: ControlPlane, action: InterceptAction): Promise<void> {
    while (!this.#isOver) {
      const startedAt = performance.now();
      this.#begun[caller]?.push(startedAt);
      const result = await controlPlane.intercept(action);
      this.seen.push({ startedAt, endedAt: performance.now(), caller, result });
    }
  }
}

const told = ({ caller, result }: Seen): string =>
  `caller ${caller}: ${result.decision} by ${result.decisionPath} (${result.decisionId})`;

/** What the log has of the cast after the revocation that is no refusal. */
async function faultsInLog(url: string, { actions }: Cast, { ledgerSeq }: RevokeAgentResponse): Promise<string[]> {
  const ids = actions.map(({ agentId }) => agentId);
  const { rows } = await withOwner(url, (client) =>
    client.query<{ seq: string; body: string }>(
      `select seq, body from ledger_entry where workspace_id = 'default' and kind = 0 and agent_id = any($1)
        and seq > $2 and (decision <> 2 or body not like '%"decision_path":"revoked"%')`,
      [ids, Number(ledgerSeq)],
    ),
  );
  return rows.map(({ seq, body }) => `entry ${seq} after the revocation ${ledgerSeq}: ${body}`);
}

/** Runs one round with agents of its own; the revoke goes to another process each time. */
export async function runStormRound(fleet: Fleet, databaseUrl: string, round: number): Promise<RoundReport> {
  const cast = await createCast(fleet);
  const callers = new Callers(fleet, cast);
  await callers.haveBegun(BEFORE + 1, 0);
  const revoker = fleet.controlPlanes[round % fleet.controlPlanes.length] as ControlPlane;
  const calledAt = performance.now();
  const certificate = await revoker.client(RevocationService).revokeAgent({ agentId: cast.agentId });
  const returnedAt = performance.now();
  await callers.haveBegun(AFTER, returnedAt);
  await callers.stop();
  const before = callers.seen.filter(({ endedAt }) => endedAt < calledAt);
  const after = callers.seen.filter(({ startedAt }) => startedAt > returnedAt);
  const isRefused = ({ result }: Seen) => result.decision === "block" && result.decisionPath === "revoked";
  const faults = [
    ...before.filter(({ result }) => result.decision !== "allow").map((seen) => `before: ${told(seen)}`),
    ...after.filter((seen) => !isRefused(seen)).map((seen) => `after: ${told(seen)}`),
    ...(await faultsInLog(databaseUrl, cast, certificate)),
  ];
  return { before: before.length, after: after.length, revokeMs: returnedAt - calledAt, faults };
}
