import { createHash, randomUUID } from "node:crypto";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { InterceptResponse } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { WorkspaceLog } from "../../src/log/writer.ts";
import { loadState } from "../../src/state/load.ts";
import { idFromUuid } from "../../src/store/ids.ts";
import { readEntriesById } from "../../src/store/sql/read-entries.ts";
import { decideOn } from "../support/decide-on.ts";
import {
  actionOf,
  openWorkspace,
  PUBLIC_URL,
  reasonOf,
  type TestWorkspace,
  velocityRule,
  withWorkspace,
} from "../support/harness.ts";
import { createTestClock } from "../support/test-clock.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";

const DAY_MS = 86_400_000;

describe("a repeated request", () => {
  let workspace: TestWorkspace;
  before(async () => {
    workspace = await openWorkspace({ replicas: 2 });
    await workspace.mandate([velocityRule(1, { scope: Scope.AGENT, matchActionTypes: ["pay.once"] })]);
  });
  after(async () => {
    assertIntact(await readLog(workspace.url));
    await workspace.close();
  });

  const trustOf = async (agentId: string): Promise<number | undefined> =>
    (await workspace.agents.getAgent({ agentId })).agent?.trustLevel;

  it("says that it is answered by an earlier decision, and when that was made.", async () => {
    const agentId = await workspace.agent();
    const request = { agentId, actionType: "read", requestId: randomUUID() };
    const first = await workspace.intercept(request);
    expect(first.replayed).to.equal(false);
    expect(first.decidedAt).to.equal(undefined);
    for (const replica of workspace.replicas) {
      const again = await workspace.intercept(request, replica);
      expect(again).to.include({ replayed: true, decisionId: first.decisionId, decision: Decision.ALLOW });
      const { decision } = await workspace.enforcement.getDecision({ decisionId: first.decisionId });
      expect(again.decidedAt).to.deep.equal(decision?.decidedAt);
    }
  });

  /** Ends what the first request relied on; gives the path of the refusal. */
  interface Ending {
    readonly request: object;
    readonly key?: string;
    readonly end: () => Promise<unknown>;
    readonly path: DecisionPath;
  }

  const ENDINGS: Readonly<Record<string, (agentId: string) => Promise<Ending>>> = {
    "the agent is revoked": async (agentId) => ({
      request: {},
      end: () => workspace.revoke(agentId),
      path: DecisionPath.REVOKED,
    }),
    "the agent is deactivated": async (agentId) => ({
      request: {},
      end: () => workspace.agents.deactivateAgent({ agentId }),
      path: DecisionPath.REVOKED,
    }),
    "the session has ended": async (agentId) => {
      const { session } = await workspace.authority.createSession({ agentId });
      const sessionId = session?.sessionId ?? "";
      return {
        request: { sessionId },
        end: () => workspace.authority.endSession({ sessionId }),
        path: DecisionPath.SESSION,
      };
    },
    "the credential has ended": async (agentId) => {
      const { credential, secret } = await workspace.authority.createCredential({ agentId });
      const credentialId = credential?.credentialId ?? "";
      return {
        request: {},
        key: secret,
        end: () => workspace.authority.endCredential({ credentialId }),
        path: DecisionPath.CREDENTIAL,
      };
    },
    "the principal is revoked": async (agentId) => {
      const principal = await workspace.agent();
      const grant = { grantorAgentId: principal, granteeAgentId: agentId, actionTypes: ["*"] };
      await workspace.authority.createGrant(grant);
      return {
        request: { onBehalfOf: principal },
        end: () => workspace.revoke(principal),
        path: DecisionPath.REVOKED,
      };
    },
    "the API key ended with its agent": async (agentId) => {
      const { secret } = await workspace.admin.createApiKey({ name: "bound", role: Role.AGENT, agentId });
      return { request: {}, key: secret, end: () => workspace.revoke(agentId), path: DecisionPath.REVOKED };
    },
  };

  for (const [what, prepare] of Object.entries(ENDINGS)) {
    it(`is refused by one sealed block on every replica once ${what}.`, async () => {
      const agentId = await workspace.agent();
      const { request: more, key, end, path } = await prepare(agentId);
      const request = { agentId, actionType: "pay.once", requestId: randomUUID(), ...more };
      const first = await workspace.enforcement.intercept(request, key);
      expect(first.decision).to.equal(Decision.ALLOW);
      const trust = await trustOf(agentId);
      await end();
      const answers: InterceptResponse[] = [];
      for (const replica of [...workspace.replicas, ...workspace.replicas]) {
        answers.push(await replica.enforcement.intercept(request, key));
      }
      for (const answer of answers) {
        expect(answer).to.include({ decision: Decision.BLOCK, decisionPath: path });
        expect(answer.decisionId).to.equal(answers[0]?.decisionId).and.not.to.equal(first.decisionId);
      }
      expect(answers.map(({ replayed }) => replayed)).to.deep.equal([false, true, true, true]);
      const { receipt } = await workspace.enforcement.getDecision({ decisionId: answers[0]?.decisionId ?? "" });
      expect(receipt?.replayOf).to.equal(first.decisionId);
      expect(await trustOf(agentId)).to.equal(trust);
      const stored = decisionsOf(await readLog(workspace.url)).filter(({ action }) => action.agent_id === agentId);
      expect(stored.length).to.equal(2);
    });
  }

  it("under a limit that is reached gets its first decision, and counts once.", async () => {
    const agentId = await workspace.agent();
    const request = { agentId, actionType: "pay.once", requestId: randomUUID() };
    await workspace.intercept(request);
    for (const replica of workspace.replicas) {
      expect(await workspace.intercept(request, replica)).to.include({ decision: Decision.ALLOW, replayed: true });
    }
  });

  it("gets the first decision that used up its token or grant.", async () => {
    const agentId = await workspace.agent();
    const token = { agentId, audience: PUBLIC_URL, allowedActionTypes: ["*"], ttlSeconds: 60n, maxUses: 1n };
    const { token: key } = await workspace.authority.createFederationToken(token);
    const request = { agentId, actionType: "read", requestId: randomUUID() };
    expect((await workspace.enforcement.intercept(request, key)).decision).to.equal(Decision.ALLOW);
    const again = await workspace.enforcement.intercept(request, key);
    expect(again).to.include({ decision: Decision.ALLOW, replayed: true });
    const other = await workspace.enforcement.intercept({ ...request, requestId: randomUUID() }, key);
    expect(other).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.CREDENTIAL });

    const principal = await workspace.agent();
    const grant = { grantorAgentId: principal, granteeAgentId: agentId, actionTypes: ["*"], maxUses: 1n };
    await workspace.authority.createGrant(grant);
    const lent = { agentId, actionType: "read", onBehalfOf: principal, requestId: randomUUID() };
    expect((await workspace.intercept(lent)).decision).to.equal(Decision.ALLOW);
    expect(await workspace.intercept(lent)).to.include({ decision: Decision.ALLOW, replayed: true });
  });

  it("is refused after a revocation, also where a decision was planted under the refusal's id.", async () => {
    const victim = await workspace.agent();
    const other = await workspace.agent();
    for (const planter of [victim, other]) {
      const agentId = planter === victim ? victim : await workspace.agent();
      const request = { agentId, actionType: "read", requestId: randomUUID() };
      const first = await workspace.intercept(request);
      expect(first.decision).to.equal(Decision.ALLOW);
      const planted = await workspace.intercept({
        agentId: planter,
        actionType: "read",
        requestId: refusalUuidOf(first.decisionId),
      });
      await workspace.revoke(agentId);
      for (const replica of workspace.replicas) {
        const again = await workspace.intercept(request, replica);
        expect(again).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.REVOKED });
        expect(again.decisionId).not.to.be.oneOf([first.decisionId, planted.decisionId]);
      }
    }
  });

  it("by another key, or without the tool that it named, is another request.", async () => {
    const agentId = await workspace.agent();
    const { secret } = await workspace.authority.createCredential({ agentId });
    const request = { agentId, actionType: "read", tool: "read", requestId: randomUUID() };
    await workspace.intercept(request);
    for (const [changed, key] of [[request, secret] as const, [{ ...request, tool: undefined }, undefined] as const]) {
      expect(await reasonOf(workspace.enforcement.intercept(changed as never, key))).to.equal("REQUEST_ID_REUSED");
    }
  });

  it("after a day is refused, with the first decision in the details.", async () => {
    const agentId = await workspace.agent();
    const request = { agentId, actionType: "read", requestId: randomUUID() };
    const { decisionId } = await workspace.intercept(request);
    const fault = await workspace.clock.ahead(DAY_MS + 1_000, () =>
      workspace.intercept(request).catch((error: unknown) => error),
    );
    expect(fault).to.be.instanceOf(ControlPlaneError);
    const { metadata, reason } = fault as ControlPlaneError;
    expect(ErrorReason[reason]).to.equal("REQUEST_ID_EXPIRED");
    expect(metadata).to.include({ decision_id: decisionId, decision: "allow", decision_path: "default" });
    expect(metadata).to.have.property("decided_at");
  });
});

