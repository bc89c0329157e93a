import { expect } from "chai";
import { NotificationService } from "../../gen/agentcontrol/v1/notification_service_pb.js";
import { type NotificationTest, openNotifications, type Person, refusalOf } from "./harness.ts";

describe("notifications by Web Push", () => {
  let test: NotificationTest;
  let person: Person;
  let publicKey: string;
  const of = ({ plane }: Person) => plane.client(NotificationService);
  const subscribe = (who: Person) =>
    of(who).addNotificationChannel({ push: test.push.subscribe(publicKey), label: "Firefox on a phone" });

  before(async () => {
    test = await openNotifications();
    person = await test.person();
    publicKey = (await of(person).getNotificationPreferences({})).pushPublicKey;
  });
  after(() => test.close());

  it("give every browser of a workspace the same key, and another workspace another.", async () => {
    const other = await test.person();
    expect((await of(other).getNotificationPreferences({})).pushPublicKey).to.equal(publicKey);
    const { key } = await test.service.workspace("elsewhere");
    const far = await test.service.rest("GET /v1/enforce/notification-preferences", undefined, key);
    expect(far)
      .to.have.property("push_public_key")
      .that.matches(/^[\w-]{87}$/)
      .and.does.not.equal(publicKey);
  });

  it("tell a browser of an escalation, signed and encrypted, with the number of those that wait.", async () => {
    const { channel } = await subscribe(person);
    expect(channel?.label).to.equal("Firefox on a phone");
    const id = await test.escalate();
    const { message, headers, claims } = await test.push.pushes.find((each) => each.message.tag === id);
    expect(message).to.deep.equal({
      title: "An action waits for an answer",
      body: "payer wants pay",
      tag: id,
      path: `/escalations/${id}`,
      pending: 1,
    });
    expect([headers.urgency, claims.sub]).to.deep.equal(["high", "https://acp.example.com"]);
    expect(Number(headers.ttl)).to.be.greaterThan(60);
    expect(test.push.faults).to.deep.equal([]);
    const next = await test.escalate();
    expect((await test.push.pushes.find((each) => each.message.tag === next)).message.pending).to.equal(2);
  });

  it("give a subscription that exists as the channel that exists.", async () => {
    const push = test.push.subscribe(publicKey);
    const first = await of(person).addNotificationChannel({ push });
    const again = await of(person).addNotificationChannel({ push });
    expect(again.channel?.channelId).to.equal(first.channel?.channelId);
    await of(person).removeNotificationChannel({ channelId: first.channel?.channelId ?? "" });
  });

  const REFUSED = [
    { endpoint: "https://push.example.net/1", reason: "TARGET_NOT_ALLOWED" },
    { endpoint: "https://127.0.0.1.example.net/1", reason: "TARGET_NOT_ALLOWED" },
    { endpoint: "https://10.0.0.1/1", reason: "TARGET_NOT_ALLOWED" },
    { endpoint: "http://push.example.net/1", reason: "INVALID_FIELD" },
    { endpoint: "https://a:b@127.0.0.1/1", reason: "INVALID_FIELD" },
    { endpoint: "file:///etc/passwd", reason: "INVALID_FIELD" },
  ];
  for (const { endpoint, reason } of REFUSED) {
    it(`refuse a subscription at ${endpoint}.`, async () => {
      const push = { ...test.push.subscribe(publicKey), endpoint };
      expect(await refusalOf(of(person).addNotificationChannel({ push }))).to.equal(reason);
    });
  }

  it("refuse a listed push service whose address is private.", async () => {
    const strict = await openNotifications({ ACP_WEBHOOK_ALLOW: "", ACP_PUSH_HOSTS: "localhost" });
    try {
      const who = await strict.person();
      const push = { ...strict.push.subscribe(publicKey), endpoint: "https://localhost/1" };
      expect(await refusalOf(of(who).addNotificationChannel({ push }))).to.equal("TARGET_NOT_ALLOWED");
    } finally {
      await strict.close();
    }
  });

  it("end with a subscription that the browser ended, and begin again with a new one.", async () => {
    test.push.answer = 410;
    await test.escalate();
    const first = async () => (await of(person).getNotificationPreferences({})).channels[0];
    let channel = await first();
    while (channel?.isActive) channel = await first();
    expect(channel?.error).to.equal("the browser ended its subscription");
    test.push.answer = 201;
    await subscribe(person);
    const id = await test.escalate();
    await test.push.pushes.find((each) => each.message.tag === id);
  });

  it("bound the browsers of a person.", async () => {
    const many = await test.person();
    for (let count = 0; count < 10; count++) await subscribe(many);
    expect(await refusalOf(subscribe(many))).to.equal("INVALID_FIELD");
  });
});
