import { expect } from "chai";
import { DAY_MS, DEFAULT_TIMING } from "../../src/webhook/retry-schedule.ts";
import { until } from "../support/harness.ts";
import { CALLER, createStoppedClock, type DeliveryTest, openDelivery } from "./harness.ts";
import { startReceiver } from "./receiver.ts";

describe("webhook retries", () => {
  let test: DeliveryTest;
  beforeEach(async () => {
    test = await openDelivery();
  });
  afterEach(() => test.close());
  const isInactive = async (webhookId: string) => !(await test.get(webhookId)).isActive;

  it("delivers everything in order to a receiver that was down for a while, each with one id at every attempt.", async () => {
    test.start();
    let isDown = true;
    test.receiver.answer = () => ({ status: isDown ? 503 : 200 });
    const { webhook } = await test.register(["decision.blocked"]);
    const seqs: number[] = [];
    for (let count = 0; count < 25; count++) seqs.push((await test.block()).seq);
    await test.receiver.waitFor(4);
    expect(new Set(test.receiver.seqs)).to.deep.equal(new Set(seqs.slice(0, 1)));
    expect((await test.get(webhook.webhookId)).failures).to.be.greaterThan(0);
    isDown = false;
    const failed = test.receiver.received.length;
    await until(() => test.receiver.seqs.includes(seqs.at(-1) ?? 0));
    expect([...new Set(test.receiver.seqs)]).to.deep.equal(seqs);
    const ids = test.receiver.received.map(({ headers }) => headers["webhook-id"]);
    expect(new Set(ids).size).to.equal(25);
    expect(new Set(ids.slice(0, failed)).size).to.equal(1);
    await until(async () => (await test.get(webhook.webhookId)).nextSeq > (seqs.at(-1) ?? 0));
    expect(await test.get(webhook.webhookId)).to.include({ failures: 0, nextAttemptAtMs: null });
  });

  it("lets a slow receiver delay nobody else.", async () => {
    test.start();
    const gate = Promise.withResolvers<object>();
    const slow = await startReceiver(() => gate.promise);
    await test.register(["decision.blocked"], slow.url);
    await test.register(["decision.blocked"]);
    for (let count = 0; count < 5; count++) await test.block();
    await test.receiver.waitFor(5);
    // Deliveries of two webhooks race: the slow receiver may get its first one after the other receiver got all five.
    await slow.waitFor(1);
    expect(slow.received).to.have.length(1);
    gate.resolve({});
    await slow.waitFor(5);
    expect(slow.seqs).to.deep.equal(test.receiver.seqs);
    await slow.close();
  });

  it("waits by the schedule, and deactivates a webhook whose receiver failed for 30 days.", async () => {
    const clock = createStoppedClock();
    const { scheduleMs, giveUpMs } = DEFAULT_TIMING;
    test.start({ clock, random: () => 0.5, timing: { tickMs: 25, leaseMs: 1_000, scheduleMs, giveUpMs } });
    test.receiver.answer = () => ({ status: 500 });
    const { webhook } = await test.register(["decision.blocked"]);
    const firstAt = clock.now();
    await test.block();
    const waits: number[] = [];
    for (let count = 1; ; count++) {
      await until(async () => (await test.get(webhook.webhookId)).failures === count);
      const { isActive, nextAttemptAtMs } = await test.get(webhook.webhookId);
      if (!isActive) break;
      waits.push((nextAttemptAtMs ?? 0) - clock.now());
      clock.move(waits.at(-1) ?? 0);
    }
    expect(waits.slice(0, scheduleMs.length)).to.deep.equal([...scheduleMs]);
    expect(new Set(waits.slice(scheduleMs.length))).to.deep.equal(new Set([DAY_MS]));
    expect(clock.now() - firstAt).to.be.within(30 * DAY_MS, 31 * DAY_MS);
    expect(test.receiver.received).to.have.length(waits.length + 1);
  });

  it("waits as long as `Retry-After` asks for.", async () => {
    const clock = createStoppedClock();
    test.start({ clock });
    test.receiver.answer = (_received, index) =>
      index === 0 ? { status: 429, headers: { "retry-after": "3600" } } : {};
    const { webhook } = await test.register(["decision.blocked"]);
    await test.block();
    await until(async () => (await test.get(webhook.webhookId)).failures === 1);
    expect((await test.get(webhook.webhookId)).nextAttemptAtMs).to.equal(clock.now() + 3_600_000);
    clock.move(3_600_000);
    await test.receiver.waitFor(2);
  });

  it("deactivates at once when the receiver is gone, and continues at the same event when it is active again.", async () => {
    test.start();
    test.receiver.answer = (_received, index) => ({ status: index === 0 ? 410 : 200 });
    const { webhook } = await test.register(["decision.blocked"]);
    const seqs = [(await test.block()).seq, (await test.block()).seq];
    await until(() => isInactive(webhook.webhookId));
    const witness = await test.witness();
    seqs.push(...(await witness()));
    expect(test.receiver.received).to.have.length(1);
    await test.webhooks.update(CALLER, webhook.webhookId, { isActive: true });
    await test.receiver.waitFor(1 + seqs.length);
    expect(test.receiver.seqs).to.deep.equal([seqs[0], ...seqs]);
  });

  it("takes a redirect for a failure.", async () => {
    test.start();
    test.receiver.answer = ({ path }, index) =>
      index === 0 ? { status: 302, headers: { location: "/other" } } : { body: path };
    const { webhook } = await test.register(["decision.blocked"]);
    await test.block();
    await test.receiver.waitFor(2);
    expect(test.receiver.received.map(({ path }) => path)).to.deep.equal(["/hook", "/hook"]);
    const [first] = (await test.attemptsOf(webhook.webhookId)).slice(-1);
    expect(first?.error).to.equal("the receiver redirected with status 302, and redirects are not followed");
  });

  it("delivers to a new URL at once, whatever the old one did.", async () => {
    test.start({ timing: { tickMs: 25, leaseMs: 1_000, scheduleMs: [DAY_MS] } });
    const broken = await startReceiver(() => ({ status: 500 }));
    const { webhook } = await test.register(["decision.blocked"], broken.url);
    const { seq } = await test.block();
    await until(async () => (await test.get(webhook.webhookId)).failures === 1);
    await test.webhooks.update(CALLER, webhook.webhookId, { url: test.receiver.url });
    await test.receiver.waitFor(1);
    expect(test.receiver.seqs).to.deep.equal([seq]);
    await broken.close();
  });

  it("checks the target at every attempt.", async () => {
    const addresses = ["127.0.0.1", "10.0.0.1"];
    const lookup = async () => [{ address: addresses.shift() ?? "127.0.0.1", family: 4 }];
    test.start({ lookup });
    const { webhook } = await test.register(["decision.blocked"], `http://receiver.example.com:${test.receiver.port}/`);
    await test.block();
    await test.receiver.waitFor(1);
    await until(async () => (await test.attemptsOf(webhook.webhookId)).length === 2);
    const [, first] = await test.attemptsOf(webhook.webhookId);
    expect(first).to.include({ delivered: false, statusCode: null });
    expect(first?.error).to.equal("`receiver.example.com` leads to an address that is not allowed for webhooks");
  });
});
