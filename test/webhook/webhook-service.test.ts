import { setTimeout as delay } from "node:timers/promises";
import { create, type DescMethodUnary, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { WebhookService } from "../../gen/agentcontrol/v1/webhook_service_pb.js";
import { createWebhookService } from "../../src/api/webhook-service.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { until } from "../support/harness.ts";
import { CALLER, openWebhookWorkspace, type WebhookWorkspace } from "./harness.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const { method } = WebhookService;
const EVENTS = ["decision.blocked"];
const OTHER = { workspaceId: "other", keyId: "key_other" };

describe("WebhookService", () => {
  let workspace: WebhookWorkspace;
  let receiver: Receiver;
  let functions: ReturnType<typeof createWebhookService>["functions"];
  const lines: string[] = [];

  before(async () => {
    workspace = await openWebhookWorkspace();
    receiver = await startReceiver();
    await createWorkspace({ database: workspace.database, nowMs: Date.now(), by: "system" }, OTHER);
    const keep = (details: object, message: string): void => void lines.push(JSON.stringify({ ...details, message }));
    const webhooks = workspace.openWebhooks({ log: { info: keep, warn: keep, error: keep } });
    webhooks.start();
    functions = createWebhookService({ webhooks }).functions;
  });

  after(async () => {
    await workspace.close();
    await receiver.close();
  });

  async function call<M extends DescMethodUnary>(
    called: M,
    init: MessageInitShape<M["input"]>,
    key = CALLER,
  ): Promise<MessageShape<M["output"]>> {
    const context = {
      caller: { ...key, role: Role.ADMIN, agentId: null },
      signal: new AbortController().signal,
      isOver: false,
      receivedAt: performance.now(),
      requestId: "test",
      giveWay: async () => undefined,
    };
    const reply = await functions[called.localName]?.(create(called.input, init) as never, context as never);
    return create(called.output, reply as never) as MessageShape<M["output"]>;
  }

  async function reasonOf(reply: Promise<unknown>): Promise<string> {
    const error = await reply.then(
      () => undefined,
      (each: unknown) => each,
    );
    expect(error).to.be.instanceOf(ControlPlaneError);
    return ErrorReason[(error as ControlPlaneError).reason] as string;
  }

  const make = async (url = receiver.url) => {
    const { webhook, secret } = await call(method.createWebhook, { url, events: EVENTS });
    return { id: webhook?.webhookId ?? "", webhook, secret };
  };

  it("creates a webhook that is active, starts at the end of the log and has a secret that is shown once.", async () => {
    const { webhook, secret, id } = await make();
    expect(id).to.match(/^wh_[a-z2-7]{26}$/);
    const { seq } = await workspace.log.caughtUp();
    expect(webhook).to.include({ url: receiver.url, isActive: true, nextSeq: BigInt(seq), failures: 0 });
    expect(webhook?.events).to.deep.equal(EVENTS);
    const replies = [
      await call(method.getWebhook, { webhookId: id }),
      await call(method.listWebhooks, {}),
      await call(method.updateWebhook, { webhookId: id, isActive: true }),
      await call(method.replayWebhook, { webhookId: id, fromSeq: 0n }),
    ];
    const shown = JSON.stringify(replies, (_key, value) => (typeof value === "bigint" ? String(value) : value));
    expect(shown).not.to.include(secret.slice("whsec_".length));
  });

  it("refuses a private target, at creation and at a change.", async () => {
    expect(await reasonOf(call(method.createWebhook, { url: "http://10.0.0.1/", events: EVENTS }))).to.equal(
      "TARGET_NOT_ALLOWED",
    );
    const { id } = await make();
    const change = call(method.updateWebhook, { webhookId: id, url: "http://169.254.169.254/" });
    expect(await reasonOf(change)).to.equal("TARGET_NOT_ALLOWED");
    expect((await call(method.getWebhook, { webhookId: id })).webhook?.url).to.equal(receiver.url);
  });

  it("lists webhooks newest first, in pages, and those of the caller's workspace only.", async () => {
    const ids: string[] = [];
    for (let count = 0; count < 3; count++) {
      ids.unshift((await make()).id);
      // The order is that of their times, in milliseconds.
      await delay(2);
    }
    const first = await call(method.listWebhooks, { pageSize: 2 });
    const second = await call(method.listWebhooks, { pageSize: 1, pageToken: first.nextPageToken ?? "" });
    expect([...first.webhooks, ...second.webhooks].map(({ webhookId }) => webhookId)).to.deep.equal(ids);
    expect((await call(method.listWebhooks, {}, OTHER)).webhooks).to.deep.equal([]);
  });

  it("knows no webhook of another workspace.", async () => {
    const { id: webhookId } = await make();
    const calls = [
      () => call(method.getWebhook, { webhookId }, OTHER),
      () => call(method.updateWebhook, { webhookId, isActive: false }, OTHER),
      () => call(method.updateWebhook, { webhookId }, OTHER),
      () => call(method.rotateWebhookSecret, { webhookId }, OTHER),
      () => call(method.testWebhook, { webhookId }, OTHER),
      () => call(method.listWebhookDeliveries, { webhookId }, OTHER),
      () => call(method.replayWebhook, { webhookId, fromSeq: 0n }, OTHER),
      () => call(method.deleteWebhook, { webhookId }, OTHER),
    ];
    for (const each of calls) expect(await reasonOf(each())).to.equal("WEBHOOK_NOT_FOUND");
    expect((await call(method.getWebhook, { webhookId })).webhook?.isActive).to.equal(true);
  });

  it("leaves what an update does not name.", async () => {
    const { id: webhookId } = await make();
    const { webhook } = await call(method.updateWebhook, { webhookId, events: ["tool.changed"] });
    expect(webhook).to.include({ url: receiver.url, isActive: true });
    expect(webhook?.events).to.deep.equal(["tool.changed"]);
    expect((await call(method.updateWebhook, { webhookId, isActive: false })).webhook?.events).to.deep.equal([
      "tool.changed",
    ]);
  });

  it("sends a test and shows it among the deliveries, without an index.", async () => {
    const { id: webhookId } = await make();
    const { delivery } = await call(method.testWebhook, { webhookId });
    expect(delivery).to.include({ event: "webhook.test", delivered: true, statusCode: 204, attempt: 1 });
    expect([delivery?.seq, delivery?.error]).to.deep.equal([undefined, undefined]);
    const { deliveries, nextPageToken } = await call(method.listWebhookDeliveries, { webhookId });
    expect(deliveries).to.deep.equal([delivery]);
    expect(nextPageToken).to.equal(undefined);
  });

  it("shows the index of a delivered event, and replays up to the cursor only.", async () => {
    const { id: webhookId } = await make();
    const { seq } = await workspace.block();
    const list = () => call(method.listWebhookDeliveries, { webhookId });
    await until(async () => (await list()).deliveries.length === 1);
    expect((await list()).deliveries[0]).to.include({ seq: BigInt(seq), delivered: true });
    const { webhook } = await call(method.replayWebhook, { webhookId, fromSeq: BigInt(seq) });
    expect(webhook?.nextSeq).to.equal(BigInt(seq));
    await until(async () => (await list()).deliveries.length === 2);
    for (const fromSeq of [1_000_000n, 2n ** 60n]) {
      expect(await reasonOf(call(method.replayWebhook, { webhookId, fromSeq }))).to.equal("INVALID_FIELD");
    }
  });

  it("refuses the page token of another webhook's deliveries.", async () => {
    const [one, two] = [await make(), await make()];
    for (let count = 0; count < 2; count++) await call(method.testWebhook, { webhookId: one.id });
    const { nextPageToken = "" } = await call(method.listWebhookDeliveries, { webhookId: one.id, pageSize: 1 });
    const page = { webhookId: two.id, pageToken: nextPageToken };
    expect(await reasonOf(call(method.listWebhookDeliveries, page))).to.equal("INVALID_PAGE_TOKEN");
  });

  it("gives a new secret at a rotation, and the webhook as it was at a deletion.", async () => {
    const { id: webhookId, secret } = await make();
    const rotated = await call(method.rotateWebhookSecret, { webhookId });
    expect(rotated.secret)
      .to.match(/^whsec_/)
      .and.not.to.equal(secret);
    expect(rotated.oldSecretUntil).not.to.equal(undefined);
    expect((await call(method.deleteWebhook, { webhookId })).webhook?.url).to.equal(receiver.url);
    expect(await reasonOf(call(method.getWebhook, { webhookId }))).to.equal("WEBHOOK_NOT_FOUND");
  });

  it("logs who changed a webhook, and neither secrets nor URLs.", async () => {
    const { id, secret } = await make(`${receiver.url}?token=hunter2`);
    await call(method.rotateWebhookSecret, { webhookId: id });
    const ours = lines.filter((line) => line.includes(id));
    expect(ours.map((line) => JSON.parse(line))).to.deep.equal([
      { key_id: "key_test", workspace_id: "default", webhook_id: id, message: "webhook created" },
      { key_id: "key_test", workspace_id: "default", webhook_id: id, message: "webhook secret rotated" },
    ]);
    expect(lines.join()).not.to.include("hunter2").and.not.to.include(secret);
  });
});
