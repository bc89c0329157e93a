import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { EscalationStatus, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type InterceptInit, openWorkspace, type TestWorkspace } from "../support/harness.ts";

const ALLOWED = "allow default DEFAULT";

describe("deciding under authority", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  const tell = async (tried: InterceptInit, ms = 0, keyId?: string): Promise<string> => {
    const { decision, path, reasons } = await test.decideIn(ms, tried, keyId);
    return `${decision} ${path} ${reasons[0]?.code}`;
  };
  /** The authority that a sealed decision names. */
  async function sealedAuthority(tried: InterceptInit): Promise<string[] | undefined> {
    const { decisionId } = await test.enforcement.intercept(tried);
    const { receipt } = await test.enforcement.getDecision({ decisionId });
    return JSON.parse(receipt?.canonicalBody ?? "").authority;
  }

  describe("a session", () => {
    const begin = async (agentId: string): Promise<string> =>
      (await test.authority.createSession({ agentId, ttlSeconds: 60n })).session?.sessionId ?? "";

    it("lets its agent act until it expires or ends.", async () => {
      const agentId = await test.agent("a");
      const sessionId = await begin(agentId);
      const tried = { agentId, actionType: "x", sessionId };
      expect(await tell(tried, 59_000)).to.equal(ALLOWED);
      expect(await tell(tried, 61_000)).to.equal("block session SESSION_EXPIRED");
      await test.authority.endSession({ sessionId });
      expect(await tell(tried)).to.equal("block session SESSION_UNKNOWN");
    });

    it("is refused when it is another agent's, never was, or is no session.", async () => {
      const [agentId, other] = [await test.agent("a"), await test.agent("b")];
      const { credential } = await test.authority.createCredential({ agentId });
      for (const sessionId of [await begin(other), "ses_none", credential?.credentialId ?? ""]) {
        expect(await tell({ agentId, actionType: "x", sessionId })).to.equal("block session SESSION_UNKNOWN");
      }
    });

    it("of a revoked agent is refused as revoked.", async () => {
      const agentId = await test.agent("a");
      const sessionId = await begin(agentId);
      await test.revoke(agentId);
      expect(await tell({ agentId, actionType: "x", sessionId })).to.equal("block revoked AGENT_REVOKED");
    });
  });

  describe("a credential", () => {
    it("lets its agent act until it expires or ends, and no other.", async () => {
      const [agentId, other] = [await test.agent("a"), await test.agent("b")];
      const { credential } = await test.authority.createCredential({ agentId, ttlSeconds: 60n });
      const credentialId = credential?.credentialId ?? "";
      const tried = { agentId, actionType: "x" };
      expect(await tell(tried, 59_000, credentialId)).to.equal(ALLOWED);
      expect(await tell(tried, 61_000, credentialId)).to.equal("block credential CREDENTIAL_EXPIRED");
      expect(await tell({ ...tried, agentId: other }, 0, credentialId)).to.equal("block credential CREDENTIAL_ENDED");
      await test.authority.endCredential({ credentialId });
      expect(await tell(tried, 0, credentialId)).to.equal("block credential CREDENTIAL_ENDED");
    });
  });

  describe("a temporal window", () => {
    const open = async (agentId: string, over: object = {}): Promise<string> => {
      const init = { agentId, actionTypes: ["pay.*", "mail.send"], durationSeconds: 60n, ...over };
      return (await test.authority.createTemporalWindow(init)).temporalWindow?.temporalWindowId ?? "";
    };
    const REFUSED = "block permissions ACTION_NOT_ALLOWED";

    it("admits what the agent's lists do not, while it is open.", async () => {
      const agentId = await test.agent("a", ["mail.*"]);
      const startsAt = timestampFromMs(test.logs.clock.now() + 30_000);
      await open(agentId, { startsAt });
      const tried = { agentId, actionType: "pay.bill" };
      expect(await tell(tried)).to.equal(REFUSED);
      expect(await tell(tried, 31_000)).to.equal(ALLOWED);
      expect(await tell({ agentId, actionType: "sms" }, 31_000)).to.equal(REFUSED);
      expect(await tell(tried, 91_000)).to.equal(REFUSED);
    });

    it("never beats a denied action type.", async () => {
      const agentId = await test.agent("a", ["mail.*"], ["pay.salary"]);
      await open(agentId);
      expect(await tell({ agentId, actionType: "pay.bill" })).to.equal(ALLOWED);
      expect(await tell({ agentId, actionType: "pay.salary" })).to.equal("block permissions ACTION_DENIED");
    });

    it("is another agent's to no avail, and nobody's once ended.", async () => {
      const [agentId, other] = [await test.agent("a", ["mail.*"]), await test.agent("b", ["mail.*"])];
      const temporalWindowId = await open(agentId);
      expect(await tell({ agentId: other, actionType: "pay.bill" })).to.equal(REFUSED);
      await test.authority.endTemporalWindow({ temporalWindowId });
      expect(await tell({ agentId, actionType: "pay.bill" })).to.equal(REFUSED);
    });

    it("counts its uses only when it was needed, and is used up by them.", async () => {
      const agentId = await test.agent("a", ["mail.*"]);
      const temporalWindowId = await open(agentId, { maxUses: 2n });
      expect(await sealedAuthority({ agentId, actionType: "mail.send" })).to.equal(undefined);
      expect(await sealedAuthority({ agentId, actionType: "pay.bill" })).to.deep.equal([temporalWindowId]);
      const shown = (await test.authority.getTemporalWindow({ temporalWindowId })).temporalWindow;
      expect(shown).to.include({ uses: 1n, maxUses: 2n });
      await sealedAuthority({ agentId, actionType: "pay.bill" });
      expect(await tell({ agentId, actionType: "pay.bill" })).to.equal(REFUSED);
      expect(await tell({ agentId, actionType: "mail.send" })).to.equal(ALLOWED);
    });

    it("counts no use for what a mandate then refuses.", async () => {
      const agentId = await test.agent("a", ["mail.*"]);
      const temporalWindowId = await open(agentId, { maxUses: 1n });
      const conditions = { matchActionTypes: ["pay.dear"] };
      const rules = [{ type: RuleType.ACTION, decision: Decision.BLOCK, conditions }];
      await test.mandates.createMandate({ name: agentId, scope: Scope.AGENT, agentId, rules });
      await test.enforcement.intercept({ agentId, actionType: "pay.dear" });
      const { temporalWindow } = await test.authority.getTemporalWindow({ temporalWindowId });
      expect(temporalWindow?.uses).to.equal(0n);
    });

    it("that closes first is used first.", async () => {
      const agentId = await test.agent("a", ["mail.*"]);
      await open(agentId, { durationSeconds: 600n });
      const first = await open(agentId, { durationSeconds: 60n });
      expect(await sealedAuthority({ agentId, actionType: "pay.bill" })).to.deep.equal([first]);
    });

    it("of a principal admits what is done on its behalf.", async () => {
      const [principal, agentId] = [await test.agent("p", ["mail.*"]), await test.agent("a")];
      const init = { grantorAgentId: principal, granteeAgentId: agentId, actionTypes: ["*"] };
      const { grant } = await test.authority.createGrant(init);
      const tried = { agentId, onBehalfOf: principal, actionType: "pay.bill" };
      expect(await tell(tried)).to.equal(REFUSED);
      const window = await open(principal);
      expect(await sealedAuthority(tried)).to.deep.equal([grant?.grantId, window]);
    });
  });

  describe("an intent contract", () => {
    const conclude = async (agentId: string, over: object = {}): Promise<string> => {
      const init = { agentId, goal: "send the report", allowedActionTypes: ["mail.*"], ...over };
      return (await test.authority.createIntentContract(init)).intentContract?.intentContractId ?? "";
    };
    const OUTSIDE = "block intent_contract OUTSIDE_CONTRACT";

    it("holds its agent to its action types.", async () => {
      const agentId = await test.agent("a");
      const intentContractId = await conclude(agentId);
      expect(await tell({ agentId, intentContractId, actionType: "MAIL.Send" })).to.equal(ALLOWED);
      expect(await tell({ agentId, intentContractId, actionType: "pay" })).to.equal(OUTSIDE);
      expect(await tell({ agentId, actionType: "pay" })).to.equal(ALLOWED);
      expect(await sealedAuthority({ agentId, intentContractId, actionType: "mail.send" })).to.deep.equal([
        intentContractId,
      ]);
    });

    it("holds its agent to its tools, named in whatever way.", async () => {
      const agentId = await test.agent("a");
      const intentContractId = await conclude(agentId, { allowedTools: ["mailer"] });
      const tried = { agentId, intentContractId, actionType: "mail.send" };
      expect(await tell({ ...tried, tool: "mailer" })).to.equal(ALLOWED);
      expect(await tell({ ...tried, metadata: { tool: "mailer" } })).to.equal(ALLOWED);
      expect(await tell({ ...tried, tool: "shell" })).to.equal(OUTSIDE);
      expect(await tell(tried)).to.equal(OUTSIDE);
    });

    it("ends with its actions, its time, or by hand.", async () => {
      const agentId = await test.agent("a");
      const intentContractId = await conclude(agentId, { maxActions: 2n, durationSeconds: 60n });
      const tried = { agentId, intentContractId, actionType: "mail.send" };
      expect(await tell(tried, 61_000)).to.equal("block intent_contract INTENT_CONTRACT_EXPIRED");
      await test.enforcement.intercept({ ...tried, actionType: "pay" });
      for (let count = 0; count < 2; count++) await test.enforcement.intercept(tried);
      expect(await tell(tried)).to.equal("block intent_contract INTENT_CONTRACT_EXPIRED");
      const { intentContract } = await test.authority.getIntentContract({ intentContractId });
      expect(intentContract?.actions).to.equal(2n);
      await test.authority.endIntentContract({ intentContractId });
      expect(await tell(tried)).to.equal("block intent_contract INTENT_CONTRACT_UNKNOWN");
    });

    it("is refused when it is another agent's, never was, or is no contract.", async () => {
      const [agentId, other] = [await test.agent("a"), await test.agent("b")];
      const session = (await test.authority.createSession({ agentId })).session?.sessionId ?? "";
      for (const intentContractId of [await conclude(other), "itc_none", session]) {
        const tried = { agentId, actionType: "mail.send", intentContractId };
        expect(await tell(tried)).to.equal("block intent_contract INTENT_CONTRACT_UNKNOWN");
      }
    });

    it("widens nothing.", async () => {
      const agentId = await test.agent("a", ["read"], ["mail.delete"]);
      const intentContractId = await conclude(agentId);
      const refused = "block permissions ACTION_NOT_ALLOWED";
      expect(await tell({ agentId, intentContractId, actionType: "mail.send" })).to.equal(refused);
      const denied = "block permissions ACTION_DENIED";
      expect(await tell({ agentId, intentContractId, actionType: "mail.delete" })).to.equal(denied);
    });
  });

  describe("an MCP tool policy", () => {
    const set = async (server: string, tool: string, decision: Decision, agentId?: string): Promise<string> => {
      const init = { server, tool, decision, ...(agentId === undefined ? {} : { agentId }) };
      return (await test.authority.createMcpToolPolicy(init)).mcpToolPolicy?.mcpToolPolicyId ?? "";
    };
    const call = (agentId: string, server: string, tool: string): InterceptInit => ({
      agentId,
      actionType: "tool.call",
      tool,
      metadata: { mcp_server: server, arguments: {} },
    });
    const POLICY = "mcp_tool_policy MCP_TOOL_POLICY";

    it("blocks, escalates or goes on, for its agent and its tools alone.", async () => {
      const [agentId, other] = [await test.agent("a"), await test.agent("b")];
      await set("files", "delete_*", Decision.BLOCK, agentId);
      await set("files", "move", Decision.ESCALATE, agentId);
      await set("files", "read", Decision.ALLOW, agentId);
      expect(await tell(call(agentId, "files", "delete_all"))).to.equal(`block ${POLICY}`);
      expect(await tell(call(agentId, "files", " Delete_one "))).to.equal(`block ${POLICY}`);
      expect(await tell(call(agentId, "files", "move"))).to.equal(`escalate ${POLICY}`);
      expect(await tell(call(agentId, "files", "read"))).to.equal(ALLOWED);
      expect(await tell(call(agentId, "disks", "delete_all"))).to.equal(ALLOWED);
      expect(await tell(call(other, "files", "delete_all"))).to.equal(ALLOWED);
      expect(await tell({ agentId, actionType: "delete_all" })).to.equal(ALLOWED);
    });

    it("reads the server from the tool's name when the metadata name none.", async () => {
      const agentId = await test.agent("a");
      await set("files", "delete", Decision.BLOCK, agentId);
      expect(await tell({ agentId, actionType: "x", tool: "files/delete" })).to.equal(`block ${POLICY}`);
      expect(await tell({ agentId, actionType: "x", tool: "disks/delete" })).to.equal(ALLOWED);
    });

    it("holds for any server by a star, and for every agent when it names none.", async () => {
      const [agentId, other] = [await test.agent("a"), await test.agent("b")];
      const every = await set("*", "wipe", Decision.BLOCK);
      for (const id of [agentId, other]) expect(await tell(call(id, "whatever", "wipe"))).to.equal(`block ${POLICY}`);
      expect(await tell({ agentId, actionType: "x", tool: "wipe" })).to.equal(`block ${POLICY}`);
      await test.authority.endMcpToolPolicy({ mcpToolPolicyId: every });
      expect(await tell(call(agentId, "whatever", "wipe"))).to.equal(ALLOWED);
    });

    it("yields to a stricter one, whoever it is for.", async () => {
      const agentId = await test.agent("a");
      await set("s", "t", Decision.ALLOW, agentId);
      const every = await set("s", "t", Decision.ESCALATE);
      expect(await tell(call(agentId, "s", "t"))).to.equal(`escalate ${POLICY}`);
      await set("s", "*", Decision.BLOCK, agentId);
      expect(await tell(call(agentId, "s", "t"))).to.equal(`block ${POLICY}`);
      await test.authority.endMcpToolPolicy({ mcpToolPolicyId: every });
    });

    it("that escalates is approved by a human, after which the mandates still decide.", async () => {
      const agentId = await test.agent("a");
      const policyId = await set("s", "t", Decision.ESCALATE, agentId);
      const approved = async (actionContent: string): Promise<InterceptInit> => {
        const tried = { ...call(agentId, "s", "t"), actionContent };
        const { escalationId = "" } = await test.enforcement.intercept(tried);
        const resolved = await test.escalations.resolveEscalation({ escalationId, resolution: Resolution.APPROVED });
        expect(resolved.escalation?.status).to.equal(EscalationStatus.APPROVED);
        return { ...tried, escalationId };
      };
      const [first, second] = [await approved("one"), await approved("two")];
      const passed = await test.enforcement.intercept(first);
      expect(passed).to.include({ decision: Decision.ALLOW, decisionPath: DecisionPath.APPROVED });
      expect(passed.reasons[1]?.message).to.include(policyId);
      expect((await test.enforcement.intercept(first)).decision).to.equal(Decision.ESCALATE);
      const conditions = { matchActionTypes: ["tool.call"] };
      const rules = [{ type: RuleType.ACTION, decision: Decision.BLOCK, conditions }];
      await test.mandates.createMandate({ name: agentId, scope: Scope.AGENT, agentId, rules });
      const refused = await test.enforcement.intercept(second);
      expect(refused).to.include({ decision: Decision.BLOCK, decisionPath: DecisionPath.POLICY });
    });
  });

  it("names everything that an action relied on.", async () => {
    const [principal, agentId] = [await test.agent("p", ["mail.*"]), await test.agent("a")];
    const types = { actionTypes: ["*"] };
    const lent = await test.authority.createGrant({ grantorAgentId: principal, granteeAgentId: agentId, ...types });
    const window = await test.authority.createTemporalWindow({ agentId: principal, ...types, durationSeconds: 60n });
    const contract = await test.authority.createIntentContract({ agentId, goal: "g", allowedActionTypes: ["*"] });
    const session = await test.authority.createSession({ agentId });
    const intentContractId = contract.intentContract?.intentContractId ?? "";
    const tried = { agentId, onBehalfOf: principal, actionType: "pay", intentContractId };
    const sessionId = session.session?.sessionId ?? "";
    expect(await sealedAuthority({ ...tried, sessionId })).to.deep.equal([
      lent.grant?.grantId,
      window.temporalWindow?.temporalWindowId,
      intentContractId,
    ]);
  });
});
