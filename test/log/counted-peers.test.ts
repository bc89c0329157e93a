import { expect } from "chai";
import { Registry } from "prom-client";
import { countedPeers } from "../../src/log/counted-peers.ts";
import type { DecisionPeers } from "../../src/log/peers.ts";
import type { Action, SealedDecision } from "../../src/state/types.ts";
import { actionOf } from "../support/harness.ts";

describe("counted hand-overs", () => {
  const action: Action = actionOf({ agentId: "agt_1", actionType: "pay" });
  let metrics: Registry;
  let answer: ReturnType<DecisionPeers["decide"]>;
  let peers: DecisionPeers;

  beforeEach(() => {
    metrics = new Registry();
    peers = countedPeers({ decide: () => answer, tell: () => undefined }, metrics);
  });

  async function counts(): Promise<Record<string, number>> {
    const [metric] = await metrics.getMetricsAsJSON();
    return Object.fromEntries((metric?.values ?? []).map(({ labels, value }) => [String(labels.outcome), value]));
  }

  it("are none as long as this process decides.", async () => {
    answer = undefined;
    expect(peers.decide("workspace", action)).to.equal(undefined);
    expect(await counts()).to.deep.equal({ answered: 0, lost: 0 });
  });

  it("tell what was decided or refused from what was lost, and change no answer.", async () => {
    const sealed = { decisionId: action.decisionId } as SealedDecision;
    answer = Promise.resolve(sealed);
    expect(await peers.decide("workspace", action)).to.equal(sealed);
    answer = Promise.reject(new Error("no such agent"));
    const refusal = await peers.decide("workspace", action)?.catch((error: Error) => error.message);
    expect(refusal).to.equal("no such agent");
    answer = Promise.resolve(undefined);
    expect(await peers.decide("workspace", action)).to.equal(undefined);
    expect(await counts()).to.deep.equal({ answered: 2, lost: 1 });
  });
});