describe("a repeated request that names two tools since a tool was registered", () => {
  for (const [where, rules] of Object.entries({
    "decided at once": [],
    "rehearsed first": [
      { type: RuleType.SEMANTIC, decision: Decision.BLOCK, conditions: { prompt: "x", matchActionTypes: ["mail.*"] } },
    ],
  })) {
    it(`gets its first decision on every replica, and a new one is refused, ${where}.`, () =>
      withWorkspace({ replicas: 2 }, async (workspace) => {
        if (rules.length > 0) await workspace.mandate(rules);
        const [agentId, ended] = [await workspace.agent(), await workspace.agent()];
        const request = { agentId, actionType: "pay", tool: "read", actionContent: "1" };
        const requests = Array.from({ length: 5 }, () => ({ ...request, requestId: randomUUID() }));
        const firsts = await Promise.all(requests.map((each) => workspace.intercept(each)));
        const ofEnded = { ...request, agentId: ended, requestId: randomUUID() };
        await workspace.intercept(ofEnded);
        await workspace.tools.registerTool({ name: "pay", inputSchema: { type: "object" } });
        await workspace.revoke(ended);
        const entries = (await readLog(workspace.url)).entries.length;

        for (const replica of [...workspace.replicas, await workspace.replica()]) {
          const fresh = { ...request, requestId: randomUUID() };
          const [repeats, reused, ...refused] = await Promise.all([
            Promise.all(requests.map((each) => workspace.intercept(each, replica))),
            reasonOf(workspace.intercept({ ...(requests[0] as typeof fresh), actionContent: "2" }, replica)),
            reasonOf(workspace.intercept(fresh, replica)),
            reasonOf(workspace.intercept(fresh, replica)),
            reasonOf(workspace.intercept(request, replica)),
          ]);
          for (const [index, repeat] of repeats.entries()) {
            const { decisionId, decision } = firsts[index] as InterceptResponse;
            expect(repeat).to.include({ replayed: true, decisionId, decision });
          }
          expect(reused).to.equal("REQUEST_ID_REUSED");
          expect(refused).to.deep.equal(Array(3).fill("INVALID_FIELD"));
          const again = await workspace.intercept(ofEnded, replica);
          expect(again).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.REVOKED });
        }
        const log = await readLog(workspace.url);
        expect(log.entries.length - entries, "entries: the refusal of the repeat alone").to.equal(1);
        assertIntact(log);
      }));
  }
});

