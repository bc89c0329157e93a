import { once } from "node:events";
import { connect } from "node:http2";
import { expect } from "chai";
import { startServer, type TestServer } from "../support/server.ts";

describe("what the service writes about callers", function () {
  this.timeout(120_000);
  let server: TestServer;

  before(async () => {
    server = await startServer();
  });
  after(() => server.stop());

  it("has no key in it, also where a header over gRPC has characters that are not allowed.", async () => {
    const session = connect(`http://${server.grpc}`);
    await once(session, "connect");
    const stream = session.request({
      ":method": "POST",
      ":path": "/agentcontrol.v1.EnforcementService/Intercept",
      "content-type": "application/grpc",
      te: "trailers",
      "x-api-key": "acp_nobody_may_read_this\u00ff",
    });
    stream.end(Buffer.alloc(5)).resume();
    await once(stream, "close");
    session.destroy();
    await server.stop();
    expect(server.output()).not.to.include("nobody_may_read_this");
  });
});
