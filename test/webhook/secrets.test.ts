import { expect } from "chai";
import { Webhook as Verifier } from "standardwebhooks";
import { createEncryptor } from "../../src/store/encryptor.ts";
import type { Webhook, WebhookSecret, Webhooks } from "../../src/webhook/webhooks.ts";
import { until } from "../support/harness.ts";
import { CALLER, type DeliveryTest, openDelivery } from "./harness.ts";
import type { Received } from "./receiver.ts";

const OTHER_KEY = createEncryptor("another-encryption-key-0123456789-abcdef");
const UNREADABLE = /^the secret cannot be read: .*`ACP_ENCRYPTION_KEY`/;

const verify = (secret: string, { headers, body }: Received): unknown =>
  new Verifier(secret).verify(body, headers as Record<string, string>);

describe("the secrets of webhooks", () => {
  let test: DeliveryTest;
  const signal = new AbortController().signal;
  const idOf = ({ webhook }: { readonly webhook: Webhook }): string => webhook.webhookId;

  beforeEach(async () => {
    test = await openDelivery();
  });
  afterEach(() => test.close());

  const row = async (webhookId: string): Promise<string> => {
    const text = "select w::text || encode(sealed_secret, 'escape') as text from webhook w where webhook_id = $1";
    return (await test.database.pool.query(text, [webhookId])).rows[0].text;
  };
  const execute = (text: string, ...values: readonly unknown[]) => test.database.pool.query(text, [...values]);
  const errorOf = async (webhookId: string, webhooks: Webhooks = test.webhooks): Promise<string | null> =>
    (await webhooks.test(CALLER, webhookId, signal)).error;

  it("are nowhere in the database as text, neither at a registration nor after a rotation.", async () => {
    const created = await test.register();
    const rotated = await test.webhooks.rotate(CALLER, idOf(created));
    for (const { secret } of [created, rotated]) {
      const [, bytes = ""] = secret.split("_");
      expect(await row(idOf(created)))
        .not.to.include(bytes)
        .and.not.include(Buffer.from(bytes, "base64").toString("hex"));
    }
  });

  it("sign as before: with the old and the new one after a rotation.", async () => {
    const created = await test.register();
    const rotated = await test.webhooks.rotate(CALLER, idOf(created));
    expect(await errorOf(idOf(created))).to.equal(null);
    const [received] = test.receiver.received as [Received];
    for (const { secret } of [created, rotated]) expect(verify(secret, received)).to.be.an("object");
  });

  it("do not open in another row, in the other column, or in another workspace.", async () => {
    const [one, other] = [await test.register(), await test.register()];
    const moves: readonly (readonly [what: string, sql: string])[] = [
      [
        "row",
        "update webhook w set sealed_secret = o.sealed_secret from webhook o where o.webhook_id = $2 and w.webhook_id = $1",
      ],
      ["column", "update webhook set sealed_secret = sealed_old_secret where webhook_id = $1 and $2 <> ''"],
      [
        "bytes",
        "update webhook set sealed_secret = set_byte(sealed_secret, 30, 255 - get_byte(sealed_secret, 30)) where webhook_id = $1 and $2 <> ''",
      ],
      ["nothing", "update webhook set sealed_secret = '' where webhook_id = $1 and $2 <> ''"],
    ];
    for (const [what, sql] of moves) {
      await test.webhooks.rotate(CALLER, idOf(one));
      await test.webhooks.rotate(CALLER, idOf(one));
      expect(await errorOf(idOf(one)), what).to.equal(null);
      const count = test.receiver.received.length;
      await execute(sql, idOf(one), idOf(other));
      expect(await errorOf(idOf(one)), what).to.match(UNREADABLE);
      expect(test.receiver.received, what).to.have.length(count);
    }
    await execute("update webhook set workspace_id = 'elsewhere' where webhook_id = $1", idOf(other));
    const elsewhere = { ...CALLER, workspaceId: "elsewhere" };
    expect((await test.webhooks.test(elsewhere, idOf(other), signal)).error).to.match(UNREADABLE);
  });

  it("under another key send nothing: the attempt is listed with the reason, and the right key resumes.", async () => {
    const { secret, webhook } = await test.register(["decision.blocked"]);
    const { webhookId } = webhook;
    const stranger = test.openWebhooks({ encryptor: OTHER_KEY });
    stranger.start();
    const { seq } = await test.block();
    await until(async () => (await test.attemptsOf(webhookId)).length > 1);
    await stranger.close();
    const [attempt] = await test.attemptsOf(webhookId);
    expect(attempt?.error).to.match(UNREADABLE).and.not.include(secret);
    expect(attempt).to.include({ delivered: false, statusCode: null, seq });
    expect(await test.get(webhookId)).to.include({ isActive: true, nextSeq: seq });
    expect(test.receiver.received).to.have.length(0);
    test.start();
    await test.receiver.waitUntil(() => test.receiver.seqs.includes(seq));
    expect(verify(secret, test.receiver.received[0] as Received)).to.be.an("object");
  });

  it("are cured by a rotation when the key is lost: the old one is given up, and so said.", async () => {
    const created = await test.register();
    const stranger = test.openWebhooks({ encryptor: OTHER_KEY });
    expect(await errorOf(idOf(created), stranger))
      .to.match(UNREADABLE)
      .and.include("rotate");
    const beforeMs = Date.now() + 60_000;
    const rotated = await stranger.rotate(CALLER, idOf(created));
    expect(rotated.oldSecretUntilMs).to.be.below(beforeMs);
    expect(await errorOf(idOf(created), stranger)).to.equal(null);
    const [received] = test.receiver.received as [Received];
    expect(verify(rotated.secret, received)).to.be.an("object");
    expect(() => verify(created.secret, received)).to.throw();
  });

  it("follow each other when several calls rotate at once: the newest and the one before it sign.", async () => {
    const created = await test.register();
    const rotations: WebhookSecret[] = await Promise.all(
      Array.from({ length: 5 }, () => test.webhooks.rotate(CALLER, idOf(created))),
    );
    expect(await errorOf(idOf(created))).to.equal(null);
    const [received] = test.receiver.received as [Received];
    const signing = rotations.filter(({ secret }) => {
      try {
        return verify(secret, received) !== undefined;
      } catch {
        return false;
      }
    });
    expect(signing).to.have.length(2);
  });
});
