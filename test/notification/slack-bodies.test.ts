import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { type NotificationTest, openNotifications } from "./harness.ts";
import type { SignedRequest } from "./slack-server.ts";

/** Bytes of all requests of Slack apps: one network alone holds a fifth. */
const HELD = 2_000_000;
/** Bytes that a slow body sends before it waits, and the number of such bodies that a network may hold. */
const SENT = 80_000;
const FITTING = 4;
/** Bodies that are sent at once. */
const BODIES = 12;
/** Bytes that the route takes in one body. */
const MAX_BODY = 262_144;
/** Address of another network than the default one. */
const ELSEWHERE = "127.0.0.2";

/** Answer to a request. */
interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly text: string;
}

describe("requests of Slack apps", () => {
  let test: NotificationTest;
  let count = 0;

  before(async () => {
    test = await openNotifications({}, { requestBytes: HELD });
    await test.configure();
    const { key } = await test.service.workspace("other");
    const secrets = { slack_bot_token: test.slack.token, slack_signing_secret: test.slack.secret };
    await test.service.rest("PATCH /v1/enforce/notification-settings", secrets, key);
  });
  after(() => test.close());

  /** Headers as Slack sends them, with a signature that is made up. */
  const madeUp = (): Record<string, string> => ({
    "x-slack-request-timestamp": String(Math.floor(Date.now() / 1000)),
    "x-slack-signature": `v0=${randomBytes(32).toString("hex")}`,
  });
  const open = (workspaceId: string, headers: object, localAddress = "127.0.0.1"): ClientRequest =>
    httpRequest(`${test.service.http}/slack/${workspaceId}`, {
      method: "POST",
      headers: { ...headers },
      localAddress,
      agent: false,
    });
  const answerTo = async (request: ClientRequest): Promise<Answer> => {
    const [response] = (await once(request, "response")) as [IncomingMessage];
    const { statusCode: status = 0, headers } = response;
    const said = await text(response).catch(() => "");
    request.on("error", () => undefined).destroy();
    return { status, retryAfter: headers["retry-after"], text: said };
  };
  /** Sends a request that Slack signed and that asks for nothing. */
  const signed = async (workspaceId: string, localAddress?: string): Promise<number> => {
    count += 1;
    const { body, headers }: SignedRequest = test.slack.sign(`ssl_check=1&n=${count}`);
    const request = open(workspaceId, { ...headers, "content-length": String(body.length) }, localAddress);
    request.end(body);
    return (await answerTo(request)).status;
  };
  /** Sends the beginnings of more large bodies than a network may hold; resolves once some are refused. */
  const fill = async (workspaceOf: (index: number) => string) => {
    const answers = Array.from({ length: BODIES }, (_, index) => {
      const request = open(workspaceOf(index), { ...madeUp(), "content-length": String(MAX_BODY) });
      request.write("x".repeat(SENT));
      return answerTo(request);
    });
    const refusal = await Promise.race(answers);
    return { answers, refusal };
  };
  /** Counts answers by their status. */
  const counted = async (answers: readonly Promise<Answer>[]) => {
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    return {
      late: statuses.filter((status) => status === 408).length,
      refused: statuses.filter((status) => status === 429).length,
    };
  };

  const UNREAD: readonly (readonly [string, () => object])[] = [
    ["a signature", () => ({ "x-slack-request-timestamp": madeUp()["x-slack-request-timestamp"] })],
    ["a time", () => ({ "x-slack-signature": madeUp()["x-slack-signature"] })],
    ["a signature of Slack's form", () => ({ ...madeUp(), "x-slack-signature": "v0=abc" })],
    [
      "a time of the last five minutes",
      () => ({ ...madeUp(), "x-slack-request-timestamp": String(Math.floor(Date.now() / 1000) - 400) }),
    ],
  ];
  for (const [what, headers] of UNREAD) {
    it(`are refused without ${what} before their bodies arrive.`, async () => {
      const request = open("default", { ...headers(), "content-length": "200000" });
      request.flushHeaders();
      expect((await answerTo(request)).status).to.equal(401);
    });
  }

  it("are refused for their size before they arrive, or once they are larger.", async () => {
    const declared = open("default", { ...madeUp(), "content-length": String(MAX_BODY + 1) });
    declared.flushHeaders();
    const undeclared = open("default", madeUp());
    undeclared.write("x".repeat(MAX_BODY + 1));
    for (const request of [declared, undeclared]) {
      const { status, text: said } = await answerTo(request);
      expect([status, said.includes("BODY_TOO_LARGE")]).to.deep.equal([413, true]);
    }
  });

  it("that are slow and large hold a network's share, and lock out no other workspace and no other network.", async () => {
    const { answers, refusal } = await fill(() => "default");
    expect([refusal.status, refusal.retryAfter]).to.deep.equal([429, "1"]);
    // A stranger learns nothing of what others hold.
    expect(refusal.text)
      .to.include("OVERLOADED")
      .and.not.match(/held|most|default/);
    expect(await signed("other")).to.equal(200);
    expect(await signed("default", ELSEWHERE)).to.equal(200);
    const { late, refused } = await counted(answers);
    expect(late).to.be.within(1, FITTING);
    expect(late + refused).to.equal(BODIES);
    expect(await signed("default")).to.equal(200);
  });

  it("of workspaces that do not exist share the part of one.", async () => {
    const { answers, refusal } = await fill((index) => `made-up-${index}`);
    expect(refusal.status).to.equal(429);
    expect(await signed("default")).to.equal(200);
    expect((await counted(answers)).late).to.be.within(1, FITTING);
  });

  it("hold nothing once they broke off.", async () => {
    for (let round = 0; round < 12; round++) {
      const request = open("default", { ...madeUp(), "content-length": String(MAX_BODY) });
      request.on("error", () => undefined);
      await new Promise((resolve) => request.write("x".repeat(SENT), resolve));
      request.destroy();
    }
    // The service learns of broken connections a moment later.
    while ((await signed("default")) !== 200);
    expect(await signed("default")).to.equal(200);
  });
});
