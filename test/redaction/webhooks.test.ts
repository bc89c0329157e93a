import { createHmac } from "node:crypto";
import { expect } from "chai";
import { reasonOf } from "../support/harness.ts";
import { openRedactionWorkspace, PERSONAL, type RedactionWorkspace, sealedChanges } from "./harness.ts";
import { type RawReceiver, startRawReceiver } from "./raw-receiver.ts";
import { chatEvents, completion, sends, streams } from "./upstream.ts";

const { email, card } = PERSONAL;
const CHAT = "/chat/completions";
const ASK = { model: "test-1", messages: [] };
const SECRET = "whsec-of-a-test";
/** Longer than every attempt: closing waits for all notices that were sent. */
const GRACE_MS = 60_000;

describe("a redaction webhook", () => {
  let workspace: RedactionWorkspace;
  let receiver: RawReceiver;
  let silent: RawReceiver;
  before(async () => {
    workspace = await openRedactionWorkspace();
    receiver = await startRawReceiver();
    silent = await startRawReceiver({ isSilent: true });
  });
  after(async () => {
    await workspace?.close();
    await receiver?.close();
    await silent?.close();
  });
  beforeEach(() => {
    receiver.requests.length = 0;
    workspace.upstream.answer = sends(completion({ content: `${email} and ${card}` }));
  });
  afterEach(async () => {
    const { webhooks } = workspace.redaction;
    const { items } = await webhooks.list(workspace.caller, { size: 100 });
    for (const { webhookId } of items) await webhooks.delete(workspace.caller, webhookId);
  });

  const create = ({ port }: RawReceiver, secret?: string) =>
    workspace.redaction.webhooks.create(workspace.caller, { url: `http://127.0.0.1:${port}/hook?a=b`, secret });

  it("gets exactly the documented request, signed with its secret.", async () => {
    await create(receiver, SECRET);
    await workspace.post(CHAT, ASK);
    await receiver.waitFor(1);
    const [sealed] = await sealedChanges(workspace, "leakage_detected");
    const timestamp = String(sealed?.at).replace("Z", "");
    const body = `{"event":"leakage.detected","workspace_id":"default","leaked_count":2,"timestamp":"${timestamp}"}`;
    const signature = createHmac("sha256", SECRET).update(body).digest("hex");
    const lines = [
      "POST /hook?a=b HTTP/1.1",
      "Content-Type: application/json",
      "User-Agent: Service-Redact/4.0",
      `X-Service-Signature: sha256=${signature}`,
      `Content-Length: ${body.length}`,
      `Host: 127.0.0.1:${receiver.port}`,
      "Connection: close",
    ];
    expect(receiver.requests).to.deep.equal([`${lines.join("\r\n")}\r\n\r\n${body}`]);
    expect(timestamp).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}$/);
  });

  it("without a secret gets no signature.", async () => {
    await create(receiver);
    await workspace.post(CHAT, ASK);
    await receiver.waitFor(1);
    expect(receiver.requests[0]).not.to.include("X-Service-Signature");
  });

  it("is called while it is active, and only when something leaked.", async () => {
    const { webhookId } = await create(receiver);
    const { webhooks } = workspace.redaction;
    await webhooks.update(workspace.caller, webhookId, { isActive: false });
    const before = await workspace.process();
    await before.post(CHAT, ASK);
    // Waits until the notice of this leak has found nobody to call.
    await before.redaction.close(GRACE_MS);
    const own = await workspace.process();
    await webhooks.update(workspace.caller, webhookId, { isActive: true });
    workspace.upstream.answer = sends(completion({ content: "nothing personal" }));
    await own.post(CHAT, ASK);
    workspace.upstream.answer = streams(chatEvents([email.slice(0, 4), email.slice(4)]));
    await (await own.post(CHAT, { ...ASK, stream: true })).text();
    await receiver.waitFor(1);
    await own.redaction.close(GRACE_MS);
    expect(receiver.requests.length).to.equal(1);
    expect(receiver.requests[0]).to.include('"leaked_count":1');
  });

  it("is called once, whatever becomes of it, and keeps nobody waiting.", async () => {
    await create(silent);
    await workspace.redaction.webhooks.create(workspace.caller, { url: "http://127.0.0.1:1/", secret: undefined });
    await create(receiver);
    const own = await workspace.process({ attemptMs: 200 });
    await own.post(CHAT, ASK);
    await Promise.all([silent.waitFor(1), receiver.waitFor(1)]);
    await own.redaction.close(GRACE_MS);
    expect(silent.requests.length).to.equal(1);
    expect(own.logged()).to.include("no answer within 200 ms").and.to.include("notice was lost");
  });

  it("hears of what was leaked before the caller went away.", async () => {
    await create(receiver);
    workspace.upstream.answer = async (_asked, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(
        chatEvents([`${email} and `, "so "])
          .slice(0, 3)
          .join(""),
      );
    };
    const response = await workspace.post(CHAT, { ...ASK, stream: true });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await reader.cancel();
    await receiver.waitFor(1);
    expect(receiver.requests[0]).to.include('"leaked_count":1');
  });

  it("is sealed before the answer ends, so that what it missed can be audited.", async () => {
    const before = (await sealedChanges(workspace, "leakage_detected")).length;
    workspace.upstream.answer = streams(chatEvents([email]));
    await (await workspace.post(CHAT, { ...ASK, stream: true })).text();
    expect((await sealedChanges(workspace, "leakage_detected")).length).to.equal(before + 1);
  });

  it("leads to no address that is not allowed, and never shows its secret.", async () => {
    const { webhooks } = workspace.redaction;
    const draft = { url: "http://192.168.1.1/", secret: SECRET };
    expect(await reasonOf(webhooks.create(workspace.caller, draft))).to.equal("TARGET_NOT_ALLOWED");
    const created = await create(receiver, SECRET);
    expect(created).to.deep.include({ hasSecret: true, isActive: true });
    expect(JSON.stringify(await webhooks.get(workspace.caller, created.webhookId))).not.to.include(SECRET);
    const { rows } = await workspace.database.pool.query("select t::text as text from redaction_webhook t");
    expect(JSON.stringify(rows)).not.to.include(SECRET).and.not.to.include(Buffer.from(SECRET).toString("hex"));
  });
});