describe("a repeat that takes its time", () => {
  it("is refused if its session expires while the first decision is read.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      const { session } = await workspace.authority.createSession({ agentId, ttlSeconds: 60n });
      const clock = createTestClock();
      clock.observe(Date.now(), performance.now(), performance.now());
      const { pool } = workspace.database;
      const slow = new Proxy(pool, {
        get(_, name) {
          const value = Reflect.get(pool, name) as unknown;
          if (name !== "query") return typeof value === "function" ? value.bind(pool) : value;
          return async (...args: Parameters<typeof pool.query>) => {
            const result = (await pool.query(...args)) as unknown;
            // As if the database took two minutes.
            if ((args[0] as { name?: string }).name === readEntriesById.name) clock.advance(120_000);
            return result;
          };
        },
      });
      const state = await loadState(pool, "default");
      const log = new WorkspaceLog({ ...workspace.database, pool: slow }, state, clock);
      const action = {
        ...actionOf({ agentId, actionType: "read" }),
        sessionId: session?.sessionId,
        isRetryable: true,
        decisionId: idFromUuid("dec", randomUUID()),
      };
      expect((await decideOn(log, action)).decision).to.equal("allow");
      expect(await decideOn(log, action)).to.include({ decision: "block", path: "session", isReplayed: false });
    }));
});

/** Returns the `request_id` whose decision has the id that a refused repeat of a decision gets. */
function refusalUuidOf(decisionId: string): string {
  const digest = createHash("sha256").update(`refused replay of ${decisionId}`).digest("hex");
  return digest.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*/, "$1-$2-$3-$4-$5");
}

