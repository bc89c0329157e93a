import { expect } from "chai";
import { type AgentState, createAgentState, createPatternCache, type PatternCache } from "../../src/state/agents.ts";

interface Lists {
  readonly capabilities?: string[];
  readonly allowed?: string[];
  readonly denied?: string[];
}

function agentWith(lists: Lists, patterns: PatternCache = createPatternCache()): AgentState {
  const { capabilities = [], allowed = [], denied = [] } = lists;
  const texts = { agent_id: "agt_1", name: "agent", framework: "custom", description: "" };
  const types = { capabilities, allowed_action_types: allowed, denied_action_types: denied };
  const at = { createdSeq: 7, registeredAtMs: 1_000 };
  return createAgentState({ ...texts, ...types, trust_tenths: 500 }, at, patterns);
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

  it("keeps lists apart that differ, however many there are.", () => {
    const patterns = createPatternCache();
    const many = Array.from({ length: 20_001 }, (_, index) => agentWith({ denied: [`pay.${index}`] }, patterns));
    for (const [index, { denied }] of many.entries()) {
      expect(denied.matches(`pay.${index}`)).to.equal(true);
      expect(denied.matches(`pay.${index + 1}`)).to.equal(false);
    }
    expect(agentWith({ denied: ["a", "b"] }).denied.matches("a,b")).to.equal(false);
  });
});
