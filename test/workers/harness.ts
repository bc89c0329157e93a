import { MandateService, RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import type { TestServer } from "../support/server.ts";

/** Has every action `review.*` wait for a human. */
export async function escalateReviews(controlPlane: ControlPlane): Promise<void> {
  const conditions = { matchActionTypes: ["review.*"] };
  const rules = [{ type: RuleType.ACTION, decision: Decision.ESCALATE, conditions }];
  await controlPlane.client(MandateService).createMandate({ name: "reviews", rules });
}

/** Has all agents together do `most` actions `refund.*` an hour; the others are blocked. */
export async function limitRefunds(controlPlane: ControlPlane, most: number): Promise<void> {
  const conditions = {
    mode: SequenceMode.VELOCITY,
    matchActionTypes: ["refund.*"],
    maxCount: BigInt(most),
    windowSeconds: 3_600n,
    scope: Scope.WORKSPACE,
  };
  const rules = [{ type: RuleType.SEQUENCE, decision: Decision.BLOCK, conditions }];
  await controlPlane.client(MandateService).createMandate({ name: "refunds", rules });
}

/** Resolves when `isTrue` is; looks every 20 milliseconds, for at most a minute. */
export async function until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  for (const endsAt = performance.now() + 60_000; performance.now() < endsAt; ) {
    if (await isTrue()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`it did not come to pass that ${what}`);
}

/** The processes of the workers that serve by their slots, as the primary's log tells them: the newest of each. */
export function workersOf(server: TestServer): ReadonlyMap<number, number> {
  const pids = new Map<number, number>();
  for (const [, worker, pid] of server.output().matchAll(/"worker":(\d+),"workerPid":(\d+),"msg":"a worker serves"/g)) {
    pids.set(Number(worker), Number(pid));
  }
  return pids;
}

/** The processes of the workers that serve. */
export function workerPids(server: TestServer): number[] {
  return [...workersOf(server).values()];
}

/** Whether a process is there; one that ended and was not waited for yet counts as there. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