describe("an ended key", () => {
  let workspace: TestWorkspace;
  before(async () => {
    workspace = await openWorkspace({ replicas: 2 });
  });
  after(async () => {
    assertIntact(await readLog(workspace.url));
    await workspace.close();
  });

  const refusalsOf = async (agentId: string): Promise<number> =>
    decisionsOf(await readLog(workspace.url)).filter((body) => body.action.agent_id === agentId).length;

  it("costs its agent no trust, and uses up no limit of its department, here, elsewhere and after a restart.", async () => {
    const agentId = await workspace.agent();
    const colleague = await workspace.agent();
    const departmentId = await workspace.department(agentId, colleague);
    await workspace.mandate([velocityRule(3, { scope: Scope.DEPARTMENT, matchActionTypes: ["pay"], departmentId })]);
    const { credential, secret } = await workspace.authority.createCredential({ agentId });
    await workspace.authority.endCredential({ credentialId: credential?.credentialId ?? "" });
    for (let count = 0; count < 26; count++) {
      const reply = await workspace.enforcement.intercept({ agentId, actionType: "pay" }, secret);
      expect(reply).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.CREDENTIAL, replayed: false });
    }
    for (const replica of [...workspace.replicas, await workspace.replica()]) {
      expect((await replica.agents.getAgent({ agentId })).agent?.trustLevel).to.equal(50);
      expect((await replica.enforcement.intercept({ agentId: colleague, actionType: "pay" })).decision).to.equal(
        Decision.ALLOW,
      );
    }
    const { decisions } = await workspace.enforcement.listDecisions({ agentId, pageSize: 100 });
    expect(decisions.length).to.equal(26);
    const { receipt } = await workspace.enforcement.getDecision({ decisionId: decisions[0]?.decisionId ?? "" });
    expect(receipt?.keyEnded).to.equal(true);
    expect(receipt?.trust).to.include({ before: 50, after: 50 });
  });

  it("that calls more than 60 times a minute gets its last refusal again.", async () => {
    const agentId = await workspace.agent();
    const { credential, secret } = await workspace.authority.createCredential({ agentId });
    await workspace.authority.endCredential({ credentialId: credential?.credentialId ?? "" });
    const replies: InterceptResponse[] = [];
    for (let count = 0; count < 70; count++) {
      replies.push(await workspace.enforcement.intercept({ agentId, actionType: `pay.${count}` }, secret));
    }
    expect(await refusalsOf(agentId)).to.equal(60);
    const last = replies[59] as InterceptResponse;
    for (const reply of replies.slice(60)) {
      expect(reply).to.include({ decisionId: last.decisionId, decision: Decision.BLOCK, replayed: true });
    }
  });

  it("that is used up still gets its last use answered, however often it called in between.", async () => {
    const agentId = await workspace.agent();
    const token = { agentId, audience: PUBLIC_URL, allowedActionTypes: ["*"], ttlSeconds: 600n, maxUses: 1n };
    const { token: key } = await workspace.authority.createFederationToken(token);
    const request = { agentId, actionType: "read", requestId: randomUUID() };
    const first = await workspace.enforcement.intercept(request, key);
    for (let count = 0; count < 65; count++) {
      await workspace.enforcement.intercept({ agentId, actionType: "read", requestId: randomUUID() }, key);
    }
    expect(await refusalsOf(agentId)).to.equal(61);
    const again = await workspace.enforcement.intercept(request, key);
    expect(again).to.include({ decision: Decision.ALLOW, decisionId: first.decisionId, replayed: true });
  });

  it("is one of its agent: an agent that bears the name in an access token later is decided anew.", async () => {
    const former = await workspace.agent();
    const latter = await workspace.agent();
    const callerOf = (agentId: string) => ({ keyId: "oidc:bot", workspaceId: "default", role: Role.AGENT, agentId });
    await workspace.revoke(former);
    for (let call = 0; call < 61; call++) {
      await workspace.enforcement.intercept({ agentId: former, actionType: "read" }, callerOf(former) as never);
    }
    const reply = await workspace.enforcement.intercept(
      { agentId: latter, actionType: "read" },
      callerOf(latter) as never,
    );
    expect(reply).to.include({ decision: Decision.ALLOW, replayed: false });
  });

  it("is an API key bound to a revoked agent: named in the certificate, counted, and refused on record.", async () => {
    const agentId = await workspace.agent();
    const bound = await workspace.admin.createApiKey({ name: "bound", role: Role.AGENT, agentId });
    const gone = await workspace.admin.createApiKey({ name: "gone", role: Role.AGENT, agentId });
    await workspace.admin.revokeApiKey({ keyId: gone.key?.keyId ?? "" });
    const { credential } = await workspace.authority.createCredential({ agentId });
    const certificate = await workspace.revocations.revokeAgent({ agentId });
    const ids = [bound.key?.keyId, credential?.credentialId];
    expect(certificate.counts?.credentials).to.equal(2);
    for (const id of ids) expect(certificate.canonicalBody).to.include(id);
    expect(certificate.canonicalBody).not.to.include(gone.key?.keyId);
    for (const replica of workspace.replicas) {
      const reply = await replica.enforcement.intercept({ agentId, actionType: "pay" }, bound.secret);
      expect(reply).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.REVOKED });
      expect(await reasonOf(replica.agents.getAgent({ agentId }, bound.secret))).to.equal("KEY_INVALID");
      expect(await reasonOf(replica.enforcement.intercept({ agentId, actionType: "pay" }, gone.secret))).to.equal(
        "KEY_INVALID",
      );
    }
    const { keys } = await workspace.admin.listApiKeys({});
    const listed = keys.find(({ keyId }) => keyId === bound.key?.keyId);
    expect(listed?.revokedAt).not.to.equal(undefined);
  });
});
