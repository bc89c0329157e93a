import { expect } from "chai";
import { IncidentKind } from "../../gen/agentcontrol/v1/incident_service_pb.js";
import { deactivateAgent } from "../../src/registry/agents.ts";
import type { SealedAuthority } from "../../src/state/control-changes.ts";
import { attempt, openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { give, idsOf, newAuthority, newGrant, oneOfEach } from "./authority.ts";
import { rowsOnlyIn, tablesOf } from "./tables.ts";

/** Grants on each level of the tree, the ones that the agent gave itself first: 1,000 in all. */
const LEVELS = [10, 40, 150, 300, 500];
const AGENTS_PER_LEVEL = 20;
const MANY = 10_000;

/** A tree of grants that hangs on one agent; every grant of a level is lent on to agents of the next. */
async function growTree(workspace: TestWorkspace, root: string): Promise<SealedAuthority[]> {
  let parents: (SealedAuthority | undefined)[] = [undefined];
  const tree: SealedAuthority[] = [];
  for (const count of LEVELS) {
    const agents = await workspace.newAgents(AGENTS_PER_LEVEL);
    const level = Array.from({ length: count }, (_, index) => {
      const parent = parents[index % parents.length];
      return newGrant(parent?.agent_id ?? root, agents[index % agents.length] as string, parent);
    });
    tree.push(...level);
    parents = level;
  }
  await give(workspace.log, tree);
  return tree;
}

const onBehalfOf = (workspace: TestWorkspace, agentId: string, principal: string) =>
  attempt(workspace.log, { agentId, actionType: "read", onBehalfOf: principal });

describe("revoking an agent", () => {
  let workspace: TestWorkspace;

  before("creates a workspace", async () => {
    workspace = await openWorkspace();
  });
  after("closes the workspace", () => workspace?.close());

  it("ends a tree of 1,000 grants, five deep, in one call, and changes nothing else in the workspace.", async () => {
    const [agentId = "", other = ""] = await workspace.newAgents(2);
    const tree = await growTree(workspace, agentId);
    const grantee = tree[0]?.agent_id as string;
    // Beside the tree: what its agents hold from others, and what another agent holds.
    const beside = [newGrant(other, grantee), ...oneOfEach(grantee, other), ...oneOfEach(other, grantee)];
    await give(workspace.log, beside);
    await workspace.log.saveTrust();
    const before = await tablesOf(workspace.url);
    const { revocationId, counts, revoked, ledgerSeq } = await workspace.revocations.revokeAgent({
      agentId,
      reason: "x",
    });
    const after = await tablesOf(workspace.url);

    expect(counts).to.include({ grantsGiven: 1_000, grantsReceived: 0, sessions: 0, credentials: 0 });
    expect(revoked?.grantsGiven.map(({ id }) => id)).to.deep.equal(idsOf(tree));
    const gone = rowsOnlyIn(before, after);
    expect(Object.keys(gone).sort()).to.deep.equal(["agent", "authority", "ledger_head"]);
    const come = rowsOnlyIn(after, before);
    const tables = ["agent", "authority", "incident", "ledger_entry", "ledger_head", "revocation"];
    expect(Object.keys(come).sort()).to.deep.equal(tables);
    for (const table of tables.filter((name) => name !== "authority")) expect(come[table], table).to.have.length(1);
    expect(come.agent?.[0]).to.include({ agent_id: agentId, status: 3 });
    expect(come.revocation?.[0]).to.include({ agent_id: agentId, revocation_id: revocationId, seq: Number(ledgerSeq) });

    const endedAtMs = come.agent?.[0]?.deactivated_at_ms;
    const byId = (rows: Record<string, unknown>[] = []) => new Map(rows.map((row) => [row.id as string, row]));
    const [opened, ended] = [byId(gone.authority), byId(come.authority)];
    expect([...ended.keys()].sort()).to.deep.equal(idsOf(tree));
    for (const [id, row] of ended) expect(row).to.deep.equal({ ...opened.get(id), ended_at_ms: endedAtMs });
  });

  it("counts each kind as the tables show it, and writes an incident.", async () => {
    const [agentId = "", other = ""] = await workspace.newAgents(2);
    const all = [...oneOfEach(agentId, other), ...oneOfEach(agentId, other), newGrant(agentId, other)];
    await give(workspace.log, all);
    const response = await workspace.revocations.revokeAgent({ agentId, reason: "stolen" });
    const { rows } = await workspace.database.pool.query<{ kind: string; count: number; given: number }>(
      `select kind, count(*)::int as count, (count(*) filter (where grantor_agent_id = $1))::int as given
        from authority where ended_at_ms = (select deactivated_at_ms from agent where agent_id = $1) group by kind`,
      [agentId],
    );
    const shown = new Map(rows.map(({ kind, count }) => [kind, count]));
    const { $typeName: _, ...counts } = response.counts ?? { $typeName: "" };
    expect(counts).to.deep.equal({
      sessions: shown.get("session"),
      credentials: shown.get("credential"),
      grantsGiven: 1,
      grantsReceived: (shown.get("grant") ?? 0) - 1,
      temporalWindows: shown.get("temporal_window"),
      intentContracts: shown.get("intent_contract"),
      federationTokens: shown.get("federation_token"),
      mcpToolPolicies: shown.get("mcp_tool_policy"),
    });
    expect(rows.find(({ kind }) => kind === "grant")).to.include({ count: 3, given: 1 });
    const { incidents } = await workspace.incidents.listIncidents({});
    const incident = incidents.find(({ revocationId }) => revocationId === response.revocationId);
    expect(incident).to.include({ kind: IncidentKind.AGENT_REVOKED, agentId, reason: "stolen" });
  });

  it("counts as given what the agent gave, as received what it received, and a child with its parent.", async () => {
    const [agentId = "", lender = "", a = "", b = ""] = await workspace.newAgents(4);
    const received = newGrant(lender, agentId);
    const lentOn = newGrant(agentId, a, received);
    const lentFurther = newGrant(a, b, lentOn);
    const given = newGrant(agentId, a);
    const givenOn = newGrant(a, b, given);
    // It comes back to the agent under a grant that the agent gave.
    const circular = newGrant(b, agentId, givenOn);
    const stays = newGrant(lender, a);
    await give(workspace.log, [received, lentOn, lentFurther, given, givenOn, circular, stays]);
    const { revoked, counts } = await workspace.revocations.revokeAgent({ agentId });
    const ids = (items: readonly { id: string }[] = []) => items.map(({ id }) => id);
    expect(ids(revoked?.grantsReceived)).to.deep.equal(idsOf([received, circular]));
    expect(ids(revoked?.grantsGiven)).to.deep.equal(idsOf([lentOn, lentFurther, given, givenOn]));
    expect(counts).to.include({ grantsReceived: 2, grantsGiven: 4 });
    expect((await onBehalfOf(workspace, a, lender)).decision).to.equal("allow");
  });

  it("passes over what has expired or ended before, on every replica alike.", async () => {
    const [agentId = ""] = await workspace.newAgents(1);
    const { lastAtMs } = await workspace.log.caughtUp();
    const expired = newAuthority("session", agentId, { expires_at_ms: lastAtMs - 1 });
    const open = newAuthority("session", agentId, { expires_at_ms: lastAtMs + 3_600_000 });
    await give(workspace.log, [expired, open]);
    const { revoked } = await workspace.revocations.revokeAgent({ agentId });
    expect(revoked?.sessions.map(({ id }) => id)).to.deep.equal([open.id]);
  });

  it("revokes 10,000 sessions and 10,000 grants.", async () => {
    const [agentId = "", other = ""] = await workspace.newAgents(2);
    const sessions = Array.from({ length: MANY }, () => newAuthority("session", agentId));
    const grants = Array.from({ length: MANY }, (_, index) =>
      index % 2 === 0 ? newGrant(agentId, other) : newGrant(other, agentId),
    );
    await give(workspace.log, [...sessions, ...grants]);
    const startedAt = performance.now();
    const { counts, revoked } = await workspace.revocations.revokeAgent({ agentId });
    console.log(`      ${Math.round(performance.now() - startedAt)} ms for 20,000 pieces of authority`);
    expect(counts).to.include({ sessions: MANY, grantsGiven: MANY / 2, grantsReceived: MANY / 2 });
    expect(revoked?.sessions.map(({ id }) => id)).to.deep.equal(idsOf(sessions));
    const { rows } = await workspace.database.pool.query<{ count: number }>(
      "select count(*)::int as count from authority where ended_at_ms is null and (agent_id = $1 or grantor_agent_id = $1)",
      [agentId],
    );
    expect(rows[0]?.count).to.equal(0);
    for (const { log } of [workspace, await workspace.replica()]) {
      const { authority } = await log.caughtUp();
      expect([...authority.heldBy(agentId, "session")]).to.have.length(0);
      expect([...authority.heldBy(agentId, "grant"), ...authority.givenBy(agentId)]).to.have.length(0);
    }
  });

  it("rejects what the agent waits for, in the same transaction, and no other agent's.", async () => {
    const [agentId = "", other = ""] = await workspace.newAgents(2);
    await give(workspace.log, [
      newAuthority("mcp_tool_policy", null, { server: "*", tool: "ask", decision: "escalate" }),
    ]);
    const ask = (who: string, actionContent: string) =>
      attempt(workspace.log, { agentId: who, actionType: "use", tool: "ask", actionContent });
    const [first, second, third] = [await ask(agentId, "one"), await ask(agentId, "two"), await ask(other, "one")];
    await workspace.revocations.revokeAgent({ agentId });
    const { rows } = await workspace.database.pool.query<{ id: string; status: number; note: string | null }>(
      "select escalation_id as id, status, note from escalation order by created_seq",
    );
    const note = "the agent was revoked";
    expect(rows).to.deep.equal([
      { id: first.escalationId, status: 3, note },
      { id: second.escalationId, status: 3, note },
      { id: third.escalationId, status: 1, note: null },
    ]);
  });

  it("refuses the agent and everyone on its behalf, with the path revoked, on every replica.", async () => {
    const [agentId = "", delegate = "", child = ""] = await workspace.newAgents(3);
    const grant = newGrant(agentId, delegate);
    await give(workspace.log, [grant, newGrant(delegate, child, grant)]);
    const replica = await workspace.replica();
    const tried = (log = workspace.log) =>
      Promise.all([
        attempt(log, { agentId, actionType: "read" }),
        attempt(log, { agentId: delegate, actionType: "read", onBehalfOf: agentId }),
        attempt(log, { agentId: child, actionType: "read", onBehalfOf: agentId }),
      ]);
    for (const log of [workspace.log, replica.log]) {
      expect((await tried(log)).map(({ decision }) => decision)).to.deep.equal(["allow", "allow", "allow"]);
    }
    await workspace.revocations.revokeAgent({ agentId });
    for (const log of [workspace.log, replica.log]) {
      for (const { decision, path } of await tried(log)) {
        expect([decision, path]).to.deep.equal(["block", "revoked"]);
      }
    }
    const { decision, path } = await onBehalfOf(workspace, child, delegate);
    expect([decision, path]).to.deep.equal(["block", "delegation"]);
  });

  it("works on an agent that was deactivated, which keeps the time of that.", async () => {
    const [agentId = ""] = await workspace.newAgents(1);
    const { deactivatedAtMs } = await deactivateAgent(workspace.log, "key_test", agentId);
    await give(workspace.log, [newAuthority("session", agentId)]);
    const { counts } = await workspace.revocations.revokeAgent({ agentId });
    expect(counts?.sessions).to.equal(1);
    const agent = (await workspace.log.caughtUp()).agents.get(agentId);
    expect(agent).to.include({ status: "revoked", deactivatedAtMs });
  });
});

describe("deactivating an agent", () => {
  let workspace: TestWorkspace;

  before("creates a workspace", async () => {
    workspace = await openWorkspace();
  });
  after("closes the workspace", () => workspace?.close());

  it("ends its registration alone: the authority that it lent stays, and there is no certificate.", async () => {
    const [agentId = "", delegate = ""] = await workspace.newAgents(2);
    await give(workspace.log, [...oneOfEach(agentId, delegate), newGrant(agentId, delegate)]);
    const before = await tablesOf(workspace.url);
    await deactivateAgent(workspace.log, "key_test", agentId);
    const changed = rowsOnlyIn(await tablesOf(workspace.url), before);
    expect(Object.keys(changed).sort()).to.deep.equal(["agent", "ledger_entry", "ledger_head"]);
    const own = await attempt(workspace.log, { agentId, actionType: "read" });
    expect([own.decision, own.path]).to.deep.equal(["block", "revoked"]);
    expect((await onBehalfOf(workspace, delegate, agentId)).decision).to.equal("allow");
    expect((await workspace.revocations.listRevocations({})).revocations).to.deep.equal([]);
  });
});
