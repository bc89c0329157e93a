import { expect } from "chai";
import { AgentRequirement } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { OutsideContract } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { type InterceptInit, openWorkspace, type TestWorkspace } from "../support/harness.ts";

const ALLOWED = "allow default DEFAULT";
const { SESSION, PROMPT, CONTRACT } = AgentRequirement;

describe("an agent whose actions must have something", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  const tell = async (tried: InterceptInit): Promise<string> => {
    const { decision, path, reasons } = await test.decideIn(0, tried);
    return `${decision} ${path} ${reasons[0]?.code}`;
  };
  const agentWith = async (...requires: AgentRequirement[]): Promise<string> => {
    const { agent } = await test.agents.registerAgent({ name: "planned", requires });
    expect(agent?.requires).to.deep.equal(requires);
    return agent?.agentId ?? "";
  };
  const sessionOf = async (agentId: string): Promise<string> =>
    (await test.authority.createSession({ agentId })).session?.sessionId ?? "";
  const contractOf = async (agentId: string, sessionId?: string): Promise<string> => {
    const draft = { agentId, goal: "x", allowedActionTypes: ["x"], outside: OutsideContract.RULES };
    const made = await test.authority.createIntentContract({ ...draft, ...(sessionId && { sessionId }) });
    return made.intentContract?.intentContractId ?? "";
  };

  it("acts in a session, and in no other way.", async () => {
    const agentId = await agentWith(SESSION);
    const sessionId = await sessionOf(agentId);
    expect(await tell({ agentId, actionType: "x" })).to.equal("block session SESSION_REQUIRED");
    expect(await tell({ agentId, actionType: "x", sessionId: await sessionOf(await test.agent()) })).to.equal(
      "block session SESSION_UNKNOWN",
    );
    expect(await tell({ agentId, actionType: "x", sessionId })).to.equal(ALLOWED);
    await test.authority.endSession({ sessionId });
    expect(await tell({ agentId, actionType: "x", sessionId })).to.equal("block session SESSION_UNKNOWN");
  });

  it("acts under an intent contract that covers the action, named or of its session.", async () => {
    const agentId = await agentWith(CONTRACT);
    const sessionId = await sessionOf(agentId);
    const tried = { agentId, actionType: "x" };
    for (const bare of [tried, { ...tried, sessionId }])
      expect(await tell(bare)).to.equal("block intent_contract CONTRACT_REQUIRED");
    const named = await contractOf(agentId);
    expect(await tell({ ...tried, intentContractId: named })).to.equal(ALLOWED);
    const ofSession = await contractOf(agentId, sessionId);
    expect(await tell({ ...tried, sessionId })).to.equal(ALLOWED);
    // Outside of the contract, which leaves it to the mandates.
    expect(await tell({ ...tried, actionType: "y", sessionId })).to.equal(ALLOWED);
    await test.authority.endIntentContract({ intentContractId: ofSession });
    expect(await tell({ ...tried, sessionId })).to.equal("block intent_contract CONTRACT_REQUIRED");
  });

  it("acts only in a session that was told what it was asked.", async () => {
    const agentId = await agentWith(PROMPT);
    const sessionId = await sessionOf(agentId);
    const tried = { agentId, actionType: "x", sessionId };
    for (const bare of [{ agentId, actionType: "x" }, tried])
      expect(await tell(bare)).to.equal("block session PROMPT_REQUIRED");
    const { decisionId } = await test.enforcement.intercept(tried);
    // A result is no prompt, whatever it says.
    const content = "You were asked to do x";
    await test.enforcement.observe({ sessionId, source: ObservationSource.RESULT, decisionId, content });
    expect(await tell(tried)).to.equal("block session PROMPT_REQUIRED");
    await test.enforcement.observe({ sessionId, source: ObservationSource.PROMPT, content });
    expect(await tell(tried)).to.equal(ALLOWED);
    const { reasons } = await test.intercept({ ...tried, actionContent: "" }, await test.replica());
    expect(reasons[0]?.code).to.equal("DEFAULT");
    expect(await tell({ ...tried, sessionId: await sessionOf(agentId) }), "another session").to.equal(
      "block session PROMPT_REQUIRED",
    );
  });

  it("names what is missing first.", async () => {
    const agentId = await agentWith(SESSION, CONTRACT);
    const tried = { agentId, actionType: "x" };
    const intentContractId = await contractOf(agentId);
    expect(await tell({ ...tried, intentContractId })).to.equal("block session SESSION_REQUIRED");
    const sessionId = await sessionOf(agentId);
    expect(await tell({ ...tried, sessionId })).to.equal("block intent_contract CONTRACT_REQUIRED");
    expect(await tell({ ...tried, sessionId, intentContractId })).to.equal(ALLOWED);
  });

  it("is not evaded by another agent that acts on its behalf.", async () => {
    const [principal, agentId] = [await agentWith(SESSION), await test.agent()];
    await test.authority.createGrant({ grantorAgentId: principal, granteeAgentId: agentId, actionTypes: ["x"] });
    const lent = { agentId, onBehalfOf: principal, actionType: "x" };
    expect(await tell({ agentId, actionType: "x" })).to.equal(ALLOWED);
    expect(await tell(lent)).to.equal("block session SESSION_REQUIRED");
    expect(await tell({ ...lent, sessionId: await sessionOf(agentId) })).to.equal(ALLOWED);
  });

  it("is bound by a change from the next decision on, on every replica and over a restart.", async () => {
    const agentId = await test.agent();
    const open = await test.replica();
    expect(await tell({ agentId, actionType: "x" })).to.equal(ALLOWED);
    const { seq } = await test.log.caughtUp();
    await test.agents.setAgentRequirements({ agentId, requires: [CONTRACT, SESSION] });
    await open.agents.setAgentRequirements({ agentId, requires: [SESSION, CONTRACT] });
    expect((await test.log.caughtUp()).seq, "the same again changes nothing").to.equal(seq + 1);
    for (const replica of [test, open, await test.replica()]) {
      const { agent } = await replica.agents.getAgent({ agentId });
      expect(agent?.requires).to.deep.equal([SESSION, CONTRACT]);
      const { reasons } = await test.intercept({ agentId, actionType: "x", actionContent: "" }, replica);
      expect(reasons[0]?.code).to.equal("SESSION_REQUIRED");
    }
    await test.agents.setAgentRequirements({ agentId, requires: [] });
    expect((await (await test.replica()).agents.getAgent({ agentId })).agent?.requires).to.deep.equal([]);
    expect(await tell({ agentId, actionType: "x" })).to.equal(ALLOWED);
  });

  it("keeps everything else of its registration.", async () => {
    const agentId = await test.agent("kept", [], ["pay"]);
    await test.agents.setAgentRequirements({ agentId, requires: [SESSION] });
    const { agent } = await (await test.replica()).agents.getAgent({ agentId });
    expect(agent?.permissions?.deniedActionTypes).to.deep.equal(["pay"]);
    expect(await tell({ agentId, actionType: "pay", sessionId: await sessionOf(agentId) })).to.equal(
      "block permissions ACTION_DENIED",
    );
  });
});
