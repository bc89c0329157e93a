import { expect } from "chai";
import fc from "fast-check";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { SealedAuthority } from "../../src/state/control-changes.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { give, newAuthority, newGrant, oneOfEach } from "./authority.ts";
import { rowsOnlyIn, tablesOf } from "./tables.ts";

const AGENTS = 4;
const KINDS = [
  "sessions",
  "credentials",
  "grantsGiven",
  "grantsReceived",
  "temporalWindows",
  "intentContracts",
  "federationTokens",
  "mcpToolPolicies",
] as const;

type Listed = { readonly [K in (typeof KINDS)[number]]: readonly { readonly id: string }[] };

const idsByKind = (listed: Listed | undefined) => KINDS.map((kind) => listed?.[kind].map(({ id }) => id));

/** Draws a forest of grants among the agents: each its lender, its borrower, and the earlier grant that it may hang from. */
const forest = fc.array(
  fc.record({
    from: fc.nat(AGENTS - 1),
    to: fc.nat(AGENTS - 1),
    parent: fc.option(fc.nat(30), { nil: undefined }),
    expiresInMs: fc.constantFrom(null, null, -1, 3_600_000),
  }),
  { maxLength: 30 },
);

function growForest(
  agents: readonly string[],
  drawn: typeof forest extends fc.Arbitrary<infer T> ? T : never,
  nowMs: number,
) {
  const grants: SealedAuthority[] = [];
  for (const { from, to, parent, expiresInMs } of drawn) {
    const above = parent === undefined ? undefined : grants[parent % Math.max(1, grants.length)];
    const lender = above?.agent_id ?? (agents[from] as string);
    const grant = newGrant(lender, agents[to] as string, above);
    grants.push({ ...grant, expires_at_ms: expiresInMs === null ? null : nowMs + expiresInMs });
  }
  return grants;
}

describe("previewing a revocation", () => {
  let workspace: TestWorkspace;

  before("creates a workspace", async () => {
    workspace = await openWorkspace();
  });
  after("closes the workspace", () => workspace?.close());

  it("lists for any authority and any keys exactly what the certificate lists afterwards.", async () => {
    await fc.assert(
      fc.asyncProperty(forest, fc.subarray([0, 1, 2, 3]), fc.nat(2), async (drawn, equipped, keys) => {
        const agents = await workspace.newAgents(AGENTS);
        const [agentId = "", other = ""] = agents;
        const { lastAtMs } = await workspace.log.caughtUp();
        const own = equipped.flatMap((index) => oneOfEach(agents[index] as string, other));
        await give(workspace.log, [...growForest(agents, drawn, lastAtMs), ...own]);
        for (let count = 0; count < keys; count++) {
          const ttlSeconds = count === 1 ? { ttlSeconds: 3600n } : {};
          await workspace.admin.createApiKey({ name: `key ${count}`, role: Role.AGENT, agentId, ...ttlSeconds });
        }
        const preview = await workspace.revocations.previewRevocation({ agentId });
        const certificate = await workspace.revocations.revokeAgent({ agentId });
        expect(idsByKind(preview.revoked)).to.deep.equal(idsByKind(certificate.revoked));
        expect(preview.counts).to.deep.equal(certificate.counts);
        expect(preview.apiKeyCount).to.equal(keys);
        const again = await workspace.revocations.previewRevocation({ agentId });
        expect(again.revocationId).to.equal(certificate.revocationId);
        expect(idsByKind(again.revoked).flat()).to.deep.equal([]);
      }),
      { numRuns: 40 },
    );
  });

  it("changes nothing.", async () => {
    const [agentId = "", other = ""] = await workspace.newAgents(2);
    await give(workspace.log, oneOfEach(agentId, other));
    const before = await tablesOf(workspace.url);
    await workspace.revocations.previewRevocation({ agentId });
    const after = await tablesOf(workspace.url);
    expect([rowsOnlyIn(before, after), rowsOnlyIn(after, before)]).to.deep.equal([{}, {}]);
  });

  it("names what would end, and says between which agents a grant is.", async () => {
    const [agentId = "", other = ""] = await workspace.newAgents(2);
    const session = newAuthority("session", agentId, { text: "😀".repeat(200), expires_at_ms: Date.now() + 60_000 });
    const policy = newAuthority("mcp_tool_policy", agentId, { server: "files", tool: "rm*", decision: "block" });
    await give(workspace.log, [session, policy, newGrant(agentId, other)]);
    const { revoked } = await workspace.revocations.previewRevocation({ agentId });
    expect(revoked?.sessions[0]?.name).to.equal("😀".repeat(100));
    expect(Number(revoked?.sessions[0]?.expiresAt?.seconds)).to.equal(Math.floor((session.expires_at_ms ?? 0) / 1000));
    expect(revoked?.mcpToolPolicies[0]?.name).to.equal("files rm*");
    expect(revoked?.grantsGiven[0]).to.include({ name: "agent 1", grantorAgentId: agentId, granteeAgentId: other });
  });

  it("lists the escalations that would be rejected, and no other agent's.", async () => {
    const [agentId = "", other = ""] = await workspace.newAgents(2);
    await give(workspace.log, [
      newAuthority("mcp_tool_policy", null, { server: "*", tool: "ask", decision: "escalate" }),
    ]);
    const ask = (who: string) => workspace.intercept({ agentId: who, actionType: "Use.It", tool: "ask" });
    const mine = await ask(agentId);
    await ask(other);
    const { escalations, escalationCount } = await workspace.revocations.previewRevocation({ agentId });
    expect(escalations.map(({ id, name }) => [id, name])).to.deep.equal([[mine.escalationId, "use.it"]]);
    expect(escalationCount).to.equal(1);
  });

  it("lists 500 of a kind and counts all.", async () => {
    const [agentId = ""] = await workspace.newAgents(1);
    const sessions = Array.from({ length: 700 }, () => newAuthority("session", agentId, { text: "x".repeat(2_000) }));
    await give(workspace.log, sessions);
    const { revoked, counts } = await workspace.revocations.previewRevocation({ agentId });
    expect(counts?.sessions).to.equal(700);
    const first = sessions
      .map(({ id }) => id)
      .sort()
      .slice(0, 500);
    expect(revoked?.sessions.map(({ id }) => id)).to.deep.equal(first);
  });
});
