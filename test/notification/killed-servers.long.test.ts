import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { createFireWorkspace, type FireWorkspace } from "../fire/agents.ts";
import { type PaymentFleet, startPaymentFleet } from "../fire/payments.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type DeadServer, startDeadServer } from "./dead-server.ts";
import { type PushDeath, type PushServer, startPushServer } from "./push-server.ts";
import { type SlackServer, startSlackServer } from "./slack-server.ts";
import { type SmtpServer, startSmtpServer } from "./smtp-server.ts";

/** Size of the run; `NOTIFIED=300 KILLS=20` makes a longer one. */
const ESCALATIONS = Number(process.env.NOTIFIED ?? 24);
const KILLS = Number(process.env.KILLS ?? 3);
const PROCESSES = 3;
/** Milliseconds between escalations. */
const EVERY_MS = 100;
const HOUR_MS = 3_600_000;
/** Milliseconds after which a message counts as lost: leases of killed processes end long before. */
const LIMIT_MS = 60_000;

/** A message that a channel took. */
interface Received {
  readonly escalationId: string;
  /** Id by which its receiver may recognise a second copy. */
  readonly id: string;
}

/** A channel by its name, with what it took. */
interface Channel {
  readonly name: string;
  readonly received: () => readonly Received[];
}

/** A person with a key of their own. */
interface Person {
  readonly key: string;
  readonly keyId: string;
}

const ID = /esc_[a-z2-7]{26}/;
const hourFrom = (offsetMs: number): string => new Date(Date.now() + offsetMs).toISOString().slice(11, 16);

