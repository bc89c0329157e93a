import { expect } from "chai";
import { type AgentState, createAgentState } from "../../src/state/agents.ts";

function agentWith(lists: { capabilities?: string[]; allowed?: string[]; denied?: string[] }): AgentState {
  const { capabilities = [], allowed = [], denied = [] } = lists;
  const texts = { agent_id: "agt_1", name: "agent", framework: "custom", description: "" };
  const types = { capabilities, allowed_action_types: allowed, denied_action_types: denied };
  return createAgentState({ ...texts, ...types, trust_tenths: 500 }, 7, 1_000);
}

describe("an agent's state", () => {
  it("is restricted by an allow-list and by capabilities, together.", () => {
    const { admitted } = agentWith({ capabilities: ["docs.*"], allowed: ["mail.send"] });
    expect(["docs.read", "mail.send", "mail.read"].map((type) => admitted?.matches(type))).to.deep.equal([
      true,
      true,
      false,
    ]);
    expect(agentWith({}).admitted).to.equal(null);
  });

  it("shares its lists with those of every agent that was registered with the same ones.", () => {
    const lists = { capabilities: ["docs.*"], allowed: ["mail.send"], denied: ["pay.*"] };
    const [one, other] = [agentWith(structuredClone(lists)), agentWith(structuredClone(lists))];
    expect(one.denied).to.equal(other.denied);
    expect(one.admitted).to.equal(other.admitted);
    expect(one.registration.denied_action_types).to.equal(other.registration.denied_action_types);
    expect(one.registration).to.deep.equal(other.registration);
  });

  it("keeps lists apart that differ, however many there are.", () => {
    const many = Array.from({ length: 20_001 }, (_, index) => agentWith({ denied: [`pay.${index}`] }));
    for (const [index, { denied }] of many.entries()) {
      expect(denied.matches(`pay.${index}`)).to.equal(true);
      expect(denied.matches(`pay.${index + 1}`)).to.equal(false);
    }
    expect(agentWith({ denied: ["a", "b"] }).denied.matches("a,b")).to.equal(false);
  });
});
