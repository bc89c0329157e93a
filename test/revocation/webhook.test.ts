import { expect } from "chai";
import { Webhook as Verifier } from "standardwebhooks";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { type Received, type Receiver, startReceiver } from "../webhook/receiver.ts";

const ENV = {
  ACP_WEBHOOK_ALLOW: "127.0.0.0/8",
  ACP_ADMIN_KEY: "admin-key-of-the-webhook-test",
  // Either replica may lease the webhook, whose secret only this key opens.
  ACP_ENCRYPTION_KEY: "a-secret-of-two-replicas-of-the-tests-",
};
const MANDATE = {
  name: "ask first",
  rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["review.*"] } }],
};

type Answer = { readonly [name: string]: unknown };

async function post(server: ServedHere, path: string, body: object): Promise<Answer> {
  const headers = { "x-api-key": server.adminKey, "content-type": "application/json" };
  const response = await fetch(`${server.http}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = (await response.json()) as Answer;
  if (!response.ok) throw new Error(JSON.stringify(answer));
  return answer;
}

describe("the webhook of a revocation", () => {
  let database: TestDatabase;
  let first: ServedHere;
  let second: ServedHere;
  let receiver: Receiver;

  before(async () => {
    database = await createTestDatabase();
    receiver = await startReceiver();
    first = await serveHere({ databaseUrl: database.url, env: ENV });
    second = await serveHere({ databaseUrl: database.url, env: ENV });
  });

  after(async () => {
    await Promise.all([first?.stop(), second?.stop()]);
    await receiver.close();
    await database.drop();
  });

  it("is sent for RevokeAgent on any replica, signed, and followed by what the revoke rejected.", async () => {
    const events = ["agent.revoked", "escalation.resolved"];
    const { secret } = await post(first, "/v1/enforce/webhooks", { url: receiver.url, events });
    await post(first, "/v1/enforce/mandates", MANDATE);
    const { agent } = (await post(first, "/v1/enforce/agents", { name: "rogue" })) as { agent: { agent_id: string } };
    const { agent_id } = agent;
    const { escalation_id } = await post(first, "/v1/enforce/intercept", { agent_id, action_type: "review.send" });

    const reason = "key found in a public repository";
    const certificate = await post(second, `/v1/enforce/agents/${agent_id}/revoke`, { reason });
    await receiver.waitFor(2);

    const verifier = new Verifier(String(secret));
    const [revoked, resolved] = receiver.received.map(
      ({ headers, body }: Received) => verifier.verify(body, headers as Record<string, string>) as Answer,
    );
    expect(revoked?.type).to.equal("agent.revoked");
    expect(revoked?.data).to.include({
      agent_id,
      revocation_id: certificate.revocation_id,
      seq: certificate.ledger_seq,
    });
    expect(resolved?.type).to.equal("escalation.resolved");
    expect(resolved?.data).to.include({ agent_id, escalation_id });
    expect(receiver.received.map(({ body }) => body).join("")).not.to.include(reason);
  });
});