describe("notifications of three processes, while one after the other is killed", function () {
  this.timeout(120_000 + ESCALATIONS * 500 + KILLS * 30_000);

  const cleanup = new AsyncDisposableStack();
  let database: TestDatabase;
  let smtp: SmtpServer;
  let push: PushServer;
  let slack: SlackServer;
  let mute: DeadServer;
  let fleet: PaymentFleet;
  let told: FireWorkspace;
  let muted: FireWorkspace;

  /** Calls some process, and another one while that is gone. */
  const send = async <T>(request: string, key: string, body?: object): Promise<T> => {
    const [method = "", path = ""] = request.split(" ");
    const headers = { "content-type": "application/json", "x-api-key": key };
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    for (let attempt = 0; ; attempt++) {
      const http = fleet.servers[attempt % PROCESSES]?.http ?? "";
      try {
        const response = await fetch(http + path, init);
        const text = await response.text();
        if (response.ok) return JSON.parse(text) as T;
        if (response.status < 500) throw new RangeError(`${request}: ${text}`);
      } catch (error) {
        if (error instanceof RangeError) throw error;
      }
      await delay(50);
    }
  };

  const prepare = async (workspaceId: string, port: number): Promise<FireWorkspace> => {
    const [first] = fleet.servers;
    if (first === undefined) throw new Error("no process");
    const workspace = await createFireWorkspace(first, workspaceId, { max_pending_escalations_per_agent: 1_000 });
    const conditions = { match_action_types: ["pay"] };
    const rules = [{ type: "action", decision: "escalate", conditions }];
    await send("POST /v1/enforce/mandates", workspace.apiKey, { name: "people pay", rules });
    await setMailServer(workspace, port);
    return workspace;
  };
  const setMailServer = ({ apiKey }: FireWorkspace, port: number) =>
    send("PATCH /v1/enforce/notification-settings", apiKey, {
      smtp: { host: "127.0.0.1", port, security: "none", user: "", from: "acp@example.com" },
      slack_bot_token: slack.token,
      slack_signing_secret: slack.secret,
    });
  const person = async ({ apiKey }: FireWorkspace): Promise<Person> => {
    type Made = { readonly secret: string; readonly key: { readonly key_id: string } };
    const draft = { name: `person ${randomUUID()}`, role: "operator" };
    const { secret, key } = await send<Made>("POST /v1/admin/keys", apiKey, draft);
    return { key: secret, keyId: key.key_id };
  };
  const addMail = ({ key }: Person, email: string) => send("POST /v1/enforce/notification-channels", key, { email });
  const addPush = async ({ key }: Person, death?: PushDeath): Promise<string> => {
    type Preferences = { readonly push_public_key: string };
    const { push_public_key } = await send<Preferences>("GET /v1/enforce/notification-preferences", key);
    const subscription = push.subscribe(push_public_key);
    if (death !== undefined) push.kill(subscription.endpoint, death);
    await send("POST /v1/enforce/notification-channels", key, { push: subscription, label: "a browser" });
    return subscription.endpoint;
  };
  const link = async ({ key }: Person, user: string): Promise<void> => {
    type Code = { readonly code: string };
    const { code } = await send<Code>("POST /v1/enforce/notification-channels:link-slack", key, {});
    const request = slack.sign(slack.command(user, code));
    const response = await fetch(`${fleet.servers[0]?.http}/slack/told`, { method: "POST", ...request });
    expect(await response.text()).to.include("is linked");
  };
  /** Sets the preferences of a person, which also tries at once what waits. */
  const prefer = ({ key }: Person, preferences: object) =>
    send("PUT /v1/enforce/notification-preferences", key, { preferences });
  const escalate = async ({ agentId, apiKey }: FireWorkspace): Promise<string> => {
    const action = { agent_id: agentId, action_type: "pay", action_content: randomUUID(), request_id: randomUUID() };
    type Decided = { readonly escalation_id: string };
    return (await send<Decided>("POST /v1/enforce/intercept", apiKey, action)).escalation_id;
  };

  const mailsTo = (address: string): Received[] =>
    smtp.mails.all
      .filter(({ to }) => to.includes(address))
      .map(({ text, headers }) => ({
        escalationId: ID.exec(text)?.[0] ?? "",
        id: headers.get("message-id") ?? "",
      }));
  const pushesTo = (browser: string): Received[] =>
    push.pushes.all
      .filter(({ endpoint }) => endpoint === browser)
      .map(({ message, headers }) => ({ escalationId: String(message.tag), id: String(headers.topic) }));
  const postsTo = (user: string): Received[] =>
    slack.calls.all
      .filter(({ method, body }) => method === "chat.postMessage" && body.channel === user)
      .map(({ raw, body }) => ({ escalationId: ID.exec(raw)?.[0] ?? "", id: body.client_msg_id ?? "" }));
  /** Resolves once a channel was told of all these escalations; rejects with those that are missing. */
  const reached = async (channel: Channel, ids: readonly string[]): Promise<void> => {
    for (const end = performance.now() + LIMIT_MS; ; await delay(20)) {
      const seen = new Set(channel.received().map(({ escalationId }) => escalationId));
      const missing = ids.filter((id) => !seen.has(id));
      if (missing.length === 0) return;
      if (performance.now() > end) throw new Error(`${channel.name} lacks ${missing.length} of ${ids.length}`);
    }
  };

  before(async () => {
    database = await createTestDatabase();
    [smtp, push, slack] = await Promise.all([startSmtpServer(), startPushServer(), startSlackServer()]);
    mute = await startDeadServer("silent");
    fleet = await startPaymentFleet(database.url, PROCESSES, cleanup, {
      ACP_PUBLIC_URL: "https://acp.example.com",
      ACP_WEBHOOK_ALLOW: "127.0.0.0/8",
      ACP_PUSH_HOSTS: push.host,
      ACP_SLACK_URL: slack.url,
    });
    told = await prepare("told", smtp.port);
    muted = await prepare("muted", mute.port);
  });
  after(async () => {
    await cleanup.disposeAsync();
    await Promise.all([smtp.close(), push.close(), slack.close(), mute.close()]);
    await database.drop();
  });

  it("reach everybody on every channel, nobody who left, and nobody in quiet hours.", async () => {
    const [ann, ben, cleo, leaver, resting, silent] = (await Promise.all([
      person(told),
      person(told),
      person(told),
      person(told),
      person(told),
      person(muted),
    ])) as [Person, Person, Person, Person, Person, Person];
    await addMail(ann, "ann@example.com");
    const annsPhone = await addPush(ann);
    await link(ann, "UANN");
    await addMail(ben, "ben@example.com");
    const dead = [await addPush(cleo, "silent"), await addPush(cleo, "endless"), await addPush(cleo, 500)];
    await addMail(leaver, "leaver@example.com");
    await addMail(resting, "resting@example.com");
    await prefer(resting, {
      quiet_hours: { from: hourFrom(-HOUR_MS), to: hourFrom(2 * HOUR_MS), time_zone: "Etc/UTC" },
    });
    await addMail(silent, "silent@example.com");

    const mail = (address: string): Channel => ({ name: address, received: () => mailsTo(address) });
    const browser = (endpoint: string, name: string): Channel => ({ name, received: () => pushesTo(endpoint) });
    const living: readonly Channel[] = [
      mail("ann@example.com"),
      browser(annsPhone, "Ann's phone"),
      { name: "Ann in Slack", received: () => postsTo("UANN") },
      mail("ben@example.com"),
    ];
    const ids: string[] = [];
    const quiet: string[] = [];
    const afterLeaving: string[] = [];
    let hasLeft = false;
    const ask = async (): Promise<void> => {
      for (let asked = 0; asked < ESCALATIONS; asked++) {
        if (asked === Math.floor(ESCALATIONS / 2)) {
          await send(`DELETE /v1/admin/keys/${leaver.keyId}`, told.apiKey);
          hasLeft = true;
        }
        const id = await escalate(told);
        ids.push(id);
        if (hasLeft) afterLeaving.push(id);
        if (asked % 8 === 0) quiet.push(await escalate(muted));
        await delay(EVERY_MS);
      }
    };
    const kill = async (): Promise<void> => {
      for (let kills = 0; kills < KILLS; kills++) {
        // As a mail was taken, and before its process may have noted so.
        await smtp.mails.count(Math.ceil(((kills + 1) * ESCALATIONS) / (KILLS + 1)));
        await fleet.killAndRestart(kills % PROCESSES);
      }
    };
    await Promise.all([ask(), kill()]);
    expect(push.lost).to.be.at.least(dead.length);
    await Promise.all(living.map((channel) => reached(channel, ids)));
    expect(dead.flatMap(pushesTo)).to.deep.equal([]);
    expect(mailsTo("resting@example.com")).to.deep.equal([]);
    expect(mailsTo("silent@example.com")).to.deep.equal([]);

    push.heal();
    await setMailServer(muted, smtp.port);
    await Promise.all([prefer(cleo, {}), prefer(resting, {})]);
    const healed = [...dead.map((each, index) => browser(each, `dead push ${index}`)), mail("resting@example.com")];
    await Promise.all(healed.map((channel) => reached(channel, ids)));
    await reached(mail("silent@example.com"), quiet);

    const late = mailsTo("leaver@example.com").filter(({ escalationId }) => afterLeaving.includes(escalationId));
    expect(late).to.deep.equal([]);
    let copies = 0;
    for (const { name, received } of [...living, ...healed]) {
      const byId = Map.groupBy(received(), ({ escalationId }) => escalationId);
      for (const same of byId.values()) expect(new Set(same.map(({ id }) => id)).size, name).to.equal(1);
      expect(new Set(received().map(({ id }) => id)).size, name).to.equal(byId.size);
      // A kill interrupts at most one message of a channel.
      expect(received().length - byId.size, name).to.be.at.most(KILLS);
      copies += received().length - byId.size;
    }
    expect(push.faults).to.deep.equal([]);
    console.log(`      ${ids.length} escalations over ${living.length + healed.length} channels, ${copies} told twice`);
  });
});
