import { expect } from "chai";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import {
  NotificationChannelKind,
  NotificationFilter,
  NotificationService,
  SmtpSecurity,
} from "../../gen/agentcontrol/v1/notification_service_pb.js";
import { mailOf, sendMail } from "../../src/notification/email.ts";
import { createTargets } from "../../src/webhook/target.ts";
import { startDeadServer } from "./dead-server.ts";
import { type NotificationTest, openNotifications, type Person, PUBLIC_URL, refusalOf } from "./harness.ts";

describe("notifications by e-mail", () => {
  let test: NotificationTest;
  let person: Person;
  const of = ({ plane }: Person) => plane.client(NotificationService);

  before(async () => {
    test = await openNotifications();
    person = await test.person();
    await test.configure();
  });
  after(() => test.close());

  it("tell a person of an escalation, with a link to it.", async () => {
    const { channel } = await of(person).addNotificationChannel({ email: "ann@example.com" });
    expect([channel?.kind, channel?.label, channel?.isActive]).to.deep.equal([
      NotificationChannelKind.EMAIL,
      "ann@example.com",
      true,
    ]);
    const id = await test.escalate();
    const mail = await test.smtp.mails.find(({ text }) => text.includes(id));
    expect([mail.from, mail.to]).to.deep.equal(["acp@example.com", ["ann@example.com"]]);
    expect(mail.text.trimEnd().split("\n").at(-1)).to.equal(`${PUBLIC_URL}/escalations/${id}`);
    expect(mail.headers.get("subject")).to.include("payer");
    const { channels } = await of(person).getNotificationPreferences({});
    expect(channels.map(({ failures, error }) => [failures, error])).to.deep.equal([[0, undefined]]);
  });

  it("give an address that a person has already as the channel that exists.", async () => {
    const again = await of(person).addNotificationChannel({ email: "ann@example.com" });
    const { channels } = await of(person).getNotificationPreferences({});
    expect(channels.map(({ channelId }) => channelId)).to.deep.equal([again.channel?.channelId]);
  });

  it("show no other person's channels, and remove none of them.", async () => {
    const other = await test.person();
    expect((await of(other).getNotificationPreferences({})).channels).to.deep.equal([]);
    const { channels } = await of(person).getNotificationPreferences({});
    const remove = of(other).removeNotificationChannel({ channelId: channels[0]?.channelId ?? "" });
    expect(await refusalOf(remove)).to.equal("NOTIFICATION_CHANNEL_NOT_FOUND");
  });

  it("are no webhooks, which nobody reads, changes or deletes as such.", async () => {
    const { channels } = await of(person).getNotificationPreferences({});
    const path = `/v1/enforce/webhooks/${channels[0]?.channelId}`;
    for (const request of [`GET ${path}`, `DELETE ${path}`, `POST ${path}:test`, `POST ${path}:replay`]) {
      const body = request.startsWith("POST") ? (request.endsWith("replay") ? { from_seq: 0 } : {}) : undefined;
      const fault = await test.service.rest(request, body).catch((error: Error) => error.message);
      expect(fault, request).to.include("WEBHOOK_NOT_FOUND");
    }
    expect(await test.service.rest("GET /v1/enforce/webhooks")).to.deep.include({ webhooks: [] });
  });

  it("carry no header and no link that a name smuggles in.", async () => {
    const { agent } = await test.service.admin
      .client(AgentService)
      .registerAgent({ name: "see https://evil.example/login" });
    const id = await test.escalate(agent?.agentId, "pay.evil.com");
    const mail = await test.smtp.mails.find(({ text }) => text.includes(id));
    const urls = mail.text.match(/https?:\/\/\S+/g);
    expect(urls).to.deep.equal([`${PUBLIC_URL}/escalations/${id}`]);
    expect(`${mail.text}${mail.headers.get("subject")}`).to.not.match(/evil\.(example|com)|@evil/);
  });

  it("keep a header one header, whatever stands in a name.", async () => {
    const name = "payer\r\nBcc: x@evil.example\r\n\r\nhello\u2028there\u0000";
    const facts = {
      escalationId: "esc_1",
      tool: name,
      policy: name,
      expiresAtMs: 0,
      url: PUBLIC_URL,
      approved: undefined,
    };
    const server = {
      host: "127.0.0.1",
      port: test.smtp.port,
      security: "none" as const,
      user: "",
      from: "acp@example.com",
    };
    const mail = { ...mailOf({ ...facts, agent: name, actionType: name }), id: "msg_1", to: "eve@example.com" };
    const targets = createTargets({ allow: ["127.0.0.0/8"] });
    const bounds = { targets, timeoutMs: 5_000, signal: new AbortController().signal };
    expect((await sendMail({ ...server, password: undefined }, mail, bounds)).error).to.equal(null);
    const got = await test.smtp.mails.find(({ to }) => to.includes("eve@example.com"));
    expect(got.to).to.deep.equal(["eve@example.com"]);
    expect([...got.headers.keys()]).to.not.include("bcc");
    expect(got.text.split("\n").filter((line) => line.startsWith("Bcc"))).to.deep.equal([]);
  });

  const DEAD = [
    { what: "says nothing", death: "silent" },
    { what: "greets without an end", death: "endless", begin: "", part: "220-mail.test\r\n" },
    { what: "answers without an end", death: "endless", begin: "220 mail.test\r\n", part: "250-mail.test\r\n" },
  ] as const;
  for (const { what, death, ...says } of DEAD) {
    it(`give up a mail server that ${what}, and leave it at once when the service ends.`, async () => {
      const dead = await startDeadServer(death, "begin" in says ? says.begin : "", "part" in says ? says.part : "");
      const server = {
        host: "127.0.0.1",
        port: dead.port,
        security: "none" as const,
        user: "",
        from: "acp@example.com",
        password: undefined,
      };
      const mail = { id: "msg_1", to: "eve@example.com", subject: "one", text: "one" };
      const targets = createTargets({ allow: ["127.0.0.0/8"] });
      const ending = new AbortController();
      try {
        const late = await sendMail(server, mail, { targets, timeoutMs: 200, signal: ending.signal });
        expect(late.error).to.equal("no answer within 200 ms");
        const waiting = sendMail(server, mail, { targets, timeoutMs: 600_000, signal: ending.signal });
        await dead.opened(1);
        ending.abort();
        expect((await waiting).error).to.equal("the request was cancelled");
      } finally {
        await dead.close();
      }
    });
  }

  it("try again after a refusal, and say meanwhile why, without words of the mail server.", async () => {
    test.smtp.answer = 450;
    await test.escalate();
    const failing = async () => (await of(person).getNotificationPreferences({})).channels[0];
    let channel = await failing();
    while (channel?.failures === 0) channel = await failing();
    expect(channel?.error).to.equal("the mail server answered with 450");
    test.smtp.answer = 250;
    const { channel: removed } = await of(person).removeNotificationChannel({ channelId: channel?.channelId ?? "" });
    expect(removed?.label).to.equal("ann@example.com");
    expect(test.service.output()).to.not.include("ann@example.com");
  });

  it("send a test at once and give its result.", async () => {
    const { channel } = await of(person).addNotificationChannel({ email: "ben@example.com" });
    const channelId = channel?.channelId ?? "";
    const mails = test.smtp.mails.all.length;
    expect((await of(person).testNotificationChannel({ channelId })).delivered).to.equal(true);
    expect(test.smtp.mails.all.slice(mails).map(({ to }) => to)).to.deep.equal([["ben@example.com"]]);
    test.smtp.answer = 550;
    const refused = await of(person).testNotificationChannel({ channelId });
    expect([refused.delivered, refused.error]).to.deep.equal([false, "the mail server answered with 550"]);
    test.smtp.answer = 250;
  });

  it("wait in quiet hours, and come when the person ends them.", async () => {
    const always = { from: "00:00", to: "23:59", timeZone: "Etc/UTC" };
    await of(person).updateNotificationPreferences({ preferences: { quietHours: always } });
    const held = await test.escalate();
    const waiting = async () => (await of(person).getNotificationPreferences({})).channels[0];
    let channel = await waiting();
    while (channel?.nextAttemptAt === undefined) channel = await waiting();
    expect([channel.failures, test.smtp.mails.all.some(({ text }) => text.includes(held))]).to.deep.equal([0, false]);
    await of(person).updateNotificationPreferences({ preferences: {} });
    await test.smtp.mails.find(({ text }) => text.includes(held));
  });

  it("leave out escalations that were answered before they could be told.", async () => {
    const always = { from: "00:00", to: "23:59", timeZone: "Etc/UTC" };
    await of(person).updateNotificationPreferences({ preferences: { quietHours: always } });
    const answered = await test.escalate();
    await test.service.resolve(answered, "rejected");
    await of(person).updateNotificationPreferences({
      preferences: { about: NotificationFilter.MINE, groups: ["money"] },
    });
    const next = await test.escalate();
    await test.smtp.mails.find(({ text }) => text.includes(next));
    expect(test.smtp.mails.all.some(({ text }) => text.includes(answered))).to.equal(false);
  });

  it("refuse a time zone that does not exist.", async () => {
    const quietHours = { from: "22:00", to: "06:00", timeZone: "Mars/Olympus" };
    const call = of(person).updateNotificationPreferences({ preferences: { quietHours } });
    expect(await refusalOf(call)).to.equal("INVALID_FIELD");
  });

  it("end with the key of the person.", async () => {
    const leaver = await test.person();
    await of(leaver).addNotificationChannel({ email: "cleo@example.com" });
    await test.service.rest(`DELETE /v1/admin/keys/${leaver.keyId}`);
    const id = await test.escalate();
    const last = await test.escalate();
    await test.smtp.mails.find(({ text, to }) => text.includes(last) && to[0] === "ben@example.com");
    expect(test.smtp.mails.all.filter(({ to }) => to.includes("cleo@example.com"))).to.deep.equal([]);
    expect(id).to.match(/^esc_/);
  });

  it("need a mail server at an allowed address.", async () => {
    const { admin } = test.service;
    const set = (host: string, security = SmtpSecurity.NONE, smtpPassword?: string) =>
      admin.client(NotificationService).updateNotificationSettings({
        smtp: { host, port: test.smtp.port, security, user: "acp", from: "acp@example.com" },
        ...(smtpPassword === undefined ? {} : { smtpPassword }),
      });
    expect(await refusalOf(set("10.0.0.9"))).to.equal("TARGET_NOT_ALLOWED");
    expect(await refusalOf(set("127.0.0.1", SmtpSecurity.NONE, "pass"))).to.equal("INVALID_FIELD");
    const stored = await set("127.0.0.1", SmtpSecurity.STARTTLS, "pass");
    expect(stored.settings?.smtpHasPassword).to.equal(true);
    // Encryption is asked for and not there, so nothing is sent.
    const { channels } = await of(person).getNotificationPreferences({});
    const mails = test.smtp.mails.all.length;
    const told = await of(person).testNotificationChannel({ channelId: channels[0]?.channelId ?? "" });
    expect([told.delivered, test.smtp.mails.all.length]).to.deep.equal([false, mails]);
    // The password belongs to the server for which it was given.
    expect((await set("localhost", SmtpSecurity.STARTTLS)).settings?.smtpHasPassword).to.equal(false);
    const removed = await admin.client(NotificationService).updateNotificationSettings({ removeSmtp: true });
    expect(removed.settings?.smtp).to.equal(undefined);
    const add = of(person).addNotificationChannel({ email: "dan@example.com" });
    expect(await refusalOf(add)).to.equal("NOTIFICATIONS_NOT_CONFIGURED");
  });
});
