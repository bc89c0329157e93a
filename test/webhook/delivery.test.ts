import { createHmac } from "node:crypto";
import { expect } from "chai";
import { Webhook as Verifier } from "standardwebhooks";
import { rejectExpired } from "../../src/escalation/expiry.ts";
import { readWebhookEvents } from "../../src/store/sql/deliver-webhook.ts";
import { DAY_MS } from "../../src/webhook/retry-schedule.ts";
import { withClient } from "../support/database.ts";
import { until } from "../support/harness.ts";
import { CALLER, createStoppedClock, type DeliveryTest, openDelivery, PERSONAL } from "./harness.ts";
import type { Received } from "./receiver.ts";

const verify = (secret: string, { headers, body }: Received): unknown =>
  new Verifier(secret).verify(body, headers as Record<string, string>);

describe("webhook delivery", () => {
  let test: DeliveryTest;
  beforeEach(async () => {
    test = await openDelivery();
  });
  afterEach(() => test.close());

  it("tells of every event in the order of the log, with ids and codes and nothing that people wrote.", async () => {
    test.start();
    await test.register();
    const blocked = await test.block();
    await test.allow();
    const escalated = await test.escalate();
    await test.reject(escalated);
    await test.changeTool("payments");
    for (let count = 0; count < 2; count++) await test.authority.createSession({ agentId: test.agentId });
    const { revocationId } = await test.revocations.revokeAgent({ agentId: test.agentId, reason: PERSONAL });
    await test.receiver.waitFor(5);
    const events = test.receiver.received.map(({ body }) => JSON.parse(body));
    expect(events.map(({ type }) => type)).to.deep.equal([
      "decision.blocked",
      "escalation.created",
      "escalation.resolved",
      "tool.changed",
      "agent.revoked",
    ]);
    const [first, second, third, fourth, fifth] = events.map(({ data }) => data);
    const ours = { workspace_id: "default", agent_id: test.agentId };
    const decision = { decision: "block", decision_path: "permissions", action_type: "drop", tool: null };
    expect(first).to.deep.include({ ...ours, ...decision, seq: blocked.seq, decision_id: blocked.decisionId });
    expect(first.reason_codes).to.deep.equal(blocked.reasons.map(({ code }) => code));
    expect(second).to.deep.include({ ...ours, status: "pending", escalation_id: escalated.escalationId });
    expect(third).to.deep.include({ ...ours, status: "rejected", resolved_by: CALLER.keyId });
    expect(fourth).to.deep.include({ workspace_id: "default", name: "payments", version: 1 });
    expect(fifth).to.deep.include({ ...ours, revocation_id: revocationId, revoked_by: test.adminCaller.keyId });
    expect(fifth.counts).to.deep.include({ sessions: 2, credentials: 0 });
    expect(events.every(({ timestamp }) => new Date(timestamp).toISOString() === timestamp)).to.equal(true);
    expect(test.receiver.received.map(({ body }) => body).join()).not.to.include(PERSONAL);
  });

  it("tells of an outcome that nobody reported in time, and of no other.", async () => {
    test.start();
    await test.register(["outcome.unknown", "agent.revoked"]);
    const [unknown] = await test.forgetOutcome();
    await test.revocations.revokeAgent({ agentId: test.agentId });
    await test.receiver.waitFor(2);
    const [event, last] = test.receiver.received.map(({ body }) => JSON.parse(body));
    expect([event.type, last.type]).to.deep.equal(["outcome.unknown", "agent.revoked"]);
    const named = { decision_id: unknown, agent_id: test.agentId, action_type: "look" };
    expect(event.data).to.deep.include({ workspace_id: "default", ...named, status: "unknown" });
  });

  it("tells once of an escalation that is asked for again, and that it expired.", async () => {
    const { workspaceId } = test;
    await test.admin.updateWorkspace({ workspaceId, escalationTtlSeconds: 1 });
    test.start();
    await test.register();
    const { escalationId } = await test.escalate("same");
    expect((await test.escalate("same")).escalationId).to.equal(escalationId);
    test.clock.advance(1_000);
    await rejectExpired(test.log);
    const other = await test.escalate("other");
    await test.receiver.waitFor(3);
    const events = test.receiver.received.map(({ body }) => JSON.parse(body));
    const shown = events.map(({ type, data }) => [type, data.escalation_id, data.resolved_by]);
    expect(shown).to.deep.equal([
      ["escalation.created", escalationId, undefined],
      ["escalation.resolved", escalationId, "expiry"],
      ["escalation.created", other.escalationId, undefined],
    ]);
  });

  it("signs as Standard Webhooks says and with the hexadecimal HMAC of the body.", async () => {
    test.start();
    const { secret } = await test.register();
    await test.block();
    await test.receiver.waitFor(1);
    const [received] = test.receiver.received as [Received];
    expect(verify(secret, received)).to.deep.equal(JSON.parse(received.body));
    const hmac = createHmac("sha256", secret).update(received.body).digest("hex");
    expect(received.headers).to.include({
      "x-service-signature": `sha256=${hmac}`,
      "content-type": "application/json",
      "user-agent": "Agent-Control-Plane/1",
    });
    expect(secret).to.match(/^whsec_[A-Za-z0-9+/]{43}=$/);
  });

  it("signs with both secrets for a day after a rotation, and then with the new one.", async () => {
    const clock = createStoppedClock();
    test.start({ clock });
    const { webhook, secret: old } = await test.register();
    const { secret, oldSecretUntilMs } = await test.webhooks.rotate(CALLER, webhook.webhookId);
    expect(oldSecretUntilMs).to.equal(clock.now() + DAY_MS);
    await test.block();
    await test.receiver.waitFor(1);
    const [both] = test.receiver.received as [Received];
    for (const each of [old, secret]) expect(verify(each, both)).to.be.an("object");
    const hmac = createHmac("sha256", secret).update(both.body).digest("hex");
    expect(both.headers["x-service-signature"]).to.equal(`sha256=${hmac}`);
    clock.move(DAY_MS);
    await test.block();
    await test.receiver.waitFor(2);
    expect(String(both.headers["webhook-signature"]).split(" ")).to.have.length(2);
    expect(String(test.receiver.received[1]?.headers["webhook-signature"]).split(" ")).to.have.length(1);
  });

  it("lists every attempt, newest first and in pages.", async () => {
    test.start();
    test.receiver.answer = (_received, index) => ({ status: index === 0 ? 500 : 200 });
    const { webhook } = await test.register(["decision.blocked"]);
    const { seq } = await test.block();
    await until(async () => (await test.attemptsOf(webhook.webhookId)).length === 2);
    const [second, first] = await test.attemptsOf(webhook.webhookId);
    const messageId = test.receiver.received[0]?.headers["webhook-id"];
    expect(first).to.deep.include({ messageId, seq, attempt: 1, delivered: false, statusCode: 500 });
    expect(first?.error).to.equal("the receiver answered with status 500");
    expect(second).to.deep.include({ messageId, seq, attempt: 2, delivered: true, statusCode: 200, error: null });
    const page = await test.webhooks.deliveries(CALLER, webhook.webhookId, { size: 1, after: undefined });
    expect(page.items).to.deep.equal([second]);
    const rest = await test.webhooks.deliveries(CALLER, webhook.webhookId, { size: 1, after: page.next });
    expect(rest).to.deep.equal({ items: [first], next: undefined });
  });

  it("holds what happens while a webhook is inactive until it is active again.", async () => {
    test.start();
    const { webhook } = await test.register(["decision.blocked"]);
    await test.webhooks.update(CALLER, webhook.webhookId, { isActive: false });
    const witness = await test.witness();
    const { seq } = await test.block();
    const later = await witness();
    expect(test.receiver.received).to.have.length(0);
    await test.webhooks.update(CALLER, webhook.webhookId, { isActive: true });
    await test.receiver.waitFor(3);
    expect(test.receiver.seqs).to.deep.equal([seq, ...later]);
  });

  it("tells of the events that a change names from then on.", async () => {
    test.start();
    const { webhook } = await test.register(["tool.changed"]);
    await test.webhooks.update(CALLER, webhook.webhookId, { events: ["decision.blocked"] });
    await test.changeTool("payments");
    const { seq } = await test.block();
    await test.receiver.waitFor(1);
    expect(test.receiver.seqs).to.deep.equal([seq]);
  });

  it("delivers nothing any more after a webhook was deleted.", async () => {
    test.start();
    const { webhook } = await test.register(["decision.blocked"]);
    await test.block();
    await test.receiver.waitFor(1);
    await test.webhooks.delete(CALLER, webhook.webhookId);
    const witness = await test.witness();
    await witness();
    expect(test.receiver.received).to.have.length(1);
  });

  it("delivers again from an index on, with the same ids.", async () => {
    test.start();
    const { webhook } = await test.register(["decision.blocked"]);
    const seqs: number[] = [];
    for (let count = 0; count < 4; count++) seqs.push((await test.block()).seq);
    await test.receiver.waitFor(4);
    await until(async () => (await test.get(webhook.webhookId)).nextSeq > (seqs[3] ?? 0));
    await test.webhooks.replay(CALLER, webhook.webhookId, seqs[2] ?? 0);
    await test.receiver.waitFor(6);
    expect(test.receiver.seqs).to.deep.equal([...seqs, ...seqs.slice(2)]);
    const ids = test.receiver.received.map(({ headers }) => headers["webhook-id"]);
    expect(ids.slice(4)).to.deep.equal(ids.slice(2, 4));
  });

  it("lets a request that is under way at a replay not undo it.", async () => {
    test.start();
    const { webhook } = await test.register(["decision.blocked"]);
    const seqs: number[] = [];
    const held = Promise.withResolvers<object>();
    test.receiver.answer = (_received, index) => (index === 2 ? held.promise : {});
    for (let count = 0; count < 4; count++) seqs.push((await test.block()).seq);
    await test.receiver.waitFor(3);
    await test.webhooks.replay(CALLER, webhook.webhookId, seqs[0] ?? 0);
    held.resolve({});
    await test.receiver.waitFor(7);
    expect(test.receiver.seqs).to.deep.equal([...seqs.slice(0, 3), ...seqs]);
    expect((await test.attemptsOf(webhook.webhookId)).filter(({ seq }) => seq === seqs[2])).to.have.length(2);
  });

  it("moves the cursor over entries without events.", async () => {
    test.start();
    const { webhook } = await test.register(["tool.changed"]);
    for (let count = 0; count < 30; count++) await test.allow();
    const { seq } = await test.block();
    await until(async () => (await test.get(webhook.webhookId)).nextSeq === seq + 1);
    expect(await test.attemptsOf(webhook.webhookId)).to.deep.equal([]);
  });

  it("hears only of what happens after its creation.", async () => {
    test.start();
    await test.block();
    await test.register(["decision.blocked"]);
    const { seq } = await test.block();
    await test.receiver.waitFor(1);
    expect(test.receiver.seqs).to.deep.equal([seq]);
  });

  it("sends a test now, beside the events, whether the webhook is active or not.", async () => {
    test.start();
    const { webhook, secret } = await test.register(["decision.blocked"]);
    await test.webhooks.update(CALLER, webhook.webhookId, { isActive: false });
    test.receiver.answer = () => ({ status: 418 });
    const attempt = await test.webhooks.test(CALLER, webhook.webhookId, new AbortController().signal);
    const [received] = test.receiver.received as [Received];
    expect(verify(secret, received)).to.deep.include({
      type: "webhook.test",
      data: { workspace_id: "default", webhook_id: webhook.webhookId },
    });
    const messageId = received.headers["webhook-id"];
    const wanted = { messageId, event: "webhook.test", seq: null, attempt: 1, delivered: false, statusCode: 418 };
    expect(attempt).to.deep.include(wanted);
    expect(await test.attemptsOf(webhook.webhookId)).to.deep.equal([attempt]);
    expect(await test.get(webhook.webhookId)).to.include({ failures: 0, isActive: false });
  });

  it("delivers nothing before it is started, and everything then.", async () => {
    const { webhook } = await test.register(["decision.blocked"]);
    const { seq } = await test.block();
    await test.webhooks.test(CALLER, webhook.webhookId, new AbortController().signal);
    test.webhooks.start();
    await test.receiver.waitFor(2);
    // The test, which tells of no entry, came first.
    expect(test.receiver.seqs).to.deep.equal([undefined, seq]);
  });

  it("removes attempts that are older than 30 days.", async () => {
    const clock = createStoppedClock();
    test.start({ clock });
    const { webhook } = await test.register(["decision.blocked"]);
    await test.block();
    await until(async () => (await test.attemptsOf(webhook.webhookId)).length === 1);
    clock.move(30 * DAY_MS + 1_000);
    test.openWebhooks({ clock }).start();
    await until(async () => (await test.attemptsOf(webhook.webhookId)).length === 0);
  });

  it("finds events by indexes that do not hold the entries between.", async () => {
    const { seq } = await test.block();
    const plan = await withClient(test.ownerUrl, async (client) => {
      await client.query(`insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, decision, leaf_hash, body)
        select 'default', 100 + n, 0, 0, 'dec_' || n, 1, '', '{}' from generate_series(1, 20000) n`);
      await client.query(`insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, decision, ref_id, leaf_hash, body)
        values ('default', 20200, 0, 0, 'dec_over', 1, 'over esc_1', '', '{}')`);
      await client.query("update ledger_head set seq = 20300");
      await client.query("analyze ledger_entry");
      const values = ["default", 0, [2], [], 20, true];
      const { rows } = await client.query({ text: `explain (analyze) ${readWebhookEvents.text}`, values });
      return rows.map((row) => row["QUERY PLAN"]).join("\n");
    });
    expect(seq).to.be.below(100);
    expect(plan).to.match(/Index Scan using ledger_entry_event .*rows=1\b/);
    expect(plan).to.match(/Index Scan using ledger_entry_overdrawn .*rows=1\b/);
    expect(plan).not.to.match(/Removed by Filter: \d{2,}/);
  });
});
