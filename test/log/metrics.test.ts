import { expect } from "chai";
import { Registry } from "prom-client";
import { LogMetrics } from "../../src/log/metrics.ts";
import type { Decision } from "../../src/policy/types.ts";
import type { Outcome } from "../../src/state/types.ts";
import { openWorkspace } from "../support/harness.ts";

describe("the metrics of logs", () => {
  const outcomeOf = (id: string, decision: Decision): Outcome =>
    ({ policy: { fired: [{ mandate: { id }, decision }] } }) as unknown as Outcome;

  it("name 200 mandates, however many fire, and count the others together.", async () => {
    const registry = new Registry();
    const metrics = new LogMetrics(registry);
    for (let round = 0; round < 2; round++) {
      for (let index = 0; index < 10_000; index++) metrics.appended([outcomeOf(`mnd_${index}`, "block")]);
      metrics.appended([outcomeOf("mnd_9999", "escalate"), outcomeOf("mnd_0", "escalate")]);
    }
    const { values = [] } = (await registry.getSingleMetric("acp_mandate_firings_total")?.get()) ?? {};
    const found = new Map(values.map(({ labels, value }) => [`${labels.mandate} ${labels.decision}`, value]));
    expect(found.size).to.equal(200 + 1 + 2);
    expect([...found.entries()].filter(([, value]) => value !== 2)).to.deep.equal([["other block", 2 * 9_800]]);
  });

  it("count a batch that another process overtook, once.", async () => {
    const registry = new Registry();
    const surroundings = { metrics: new LogMetrics(registry) };
    const workspace = await openWorkspace({ hearsWakeUps: false });
    try {
      const overtaken = await workspace.replica({ surroundings });
      const agentId = await workspace.agent();
      const action = { agentId, actionType: "note.write" };
      await workspace.intercept(action, overtaken);
      await workspace.intercept(action);
      await workspace.intercept(action, overtaken);
      const page = await registry.metrics();
      expect(page).to.match(/^acp_append_conflicts_total 1$/m);
      expect(page).to.match(/^acp_batch_size_sum 2$/m);
    } finally {
      await workspace.close();
    }
  });
});
