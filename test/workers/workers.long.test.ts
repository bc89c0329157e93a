import { readFile } from "node:fs/promises";
import { Client, credentials } from "@grpc/grpc-js";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { metricsOf, sumOf } from "../support/metrics.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connect, decisionIdsOf, registerAgent } from "../support/service.ts";
import { metadataWith } from "../support/wires.ts";
import { isAlive, until, workerPids } from "./harness.ts";

const WORKERS = 2;
const CONNECTIONS = 8;
const STREAM = `/${EnforcementService.typeName}/InterceptStream`;

/** Opens a stream on a connection of its own, and leaves it open. */
function openStream(server: TestServer): Client {
  const client = new Client(server.grpc, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  const asIs = (bytes: Buffer): Buffer => bytes;
  client.makeBidiStreamRequest(STREAM, asIs, asIs, metadataWith(server.adminKey)).on("error", () => undefined);
  return client;
}

describe("workers that share the ports", () => {
  let database: TestDatabase;
  let server: TestServer;
  let controlPlane: ControlPlane;

  const start = (env: Record<string, string> = {}): Promise<TestServer> =>
    startServer({
      databaseUrl: database.url,
      env: { ACP_WORKERS: String(WORKERS), ACP_DATABASE_OWNER_URL: database.ownerUrl, ...env },
    });

  before(async () => {
    database = await createTestDatabase();
    server = await start();
    controlPlane = connect(server);
  });
  after(async () => {
    controlPlane.close();
    await server.stop();
    await database.drop();
  });

  it("are announced once, when all of them listen.", async () => {
    await until("the log says that all listen", () => workerPids(server).length === WORKERS);
    expect(server.output().match(/"msg":"listening"/g)).to.have.length(1);
  });

  it("do not know the login of the database's owner, which their parent migrated with.", async function () {
    if (process.platform !== "linux") this.skip();
    for (const pid of workerPids(server)) {
      const environment = (await readFile(`/proc/${pid}/environ`, "utf8")).split("\0");
      expect(environment.filter((line) => line.startsWith("ACP_DATABASE_OWNER_URL="))).to.deep.equal([
        "ACP_DATABASE_OWNER_URL=",
      ]);
      expect(environment.join()).not.to.include(new URL(database.ownerUrl).password);
    }
  });

  it("share the connections, also those that live long, and keep open those of the others when one is killed.", async () => {
    const clients = Array.from({ length: CONNECTIONS }, () => openStream(server));
    const openStreams = async () =>
      sumOf(await metricsOf(server.http), "acp_streams_open", { kind: "intercept_stream" });
    await until("all streams are open", async () => (await openStreams()) === CONNECTIONS);
    const [victim = 0] = workerPids(server);
    process.kill(victim, "SIGKILL");
    await until("another listens", () => workerPids(server).every((pid) => pid !== victim));
    expect(await openStreams()).to.be.within(1, CONNECTIONS - 1);
    for (const client of clients) client.close();
  });

  it("keep every decision that was answered when one of them is killed, and get another in its place.", async () => {
    const agentId = await registerAgent(controlPlane);
    const [victim = 0] = workerPids(server);
    const calls = Array.from({ length: 200 }, async (_, index) => {
      const action = { agentId, actionType: "note.write", actionContent: `note ${index}` };
      const { decisionId } = await controlPlane.intercept(action);
      if (index === 20) process.kill(victim, "SIGKILL");
      return decisionId;
    });
    const answered = await Promise.all(calls);
    await until("another worker listens", () => workerPids(server).every((pid) => pid !== victim));
    // By now the client knows which of its connections the killed worker had.
    expect(await decisionIdsOf(controlPlane, agentId)).to.have.members(answered);
  });

  it("end with a program that cannot have its ports.", async () => {
    const { port } = new URL(server.http);
    const failure = await start({ ACP_HTTP_PORT: port }).catch((error: Error) => error);
    const said = ["ended with 1 before it listened", "EADDRINUSE", "the control plane cannot run"];
    for (const text of said) expect(String(failure)).to.contain(text);
  });

  it("end with a primary that is killed.", async () => {
    const other = await start();
    await until("the log says that all serve", () => workerPids(other).length === WORKERS);
    const pids = workerPids(other);
    await other.kill();
    await until("no worker is left", () => !pids.some(isAlive));
  });

  it("all stop when the primary is told to.", async () => {
    const pids = workerPids(server);
    expect(await server.stop()).to.equal(0);
    expect(pids.filter(isAlive)).to.deep.equal([]);
  });
});
