import { expect } from "chai";
import { CALLER, type DeliveryTest, EVERYTHING, openDelivery } from "./harness.ts";

describe("the backlog of a webhook", () => {
  let test: DeliveryTest;
  before(async () => {
    test = await openDelivery();
  });
  after(() => test?.close());

  const backlogOf = async (webhookId: string) => (await test.webhooks.backlogs(CALLER, [webhookId])).get(webhookId);

  it("counts each event that is delivered later, and nothing else.", async () => {
    const { webhook } = await test.register([...EVERYTHING, "definition.changed", "outcome.unknown"]);
    const { webhook: blocks } = await test.register(["decision.blocked"]);
    expect(await backlogOf(webhook.webhookId)).to.deep.equal({ count: 0, isPartial: false });
    await test.allow();
    await test.block();
    const asked = await test.escalate("order 1");
    await test.escalate("order 1");
    await test.reject(asked);
    await test.changeTool("t1");
    await test.agent("another");
    await test.forgetOutcome();
    expect(await backlogOf(webhook.webhookId)).to.deep.equal({ count: 5, isPartial: false });
    expect(await backlogOf(blocks.webhookId)).to.deep.equal({ count: 1, isPartial: false });
    const inactive = await test.webhooks.update(CALLER, blocks.webhookId, { isActive: false });
    expect(inactive.isActive).to.equal(false);
    await test.block();
    expect(await backlogOf(blocks.webhookId)).to.deep.equal({ count: 2, isPartial: false });
    test.start();
    await test.receiver.waitFor(6);
    for (;;) if ((await backlogOf(webhook.webhookId))?.count === 0) break;
    expect(test.receiver.received).to.have.length(6);
  });

  it("is exact up to 1,000, and says that there are more.", async () => {
    const { webhook } = await test.register(["decision.blocked"]);
    const { webhookId } = await test.webhooks.update(CALLER, webhook.webhookId, { isActive: false });
    for (let count = 0; count < 1_000; count += 100) await Promise.all(Array.from({ length: 100 }, test.block));
    expect(await backlogOf(webhookId)).to.deep.equal({ count: 1_000, isPartial: false });
    await test.block();
    expect(await backlogOf(webhookId)).to.deep.equal({ count: 1_000, isPartial: true });
  });
});
