import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { DEFAULT_TIMING } from "../../src/webhook/retry-schedule.ts";
import { withClient } from "../support/database.ts";
import { until } from "../support/harness.ts";
import { CALLER, firstOf, openWebhookWorkspace, type WebhookWorkspace } from "./harness.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const EVENTS = ["decision.blocked"];

describe("webhook delivery by several processes", () => {
  let workspace: WebhookWorkspace;
  const children: ChildProcess[] = [];
  const receivers: Receiver[] = [];

  beforeEach(async () => {
    workspace = await openWebhookWorkspace();
  });

  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
    await workspace.close();
    for (const receiver of receivers.splice(0)) await receiver.close();
  });

  /** Starts a process that delivers. */
  async function startChild(): Promise<ChildProcess> {
    const script = join(import.meta.dirname, "delivery-child.ts");
    const child = spawn(process.execPath, [script, workspace.url], { stdio: ["pipe", "pipe", "inherit"] });
    children.push(child);
    if (child.stdout !== null) await once(child.stdout, "data");
    return child;
  }

  async function receiverOf(...args: Parameters<typeof startReceiver>): Promise<Receiver> {
    const receiver = await startReceiver(...args);
    receivers.push(receiver);
    return receiver;
  }

  async function blockSome(count: number): Promise<number[]> {
    const decisions = await Promise.all(Array.from({ length: count }, () => workspace.block()));
    return decisions.map(({ seq }) => seq);
  }

  it("lets the leases of a killed process run out, and a look for them pass, within 15 seconds.", () => {
    expect(DEFAULT_TIMING.leaseMs + DEFAULT_TIMING.tickMs).to.be.at.most(15_000);
  });

  it("delivers every event in order though the process is killed on the way.", async () => {
    // The process is killed while it waits for the answer to this one.
    const held = 30;
    const receiver = await receiverOf((_received, index) => (index === held ? new Promise(() => undefined) : {}));
    const webhooks = workspace.openWebhooks();
    await webhooks.create(CALLER, { url: receiver.url, events: EVENTS });
    const seqs = await blockSome(100);
    const child = await startChild();
    await receiver.waitFor(held + 1);
    child.kill("SIGKILL");
    await once(child, "exit");
    webhooks.start();
    await until(() => receiver.seqs.includes(seqs.at(-1) ?? 0));
    expect(firstOf(receiver.seqs)).to.deep.equal(seqs);
    expect(receiver.received.length).to.equal(seqs.length + 1);
    expect(receiver.seqs[held + 1]).to.equal(seqs[held]);
  });

  it("takes over from a process that stands still, which then sends nothing out of turn.", async () => {
    const held = 10;
    const answer = Promise.withResolvers<object>();
    const receiver = await receiverOf((_received, index) => (index === held ? answer.promise : delay(2, {})));
    const webhooks = workspace.openWebhooks();
    await webhooks.create(CALLER, { url: receiver.url, events: EVENTS });
    const seqs = await blockSome(60);
    const child = await startChild();
    await receiver.waitFor(held + 1);
    child.kill("SIGSTOP");
    webhooks.start();
    await until(() => receiver.seqs.includes(seqs[40] ?? 0));
    answer.resolve({});
    child.kill("SIGCONT");
    seqs.push(...(await blockSome(20)));
    await until(() => receiver.seqs.includes(seqs.at(-1) ?? 0));
    // Once the process that stood still has ended, it sends nothing any more.
    child.stdin?.end();
    await once(child, "exit");
    expect(firstOf(receiver.seqs)).to.deep.equal(seqs);
    expect(receiver.received.length).to.be.at.most(seqs.length + 1);
  });

  it("goes on when the database ends its connections.", async () => {
    const receiver = await receiverOf(() => delay(2, {}));
    const webhooks = workspace.openWebhooks();
    await webhooks.create(CALLER, { url: receiver.url, events: EVENTS });
    const seqs = await blockSome(60);
    webhooks.start();
    for (const count of [10, 20, 30]) {
      await receiver.waitFor(count);
      await withClient(workspace.url, (client) =>
        client.query(`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name = 'acp' and pid <> pg_backend_pid()`),
      );
    }
    await until(() => receiver.seqs.includes(seqs.at(-1) ?? 0));
    expect(firstOf(receiver.seqs)).to.deep.equal(seqs);
  });

  it("hands over at once when a process stops.", async () => {
    const receiver = await receiverOf(() => delay(2, {}));
    const [first, second] = [
      workspace.openWebhooks(),
      workspace.openWebhooks({ timing: { leaseMs: 600_000 } }, await workspace.replica()),
    ];
    await first.create(CALLER, { url: receiver.url, events: EVENTS });
    const seqs = await blockSome(50);
    second.start();
    await receiver.waitFor(5);
    await second.close();
    const before = receiver.received.length;
    first.start();
    await until(() => receiver.seqs.includes(seqs.at(-1) ?? 0));
    expect(before).to.be.below(seqs.length);
    expect(receiver.seqs).to.deep.equal(seqs);
  });

  it("skips no event and keeps the order, with receivers that fail at times and processes that share the webhooks.", async () => {
    const flaky = (_received: unknown, index: number) => ({ status: index % 7 === 3 ? 500 : 204 });
    const [here, there] = [workspace.openWebhooks(), workspace.openWebhooks({}, await workspace.replica())];
    here.start();
    there.start();
    await startChild();
    for (let count = 0; count < 8; count++) {
      const receiver = await receiverOf(flaky);
      await here.create(CALLER, { url: receiver.url, events: EVENTS });
    }
    const seqs: number[] = [];
    for (let round = 0; round < 10; round++) {
      seqs.push(...(await blockSome(5)));
      await workspace.allow();
      await delay(20);
    }
    const last = seqs.at(-1) ?? 0;
    for (const receiver of receivers) {
      await until(() => receiver.seqs.includes(last));
      expect(firstOf(receiver.seqs)).to.deep.equal(seqs);
    }
  });
});
