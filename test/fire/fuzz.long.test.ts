import { expect } from "chai";
import { startServer, type TestServer } from "../support/server.ts";
import { registerAgents } from "./agents.ts";
import { runFuzz } from "./fuzz.ts";
import type { Actor } from "./retrying-callers.ts";

const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);

describe("calls whose bytes were changed", function () {
  this.timeout(120_000);
  let server: TestServer;

  before(async () => {
    server = await startServer({ env: { ACP_LOG_LEVEL: "error" } });
  });
  after(() => server.stop());

  it(`are answered without an internal error, and hold up no plain action (seed ${SEED}).`, async () => {
    const [actor] = (await registerAgents(server, 1)) as [Actor];
    const { cases, findings } = await runFuzz(server, actor, { seed: SEED, milliseconds: 15_000, lanes: 4 });
    expect(findings).to.deep.equal([]);
    expect(Object.keys(cases)).to.have.members(["http1", "http2", "protobuf", "envelope", "json"]);
  });
});
