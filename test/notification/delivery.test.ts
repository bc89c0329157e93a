import { expect } from "chai";
import { NotificationService, SmtpSecurity } from "../../gen/agentcontrol/v1/notification_service_pb.js";
import { until } from "../support/harness.ts";
import { startDeadServer } from "./dead-server.ts";
import { type NotificationTest, openNotifications, type Person, SECRET_ARGUMENT, SECRET_CONTENT } from "./harness.ts";

/** Mails of a workspace that a process sends at once; a person has at most five addresses. */
const MAILS_AT_ONCE = 32;

describe("notifications over all channels", () => {
  let test: NotificationTest;
  let person: Person;
  const of = ({ plane }: Person) => plane.client(NotificationService);

  before(async () => {
    test = await openNotifications();
    person = await test.person();
    await test.configure();
    await of(person).addNotificationChannel({ email: "ann@example.com" });
    const { pushPublicKey } = await of(person).getNotificationPreferences({});
    await of(person).addNotificationChannel({ push: test.push.subscribe(pushPublicKey) });
    await test.link(person, "UANN");
    await test.service.admin.client(NotificationService).updateNotificationSettings({ slackChannel: "C0OPS" });
  });
  after(() => test.close());

  /** Resolves once every channel was told. */
  const arrived = (id: string) =>
    Promise.all([
      test.smtp.mails.find(({ text }) => text.includes(id)),
      test.push.pushes.find(({ message }) => message.tag === id),
      test.slack.calls.find(({ body, raw }) => body.channel === "UANN" && raw.includes(id)),
      test.slack.calls.find(({ body, raw }) => body.channel === "C0OPS" && raw.includes(id)),
    ]);

  /** Everything that the servers got, as it came and as it reads. */
  const everything = (): string =>
    [
      ...test.smtp.mails.all.flatMap(({ raw, text, headers }) => [raw, text, JSON.stringify([...headers])]),
      ...test.push.pushes.all.flatMap(({ headers, body, message }) => [
        JSON.stringify(headers),
        body.toString("latin1"),
        JSON.stringify(message),
      ]),
      ...test.slack.calls.all.map(({ raw }) => raw),
    ].join("\n");

  it("carry no text of an action, unless the workspace shows what is to be approved.", async () => {
    const hidden = await test.escalate();
    await arrived(hidden);
    await test.service.resolve(hidden, "approved");
    await test.slack.calls.find(({ method, body }) => method === "chat.update" && body.channel === "C0OPS");
    for (const secret of [SECRET_ARGUMENT, SECRET_CONTENT]) {
      expect(everything()).to.not.include(secret);
      expect(everything()).to.not.include(Buffer.from(secret).toString("base64").slice(0, 16));
    }
    expect(test.service.output()).to.not.include(SECRET_ARGUMENT);
    await test.showArguments(true);
    const told = await arrived(await test.escalate());
    await test.showArguments(false);
    const [mail, push, personal, common] = told;
    for (const text of [mail.text, JSON.stringify(push.message), personal.raw, common.raw]) {
      expect(text).to.include(SECRET_ARGUMENT).and.include(SECRET_CONTENT);
    }
  });

  it("wait for themselves alone: a dead channel delays no other and no decision.", async () => {
    test.push.answer = 503;
    test.slack.refuses = "internal_error";
    const ids = [await test.escalate(), await test.escalate(), await test.escalate()];
    for (const id of ids) await test.smtp.mails.find(({ text }) => text.includes(id));
    const channels = async () => (await of(person).getNotificationPreferences({})).channels;
    const errors = async () => (await channels()).map(({ error }) => error ?? "none");
    while ((await errors()).filter((error) => error === "none").length > 1);
    expect(await errors()).to.have.members([
      "none",
      "the push service answered with status 503",
      "Slack refused: internal_error",
    ]);
    test.push.answer = 201;
    test.slack.refuses = undefined;
    // A change of the settings tries at once what waits.
    await test.showArguments(true);
    await Promise.all(ids.map(arrived));
  });

  it("are told in one browser while the push service of 40 others hangs.", async () => {
    const many = await Promise.all(Array.from({ length: 4 }, () => test.person()));
    const { pushPublicKey } = await of(person).getNotificationPreferences({});
    for (let browsers = 0; browsers < 40; browsers++) {
      const subscription = test.push.subscribe(pushPublicKey);
      test.push.kill(subscription.endpoint, "silent");
      await of(many[browsers % 4] as Person).addNotificationChannel({ push: subscription });
    }
    await test.escalate();
    await until(() => test.push.lost >= 40);
    const id = await test.escalate();
    await test.push.pushes.find(({ message }) => message.tag === id);
    expect([test.push.waiting, test.push.lost]).to.deep.equal([40, 40]);
    test.push.heal();
  });

  it("are told by push and in Slack while more mails hang than are sent at once.", async () => {
    const dead = await startDeadServer("silent");
    const { admin } = test.service;
    const smtp = { host: "127.0.0.1", security: SmtpSecurity.NONE, user: "", from: "acp@example.com" };
    try {
      for (let channels = 1; channels <= MAILS_AT_ONCE; ) {
        const many = await test.person();
        for (let own = 0; own < 5; own++, channels++) {
          await of(many).addNotificationChannel({ email: `p${channels}@example.com` });
        }
      }
      await admin.client(NotificationService).updateNotificationSettings({ smtp: { ...smtp, port: dead.port } });
      await test.escalate();
      await dead.opened(MAILS_AT_ONCE);
      const id = await test.escalate();
      await test.push.pushes.find(({ message }) => message.tag === id);
      await test.slack.calls.find(({ body, raw }) => body.channel === "UANN" && raw.includes(id));
      expect(dead.ended).to.equal(0);
    } finally {
      await admin.client(NotificationService).updateNotificationSettings({ smtp: { ...smtp, port: test.smtp.port } });
      await dead.close();
    }
  });
});
