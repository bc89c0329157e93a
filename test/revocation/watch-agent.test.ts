import { expect } from "chai";
import { type AgentChange, deactivateAgent, watchAgent } from "../../src/registry/agents.ts";
import { openWorkspace, type Replica, reasonOf, type TestWorkspace, withWorkspace } from "../support/harness.ts";
import { give, killSession, newAuthority } from "./authority.ts";

/** Far above what a stream may be behind when its reader is slow. */
const MANY = 12_000;

const kindsOf = (changes: readonly (AgentChange | undefined)[]) => changes.map((change) => change?.kind ?? "heartbeat");

async function allOf(changes: AsyncIterable<AgentChange | undefined>): Promise<(AgentChange | undefined)[]> {
  const all: (AgentChange | undefined)[] = [];
  for await (const change of changes) all.push(change);
  return all;
}

describe("watching an agent", () => {
  let workspace: TestWorkspace;

  before("creates a workspace", async () => {
    workspace = await openWorkspace();
  });
  after("closes the workspace", () => workspace?.close());

  /** Begins to watch, and gives the changes to come once the first one, the status, is there. */
  const watch = async (agentId: string, log = workspace.log, heartbeatMs = 60_000) => {
    const stopping = new AbortController();
    const changes = watchAgent(log, agentId, { heartbeatMs, signal: stopping.signal });
    const { value: first } = await changes.next();
    return { first, rest: allOf(changes), stop: () => stopping.abort() };
  };

  it("tells the status, the sessions that are killed and the deactivation, of this agent alone.", async () => {
    const [agentId = "", other = ""] = await workspace.newAgents(2);
    const [one, two] = [newAuthority("session", agentId), newAuthority("session", other)];
    await give(workspace.log, [one, two]);
    const { first, rest, stop } = await watch(agentId);
    expect(first?.kind).to.equal("active");
    await killSession(workspace.log, agentId, one.id);
    await killSession(workspace.log, other, two.id);
    await deactivateAgent(workspace.log, "key_test", other);
    await deactivateAgent(workspace.log, "key_test", agentId);
    stop();
    const changes = await rest;
    expect(kindsOf(changes)).to.deep.equal(["killed", "deactivated"]);
    expect(changes[0]?.sessionId).to.equal(one.id);
  });

  it("tells of the revocation first, then of every session that it killed, and ends.", async () => {
    const [agentId = ""] = await workspace.newAgents(1);
    const sessions = Array.from({ length: MANY }, () => newAuthority("session", agentId));
    await give(workspace.log, sessions);
    const replica = await workspace.replica();
    const watches = [await watch(agentId), await watch(agentId, replica.log)];
    const { revocationId } = await workspace.revocations.revokeAgent({ agentId });
    await replica.log.caughtUp();
    for (const { rest } of watches) {
      const [revoked, ...killed] = await rest;
      expect(revoked).to.include({ kind: "revoked", revocationId });
      expect(killed.map((change) => change?.sessionId)).to.deep.equal(sessions.map(({ id }) => id).sort());
    }
  });

  it("tells the status of an agent that is out of service already, and ends when that is final.", async () => {
    const [agentId = ""] = await workspace.newAgents(1);
    await deactivateAgent(workspace.log, "key_test", agentId);
    const waiting = await watch(agentId);
    expect(waiting.first?.kind).to.equal("deactivated");
    await workspace.revocations.revokeAgent({ agentId });
    expect(kindsOf(await waiting.rest)).to.deep.equal(["revoked"]);
    const late = await watch(agentId);
    expect([late.first?.kind, await late.rest]).to.deep.equal(["revoked", []]);
  });

  it("shows the revocation that ended the watcher's own key, also on a replica that has not heard of it.", () =>
    withWorkspace({ replicas: 2, hearsWakeUps: false }, async ({ agent, revoke, replicas: [, second] }) => {
      const agentId = await agent();
      const log = (second as Replica).log;
      const { signal } = new AbortController();
      let endKey = (): void => undefined;
      const onKeyEnd = (listener: () => void): void => {
        endKey = listener;
      };
      const changes = watchAgent(log, agentId, { heartbeatMs: 60_000, signal, onKeyEnd });
      expect((await changes.next()).value?.kind).to.equal("active");
      const rest = allOf(changes);
      await revoke(agentId);
      endKey();
      expect(kindsOf(await rest)).to.deep.equal(["revoked"]);
    }));

  it("shows by heartbeats that it is alive.", async () => {
    const [agentId = ""] = await workspace.newAgents(1);
    const stopping = new AbortController();
    const seen: string[] = [];
    for await (const change of watchAgent(workspace.log, agentId, { heartbeatMs: 10, signal: stopping.signal })) {
      seen.push(change?.kind ?? "heartbeat");
      if (seen.length === 3) stopping.abort();
    }
    expect(seen).to.deep.equal(["active", "heartbeat", "heartbeat"]);
  });

  it("is refused for an unknown agent, and leaves no listener behind however it ends.", async () => {
    const { listeners } = workspace.log;
    const { signal } = new AbortController();
    const unknown = watchAgent(workspace.log, "agt_unknown", { heartbeatMs: 10, signal });
    expect(await reasonOf(unknown.next())).to.equal("AGENT_NOT_FOUND");
    const [agentId = ""] = await workspace.newAgents(1);
    const { rest, stop } = await watch(agentId);
    expect(workspace.log.listeners).to.equal(listeners + 1);
    stop();
    await rest;
    expect(workspace.log.listeners).to.equal(listeners);
  });
});
