import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { EscalationService, EscalationStatus } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { NotificationService } from "../../gen/agentcontrol/v1/notification_service_pb.js";
import { withClient } from "../support/database.ts";
import { type NotificationTest, openNotifications, type Person, refusalOf } from "./harness.ts";
import type { SlackBody, SlackCall } from "./slack-server.ts";

/** Ids of the buttons under a message. */
const buttonsOf = ({ blocks = [] }: SlackBody): unknown[] =>
  blocks.flatMap(({ type, elements = [] }) => (type === "actions" ? elements.map(({ action_id }) => action_id) : []));

describe("notifications in Slack", () => {
  let test: NotificationTest;
  let person: Person;
  const of = ({ plane }: Person) => plane.client(NotificationService);
  const message = (escalationId: string, to = "UANN"): Promise<SlackCall> =>
    test.slack.calls.find(
      ({ method, body, raw }) => method === "chat.postMessage" && body.channel === to && raw.includes(escalationId),
    );
  const updateOf = ({ ts }: SlackCall): Promise<SlackCall> =>
    test.slack.calls.find(({ method, body }) => method === "chat.update" && body.ts === ts);
  const told = (user: string, after: number): Promise<SlackCall> =>
    test.slack.calls.find(
      (call) =>
        call.method === "chat.postEphemeral" && call.body.user === user && test.slack.calls.all.indexOf(call) >= after,
    );
  const statusOf = async (escalationId: string): Promise<EscalationStatus | undefined> =>
    (await test.service.admin.client(EscalationService).getEscalation({ escalationId })).escalation?.status;
  /** Form of a press under the message that told Ann of an escalation. */
  const press = async (escalationId: string, user = "UANN", more: object = {}) => {
    const { ts } = await message(escalationId);
    const { url } = test.service.database;
    // The service notes a message once Slack has it.
    const noted = () => withClient(url, (client) => client.query("select 1 from slack_message where ts = $1", [ts]));
    while ((await noted()).rows.length === 0);
    return test.slack.press({ user, escalationId, channel: "DANN", ts, ...more });
  };

  before(async () => {
    test = await openNotifications();
    person = await test.person();
  });
  after(() => test.close());

  it("need a Slack app, whose secrets are never returned.", async () => {
    expect(await refusalOf(of(person).linkSlackAccount({}))).to.equal("NOTIFICATIONS_NOT_CONFIGURED");
    await test.configure();
    const shown = JSON.stringify(await test.service.rest("GET /v1/enforce/notification-settings"));
    expect(shown).to.include('"has_slack":true').and.include("https://acp.example.com/slack/default");
    expect(shown).to.not.include(test.slack.token).and.not.include(test.slack.secret);
    const { rows } = await withClient(test.service.database.url, (client) =>
      client.query("select body from ledger_entry"),
    );
    expect(JSON.stringify(rows)).to.not.include(test.slack.token).and.not.include(test.slack.secret);
  });

  it("link an account by a code that is good once.", async () => {
    const { code, command } = await of(person).linkSlackAccount({});
    expect(command).to.equal(`/acp-link ${code}`);
    expect((await test.fromSlack(test.slack.command("UEVE", "ABCD-EFGH-JKMN"))).text).to.include("unknown");
    expect((await test.fromSlack(test.slack.command("UANN", code.toLowerCase()))).text).to.include("is linked");
    expect((await test.fromSlack(test.slack.command("UEVE", code))).text).to.include("unknown");
    const { channels } = await of(person).getNotificationPreferences({});
    expect(channels.map(({ label }) => label)).to.deep.equal(["Slack UANN"]);
  });

  it("tell of an escalation with a link and without buttons, and show how it ended.", async () => {
    const id = await test.escalate();
    const posted = await message(id);
    expect(buttonsOf(posted.body)).to.deep.equal(["acp_open"]);
    expect(posted.raw).to.include(`https://acp.example.com/escalations/${id}`);
    await test.service.resolve(id, "rejected");
    const update = await updateOf(posted);
    expect(update.body.channel).to.equal("DANN");
    expect(update.body.text).to.match(/^Rejected by /);
  });

  it("take no answer while messages hide what it would approve.", async () => {
    const id = await test.escalate();
    const before = test.slack.calls.all.length;
    await test.fromSlack(await press(id));
    expect((await told("UANN", before)).body.text).to.include("answer on the dashboard");
    expect(await statusOf(id)).to.equal(EscalationStatus.PENDING);
  });

  it("take an answer by a button under what it approves.", async () => {
    await test.showArguments(true);
    const id = await test.escalate();
    expect(buttonsOf((await message(id)).body)).to.deep.equal(["acp_approve", "acp_reject", "acp_open"]);
    expect((await test.fromSlack(await press(id))).status).to.equal(200);
    const { escalation } = await test.service.admin.client(EscalationService).getEscalation({ escalationId: id });
    expect([escalation?.status, escalation?.resolvedBy]).to.deep.equal([EscalationStatus.APPROVED, person.keyId]);
    const update = await updateOf(await message(id));
    expect([update.body.text?.startsWith("Approved by"), buttonsOf(update.body)]).to.deep.equal([true, ["acp_open"]]);
    const rejected = await test.escalate();
    await test.fromSlack(await press(rejected, "UANN", { action: "acp_reject" }));
    expect(await statusOf(rejected)).to.equal(EscalationStatus.REJECTED);
  });

  it("refuse what Slack did not sign, signed too long ago, or sent before.", async () => {
    const id = await test.escalate();
    const body = await press(id);
    const now = Math.floor(Date.now() / 1000);
    const refused = [
      await test.fromSlack(body, now, "another-secret-0123456789"),
      await test.fromSlack(body, now - 301),
      await test.fromSlack(body, now + 330),
      await test.fromSlack(body, Number.NaN),
    ];
    const { body: signed, headers } = test.slack.sign(body, now);
    const send = (given: string, path = "default") =>
      fetch(`${test.service.http}/slack/${path}`, { method: "POST", body: given, headers });
    expect(refused.map(({ status }) => status)).to.deep.equal([401, 401, 401, 401]);
    expect((await send(signed.replace("acp_approve", "acp_reject"))).status).to.equal(401);
    expect((await send(signed, "elsewhere")).status).to.equal(401);
    expect((await send(signed, "no%00ne")).status).to.equal(401);
    expect(await statusOf(id)).to.equal(EscalationStatus.PENDING);
    expect((await send(signed)).status).to.equal(200);
    expect((await send(signed)).status).to.equal(401);
    expect(await statusOf(id)).to.equal(EscalationStatus.APPROVED);
  });

  it("take no answer of an account that nobody linked.", async () => {
    const id = await test.escalate();
    const before = test.slack.calls.all.length;
    const body = await press(id, "UEVE");
    expect((await test.fromSlack(body)).status).to.equal(200);
    expect((await told("UEVE", before)).body.text).to.include("link this Slack account first");
    await test.fromSlack(await press(id, "UANN", { team: "TOTHER" }));
    expect(await statusOf(id)).to.equal(EscalationStatus.PENDING);
  });

  it("take no answer under a message that told of another escalation.", async () => {
    const [shown, meant] = [await test.escalate(), await test.escalate()];
    const { ts } = await message(shown);
    await message(meant);
    const before = test.slack.calls.all.length;
    await test.fromSlack(test.slack.press({ user: "UANN", escalationId: meant, channel: "DANN", ts }));
    expect((await told("UANN", before)).body.text).to.include("out of date");
    expect(await statusOf(meant)).to.equal(EscalationStatus.PENDING);
  });

  it("take the first answer, and tell a later one that it came too late.", async () => {
    const id = await test.escalate();
    const body = await press(id);
    await test.service.resolve(id, "rejected");
    const before = test.slack.calls.all.length;
    await test.fromSlack(body);
    const { body: said } = await told("UANN", before);
    expect(said.text).to.match(/did not count/);
    expect(await statusOf(id)).to.equal(EscalationStatus.REJECTED);
  });

  it("take no answer of somebody whose key has ended.", async () => {
    const leaver = await test.person(Role.ADMIN);
    await test.link(leaver, "ULEO");
    const id = await test.escalate();
    const { ts } = await message(id, "ULEO");
    await test.service.rest(`DELETE /v1/admin/keys/${leaver.keyId}`);
    const before = test.slack.calls.all.length;
    await test.fromSlack(test.slack.press({ user: "ULEO", escalationId: id, channel: "DLEO", ts }));
    expect((await told("ULEO", before)).body.text).to.include("has ended");
    expect(await statusOf(id)).to.equal(EscalationStatus.PENDING);
    // Nor is that person told who answered.
    await test.service.resolve(id, "rejected");
    await updateOf(await message(id));
    const next = await test.escalate();
    await message(next);
    await test.service.resolve(next, "rejected");
    await updateOf(await message(next));
    const updates = test.slack.calls.all.filter(({ method, body }) => method === "chat.update" && body.ts === ts);
    expect(updates).to.deep.equal([]);
  });

  it("show names as they are, without mark-up, mentions and links.", async () => {
    await test.showArguments(false);
    const { agent } = await test.service.admin
      .client(AgentService)
      .registerAgent({ name: "<!channel> *see* <https://evil.example|here>" });
    const id = await test.escalate(agent?.agentId, "pay.evil.com");
    const { body } = await message(id);
    expect(body.text).to.include("&lt;!channel&gt;").and.not.include("<").and.not.include("evil.example");
    expect(body.blocks?.map(({ type }) => type)).to.deep.equal(["rich_text", "actions"]);
    const said = JSON.stringify(body.blocks?.[0]);
    expect(said).to.not.include("https://evil").and.not.include("pay.evil.com");
  });

  it("post into a channel of the workspace, whatever people want.", async () => {
    const { admin } = test.service;
    await admin.client(NotificationService).updateNotificationSettings({ slackChannel: "C0OPS" });
    const id = await test.escalate();
    await message(id, "C0OPS");
    await admin.client(NotificationService).updateNotificationSettings({ slackChannel: "" });
    const next = await test.escalate();
    await message(next);
    const posted = test.slack.calls.all.filter(({ body, raw }) => body.channel === "C0OPS" && raw.includes(next));
    expect(posted).to.deep.equal([]);
  });

  it("unlink an account with its channel, and every account with the app.", async () => {
    await test.showArguments(true);
    const id = await test.escalate();
    const body = await press(id);
    const { channels } = await of(person).getNotificationPreferences({});
    await of(person).removeNotificationChannel({ channelId: channels[0]?.channelId ?? "" });
    const before = test.slack.calls.all.length;
    await test.fromSlack(body);
    expect((await told("UANN", before)).body.text).to.include("link this Slack account first");
    await test.link(person, "UANN");
    const { admin } = test.service;
    await admin.client(NotificationService).updateNotificationSettings({ removeSlack: true });
    expect((await of(person).getNotificationPreferences({})).channels).to.deep.equal([]);
    expect((await test.fromSlack(body, Math.floor(Date.now() / 1000) - 1)).status).to.equal(401);
  });
});
