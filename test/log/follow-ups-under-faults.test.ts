import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { Decision, OutcomeStatus } from "../../gen/agentcontrol/v1/resources_pb.js";
import { reportOutcome } from "../../src/decision/report-outcome.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { WorkspaceLog } from "../../src/log/writer.ts";
import { loadState } from "../../src/state/load.ts";
import { cutConnections } from "../support/database.ts";
import { type Replica, reasonOf, type TestWorkspace, withWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { assertIntact, readLog } from "./stored-log.ts";

const DECISIONS = 40;
const RIVALS = 3;
const CUTS = 8;

/** Answer to a caller that asks again while the database does not answer: what came, or the reason of the refusal. */
async function insist<T>(call: () => Promise<T>): Promise<T | string> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ControlPlaneError)) throw error;
      if (error.reason !== ErrorReason.STORE_UNAVAILABLE) return ErrorReason[error.reason] ?? "";
    }
  }
}

interface Sealed {
  readonly type: string;
  readonly decision_id: string;
  readonly claim_id?: string;
  readonly amount?: number;
}

const sealedIn = async ({ url }: TestWorkspace): Promise<Sealed[]> =>
  (await readLog(url)).entries.map(({ body }) => JSON.parse(body) as Sealed);

describe("claims and reports while connections break", () => {
  it("are sealed once, and answered as they were sealed, however often they are tried again.", () =>
    withWorkspace({ replicas: 3 }, async (workspace) => {
      const agentId = await workspace.agent();
      const below = seededBelow(5);
      const replica = (): Replica => workspace.replicas[below(3)] as Replica;
      const holders = new Map<string, string[]>();
      const amounts = new Map<string, number[]>();
      let left = DECISIONS;
      const rival = async (decisionId: string, requestId: string, index: number): Promise<void> => {
        const claimId = randomUUID();
        // A third of the rivals claim with the intercept, as a retry of which each of them goes.
        const claimed =
          index === 0
            ? await insist(() => workspace.intercept({ agentId, actionType: "pay", requestId, claimId }, replica()))
            : await insist(() => replica().enforcement.claimDecision({ decisionId, claimId }));
        if (typeof claimed !== "string" && claimed.claimed === true) holders.get(decisionId)?.push(claimId);
        const amount = index;
        const report = { decisionId, status: OutcomeStatus.SUCCEEDED, amount };
        const reported = await insist(() => replica().enforcement.reportOutcome(report));
        if (typeof reported !== "string") amounts.get(decisionId)?.push(reported.outcome?.amount ?? -1);
      };
      const decide = async (): Promise<void> => {
        const requestId = randomUUID();
        const request = { agentId, actionType: "pay", requestId };
        const answer = await insist(() => workspace.intercept(request, replica()));
        if (typeof answer === "string") throw new Error(answer);
        expect(answer.decision).to.equal(Decision.ALLOW);
        holders.set(answer.decisionId, []);
        amounts.set(answer.decisionId, []);
        await Promise.all(Array.from({ length: RIVALS }, (_, index) => rival(answer.decisionId, requestId, index)));
        left -= 1;
      };
      const all = Promise.all(Array.from({ length: DECISIONS }, decide));
      for (let cut = 0; cut < CUTS && left > 0; cut++) await cutConnections(workspace.url);
      await all;
      const sealed = await sealedIn(workspace);
      for (const [decisionId, held] of holders) {
        const about = sealed.filter(({ decision_id }) => decision_id === decisionId);
        const claims = about.filter(({ claim_id }) => claim_id !== undefined);
        expect(claims.length).to.be.at.most(1);
        // A claim whose answer was lost was answered when it was tried again, unless the outcome was settled meanwhile.
        for (const claimId of held) expect(claimId).to.equal(claims[0]?.claim_id);
        const outcomes = about.filter(({ type }) => type === "outcome");
        expect(outcomes).to.have.length(1);
        expect(new Set(amounts.get(decisionId))).to.deep.equal(new Set([outcomes[0]?.amount]));
      }
      assertIntact(await readLog(workspace.url));
      for (const { log } of workspace.replicas) expect((await log.caughtUp()).outcomes.size).to.equal(0);
    }));

  it("are found by a retry when the process fell between the append and its answer.", () =>
    withWorkspace({ replicas: 2 }, async (workspace) => {
      const agentId = await workspace.agent();
      const { decisionId } = await workspace.intercept({ agentId, actionType: "pay" });
      const { pool } = workspace.database;
      const losing = new Proxy(pool, {
        get(_, name) {
          const value = Reflect.get(pool, name) as unknown;
          if (name !== "connect") return typeof value === "function" ? value.bind(pool) : value;
          return async () => {
            const client = await pool.connect();
            const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
            const losingQuery = async (...args: unknown[]) => {
              const answer = await query(...args);
              if ((args[0] as { name?: string }).name !== "append-entries") return answer;
              throw new Error("Connection terminated unexpectedly");
            };
            return Object.assign(Object.create(client), { query: losingQuery, release: client.release.bind(client) });
          };
        },
      });
      const log = new WorkspaceLog(
        { ...workspace.database, pool: losing },
        await loadState(pool, "default"),
        workspace.clock,
      );
      const caller = {
        keyId: workspace.adminCaller.keyId,
        agentId: null,
        source: "operator" as const,
        isOver: () => false,
      };
      const report = { decisionId, status: "succeeded", amount: 7, error: undefined, resultDigest: undefined } as const;
      expect(await reasonOf(reportOutcome(log, report, caller))).to.equal("STORE_UNAVAILABLE");
      expect((await sealedIn(workspace)).filter(({ type }) => type === "outcome")).to.have.length(1);
      // By the same process, whose state was rolled back, and by another one.
      expect((await reportOutcome(log, report, caller)).outcome?.amount).to.equal(7);
      for (const replica of workspace.replicas) {
        const again = await replica.enforcement.reportOutcome({
          decisionId,
          status: OutcomeStatus.SUCCEEDED,
          amount: 7,
        });
        expect(again.outcome?.amount).to.equal(7);
      }
      expect((await sealedIn(workspace)).filter(({ type }) => type === "outcome")).to.have.length(1);
      await log.idle();
    }));
});

