import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { type GatewayService, startGateway } from "./harness.ts";
import { startMaliciousServer } from "./malicious-server.ts";
import { until } from "./until.ts";

const SIZE = 4_000_000;
/** More than 128 MiB hold. */
const MESSAGES = 36;

describe("messages of MCP clients in flight", () => {
  let gateway: GatewayService;
  let upstream: Awaited<ReturnType<typeof startMaliciousServer>>;
  before(async () => {
    upstream = await startMaliciousServer();
    gateway = await startGateway({ env: { ACP_MAX_BODY_BYTES: String(SIZE + 1) } });
    await gateway.add("files", { url: upstream.url });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  function begin(length: number, onAnswer: (answer: IncomingMessage) => void): ClientRequest {
    const headers = { ...gateway.headers, "content-type": "application/json", "content-length": `${length}` };
    const begun = request(gateway.urlOf("files"), { method: "POST", headers });
    begun.on("response", onAnswer).on("error", () => undefined);
    return begun;
  }

  it("hold a bounded number of bytes; one past it is refused, and served once others have ended.", async () => {
    const answers: IncomingMessage[] = [];
    const begun = Array.from({ length: MESSAGES }, () => {
      const unfinished = begin(SIZE + 1, (answer) => answers.push(answer));
      unfinished.write(Buffer.alloc(SIZE, " "));
      return unfinished;
    });
    await until(() => answers.length > 0);
    const [refused] = answers as [IncomingMessage];
    expect(refused.statusCode).to.equal(429);
    const { error } = JSON.parse(await text(refused)) as { error: { data: object } };
    expect(error.data).to.include({ reason: "OVERLOADED" });
    for (const each of begun) each.destroy();
    const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
    const statusOfPing = () =>
      new Promise<number | undefined>((resolve) => {
        begin(ping.length, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        }).end(ping);
      });
    let status = await statusOfPing();
    while (status === 429) status = await statusOfPing();
    expect(status).to.equal(200);
  });
});
