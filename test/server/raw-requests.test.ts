import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { connect as tlsConnect } from "node:tls";
import { expect } from "chai";
import { createListener } from "../../src/server/http.ts";
import { ADMIN_KEY, type Harness, startHarness } from "./harness.ts";
import { TEST_TLS } from "./tls-pair.ts";

interface Answer {
  readonly status: number;
  readonly headers: string;
  readonly body: {
    readonly ok: boolean;
    readonly error?: { code: number; status: string; message: string; details: { reason: string }[] };
  };
}

/** Sends bytes as they are; gives the answer once the service closes the connection. */
async function ask(harness: Harness, raw: string, isTls: boolean): Promise<Answer> {
  const address = { host: "127.0.0.1", port: harness.httpPort };
  const socket = isTls ? tlsConnect({ ...address, rejectUnauthorized: false }) : connect(address);
  socket.write(raw);
  const answer = await text(socket);
  const [headers = "", body = ""] = answer.split("\r\n\r\n");
  return { status: Number(headers.split(" ")[1]), headers: headers.toLowerCase(), body: JSON.parse(body) };
}

const CLOSE = "Connection: close\r\n\r\n";
const INTERCEPT = JSON.stringify({ agent_id: "agt_1", action_type: "send" });

const REFUSED = [
  [
    "headers that are too large",
    `GET /healthz HTTP/1.1\r\nHost: a\r\nA: ${"x".repeat(40_000)}\r\n\r\n`,
    431,
    "HEADERS_TOO_LARGE",
  ],
  ["an expectation", `GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n${CLOSE}`, 417, "EXPECTATION_FAILED"],
  ["no host", `GET /healthz HTTP/1.1\r\n${CLOSE}`, 400, "MALFORMED_REQUEST"],
  [
    "a bad chunk",
    `POST /v1/enforce/intercept HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
    400,
    "MALFORMED_REQUEST",
  ],
  ["no HTTP at all", "HELLO\r\n\r\n", 400, "MALFORMED_REQUEST"],
  [
    "two lengths",
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n`,
    400,
    "MALFORMED_REQUEST",
  ],
] as const;

for (const isTls of [false, true]) {
  describe(`a request that Node itself refuses${isTls ? ", over TLS" : ""}`, () => {
    let harness: Harness;

    before(async () => {
      harness = await startHarness(isTls ? { tls: TEST_TLS } : {});
    });

    after(() => harness.stop());

    for (const [name, raw, status, reason] of REFUSED) {
      it(`gets the documented error for ${name}.`, async () => {
        const answer = await ask(harness, raw, isTls);
        expect([answer.status, answer.body.ok, answer.body.error?.code]).to.deep.equal([status, false, status]);
        expect(answer.body.error?.details[0]?.reason).to.equal(reason);
        expect(answer.headers)
          .to.match(/content-type: application\/json/)
          .and.match(/x-request-id: \S+/);
      });
    }

    it("is not one with a whole URL as its target.", async () => {
      const headers = `Host: a\r\nX-API-Key: ${ADMIN_KEY}\r\nContent-Type: application/json\r\n`;
      const raw = `POST http://a.example:7080/v1/enforce/intercept HTTP/1.1\r\n${headers}Content-Length: ${INTERCEPT.length}\r\n${CLOSE}${INTERCEPT}`;
      expect((await ask(harness, raw, isTls)).status).to.equal(200);
      expect(
        (await ask(harness, `GET http://a.example/healthz HTTP/1.1\r\nHost: a\r\n${CLOSE}`, isTls)).body.ok,
      ).to.equal(true);
      const nothing = await ask(harness, `GET http://a.example?x=1 HTTP/1.1\r\nHost: a\r\n${CLOSE}`, isTls);
      expect([nothing.status, nothing.body.error?.details[0]?.reason]).to.deep.equal([404, "ROUTE_NOT_FOUND"]);
    });
  });
}

describe("a request that does not arrive", () => {
  it("gets REQUEST_TIMED_OUT in the documented form.", async () => {
    const listener = createListener({ tls: undefined, headersTimeoutMs: 50, onRequest: () => undefined });
    const socket = connect({ host: "127.0.0.1", port: await listener.listen("127.0.0.1", 0) });
    socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n");
    const answer = await text(socket);
    await listener.close(0);
    expect(answer)
      .to.match(/^HTTP\/1\.1 408 /)
      .and.include('"reason":"REQUEST_TIMED_OUT"');
  });
});