describe("claims and reports in the batches of decisions", () => {
  it("are exact in any order of both, over replicas that overtake each other.", () =>
    withWorkspace({ replicas: 3 }, async (workspace) => {
      const agentId = await workspace.agent();
      const below = seededBelow(11);
      const replica = (): Replica => workspace.replicas[below(3)] as Replica;
      const truths = new Map<string, string>();
      const flow = async (): Promise<void> => {
        const { decisionId } = await workspace.intercept({ agentId, actionType: "pay" }, replica());
        const claims = [randomUUID(), randomUUID(), randomUUID()];
        const results = await Promise.allSettled(
          claims.map((claimId) => replica().enforcement.claimDecision({ decisionId, claimId })),
        );
        const won = claims.filter((_, index) => results[index]?.status === "fulfilled");
        expect(won).to.have.length(1);
        truths.set(decisionId, won[0] ?? "");
        await Promise.all(
          Array.from({ length: 4 }, () => workspace.intercept({ agentId, actionType: "pay" }, replica())),
        );
        await replica().enforcement.reportOutcome({ decisionId, status: OutcomeStatus.CANCELLED });
      };
      await Promise.all(Array.from({ length: 60 }, flow));
      const sealed = await sealedIn(workspace);
      for (const [decisionId, claimId] of truths) {
        const about = sealed.filter(({ decision_id }) => decision_id === decisionId);
        expect(about.map(({ type }) => type)).to.deep.equal(["decision", "claim", "outcome"]);
        expect(about[1]?.claim_id).to.equal(claimId);
      }
      assertIntact(await readLog(workspace.url));
    }));
});
