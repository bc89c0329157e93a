import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { DAY_MS, DEFAULT_TIMING } from "../../src/webhook/retry-schedule.ts";
import type { Webhooks } from "../../src/webhook/webhooks.ts";
import { CALLER, createFakeClock, createStage, EVERYTHING, type Stage, until } from "./harness.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const PAGE = { size: 500, after: undefined };

describe("webhook retries", () => {
  let stage: Stage;
  let receiver: Receiver;
  let webhooks: Webhooks;

  beforeEach(async () => {
    stage = await createStage();
    receiver = await startReceiver();
  });

  afterEach(async () => {
    await stage.close();
    await receiver.close();
  });

  function start(...options: Parameters<Stage["webhooks"]>): Webhooks {
    webhooks = stage.webhooks(...options);
    webhooks.start();
    return webhooks;
  }

  const create = (events: string[] = EVERYTHING, url = receiver.url) => webhooks.create(CALLER, { url, events });
  const get = (webhookId: string) => webhooks.get(CALLER, webhookId);
  const attemptsOf = async (webhookId: string) => (await webhooks.deliveries(CALLER, webhookId, PAGE)).items;
  const isInactive = async (webhookId: string) => !(await get(webhookId)).isActive;

  it("delivers everything in order to a receiver that was down for a while, each with one id at every attempt.", async () => {
    start();
    let isDown = true;
    receiver.answer = () => ({ status: isDown ? 503 : 200 });
    const { webhook } = await create(["decision.blocked"]);
    const seqs: number[] = [];
    for (let count = 0; count < 25; count++) seqs.push((await stage.block()).seq);
    await receiver.waitFor(4);
    expect(new Set(receiver.seqs)).to.deep.equal(new Set(seqs.slice(0, 1)));
    expect((await get(webhook.webhookId)).failures).to.be.greaterThan(0);
    isDown = false;
    const failed = receiver.received.length;
    await until(() => receiver.seqs.includes(seqs.at(-1) ?? 0));
    expect([...new Set(receiver.seqs)]).to.deep.equal(seqs);
    const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
    expect(new Set(ids).size).to.equal(25);
    expect(new Set(ids.slice(0, failed)).size).to.equal(1);
    await until(async () => (await get(webhook.webhookId)).nextSeq > (seqs.at(-1) ?? 0));
    expect(await get(webhook.webhookId)).to.include({ failures: 0, nextAttemptAtMs: null });
  });

  it("lets a slow receiver delay nobody else.", async () => {
    start();
    const gate = Promise.withResolvers<object>();
    const slow = await startReceiver(() => gate.promise);
    await create(["decision.blocked"], slow.url);
    await create(["decision.blocked"]);
    for (let count = 0; count < 5; count++) await stage.block();
    await receiver.waitFor(5);
    expect(slow.received).to.have.length(1);
    gate.resolve({});
    await slow.waitFor(5);
    expect(slow.seqs).to.deep.equal(receiver.seqs);
    await slow.close();
  });

  it("waits by the schedule, and deactivates a webhook whose receiver failed for 30 days.", async () => {
    const clock = createFakeClock();
    const { scheduleMs, giveUpMs } = DEFAULT_TIMING;
    start({ clock, random: () => 0.5, timing: { tickMs: 25, leaseMs: 1_000, scheduleMs, giveUpMs } });
    receiver.answer = () => ({ status: 500 });
    const { webhook } = await create(["decision.blocked"]);
    const firstAt = clock.now();
    await stage.block();
    const waits: number[] = [];
    for (let count = 1; ; count++) {
      await until(async () => (await get(webhook.webhookId)).failures === count);
      const { isActive, nextAttemptAtMs } = await get(webhook.webhookId);
      if (!isActive) break;
      waits.push((nextAttemptAtMs ?? 0) - clock.now());
      clock.move(waits.at(-1) ?? 0);
    }
    expect(waits.slice(0, scheduleMs.length)).to.deep.equal([...scheduleMs]);
    expect(new Set(waits.slice(scheduleMs.length))).to.deep.equal(new Set([DAY_MS]));
    expect(clock.now() - firstAt).to.be.within(30 * DAY_MS, 31 * DAY_MS);
    expect(receiver.received).to.have.length(waits.length + 1);
  });

  it("waits as long as `Retry-After` asks for.", async () => {
    const clock = createFakeClock();
    start({ clock });
    receiver.answer = (_received, index) => (index === 0 ? { status: 429, headers: { "retry-after": "3600" } } : {});
    const { webhook } = await create(["decision.blocked"]);
    await stage.block();
    await until(async () => (await get(webhook.webhookId)).failures === 1);
    expect((await get(webhook.webhookId)).nextAttemptAtMs).to.equal(clock.now() + 3_600_000);
    clock.move(3_600_000);
    await receiver.waitFor(2);
  });

  it("deactivates at once when the receiver is gone, and continues at the same event when it is active again.", async () => {
    start();
    receiver.answer = (_received, index) => ({ status: index === 0 ? 410 : 200 });
    const { webhook } = await create(["decision.blocked"]);
    const seqs = [(await stage.block()).seq, (await stage.block()).seq];
    await until(() => isInactive(webhook.webhookId));
    await delay(100);
    expect(receiver.received).to.have.length(1);
    await webhooks.update(CALLER, webhook.webhookId, { isActive: true });
    await receiver.waitFor(3);
    expect(receiver.seqs).to.deep.equal([seqs[0], ...seqs]);
  });

  it("takes a redirect for a failure.", async () => {
    start();
    receiver.answer = ({ path }, index) =>
      index === 0 ? { status: 302, headers: { location: "/other" } } : { body: path };
    const { webhook } = await create(["decision.blocked"]);
    await stage.block();
    await receiver.waitFor(2);
    expect(receiver.received.map(({ path }) => path)).to.deep.equal(["/hook", "/hook"]);
    const [first] = (await attemptsOf(webhook.webhookId)).slice(-1);
    expect(first?.error).to.equal("the receiver redirected with status 302, which is not followed");
  });

  it("delivers to a new URL at once, whatever the old one did.", async () => {
    start({ timing: { tickMs: 25, leaseMs: 1_000, scheduleMs: [DAY_MS] } });
    const broken = await startReceiver(() => ({ status: 500 }));
    const { webhook } = await create(["decision.blocked"], broken.url);
    const { seq } = await stage.block();
    await until(async () => (await get(webhook.webhookId)).failures === 1);
    await webhooks.update(CALLER, webhook.webhookId, { url: receiver.url });
    await receiver.waitFor(1);
    expect(receiver.seqs).to.deep.equal([seq]);
    await broken.close();
  });

  it("checks the target at every attempt.", async () => {
    const addresses = ["127.0.0.1", "10.0.0.1"];
    const lookup = async () => [{ address: addresses.shift() ?? "127.0.0.1", family: 4 }];
    start({ lookup });
    const { webhook } = await create(["decision.blocked"], `http://receiver.example.com:${receiver.port}/`);
    await stage.block();
    await receiver.waitFor(1);
    await until(async () => (await attemptsOf(webhook.webhookId)).length === 2);
    const [, first] = await attemptsOf(webhook.webhookId);
    expect(first).to.include({ delivered: false, statusCode: null });
    expect(first?.error).to.equal("`receiver.example.com` leads to an address that is not allowed for webhooks");
  });
});
