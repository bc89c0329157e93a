import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import type { ControlPlane, InterceptResult } from "../../src/client/index.ts";
import type { DecisionBody } from "../../src/log/receipts.ts";
import { assertIntact, decisionsOf, readLog } from "../log/stored-log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { type Balancer, startBalancer } from "./balancer.ts";
import { connect, decisionIdsOf, figureOf, limitRefunds, registerAgent, until, workersOf } from "./harness.ts";

const WORKERS = 2;
const CLIENTS = 4;
const ACTIONS = 400;
const LIMIT = 100;
/** Milliseconds of load on a worker before it is killed, and after it. */
const LOAD_MS = 500;
const LANES = 32;

interface Served {
  readonly database: TestDatabase;
  readonly server: TestServer;
}

async function serve(): Promise<Served> {
  const database = await createTestDatabase();
  return { database, server: await startServer({ databaseUrl: database.url, env: { ACP_WORKERS: String(WORKERS) } }) };
}

describe("workers that decide for each other", () => {
  /** One for each worker that is killed. */
  let services: Served[];
  let ways: Balancer[];
  let clients: ControlPlane[];
  let agentId: string;

  before(async () => {
    services = await Promise.all(Array.from({ length: WORKERS }, serve));
  });
  afterEach(() => {
    for (const each of [...clients.splice(0), ...ways.splice(0)]) each.close();
  });
  after(async () => {
    for (const { server, database } of services) {
      await server.stop();
      assertIntact(await readLog(database.url));
      await database.drop();
    }
  });

  /** Opens clients that both workers serve. */
  async function open({ server }: Served): Promise<void> {
    await until("all serve", () => workersOf(server).size === WORKERS);
    // Clients of one address share a connection, and a connection is served by one worker.
    ways = await Promise.all(Array.from({ length: CLIENTS }, () => startBalancer([server.grpc])));
    clients = ways.map(({ address }) => connect({ ...server, grpc: address }, "grpc"));
    agentId = await registerAgent(clients[0] as ControlPlane);
    for (const client of clients) await act(client, "note.write", "first");
    const streams = [...(await figureOf(server, 'acp_calls_in_flight{kind="stream"')).values()];
    expect(streams.filter((count) => count > 0)).to.have.length(WORKERS);
  }

  /** What the agent's actions said, as the log holds them. */
  async function contentsOf({ database }: Served): Promise<string[]> {
    const acted = decisionsOf(await readLog(database.url)).map(({ action }) => action as DecisionBody["action"]);
    return acted.filter(({ agent_id }) => agent_id === agentId).map(({ action_content }) => action_content);
  }

  const act = (client: ControlPlane, actionType: string, actionContent: string): Promise<InterceptResult> =>
    client.intercept({ agentId, actionType, actionContent });

  it("hold a limit of the workspace exactly, and count every action once.", async () => {
    const served = services[0] as Served;
    await open(served);
    await limitRefunds(clients[0] as ControlPlane, LIMIT);
    const calls = Array.from({ length: ACTIONS }, (_, index) =>
      act(clients[index % CLIENTS] as ControlPlane, "refund.send", `refund ${index}`),
    );
    const results = await Promise.all(calls);
    expect(results.filter(({ decision }) => decision === "allow")).to.have.length(LIMIT);
    expect(results.filter(({ decision }) => decision === "block")).to.have.length(ACTIONS - LIMIT);
    const refunds = decisionsOf(await readLog(served.database.url)).filter(
      ({ action }) => action.action_type === "refund.send",
    );
    expect(refunds.map(({ authorisation }) => authorisation.collective_limits[0]?.count)).to.deep.equal(
      Array.from({ length: ACTIONS }, (_, index) => index + 1),
    );
    expect(refunds.map(({ decision_id }) => decision_id)).to.have.members(results.map(({ decisionId }) => decisionId));
  });

  for (const slot of Array.from({ length: WORKERS }, (_, index) => index + 1)) {
    it(`lose and repeat nothing that was answered when worker ${slot} is killed under load.`, async () => {
      const served = services[slot - 1] as Served;
      await open(served);
      const answered: string[] = [];
      let isOver = false;
      const runLane = async (lane: number): Promise<void> => {
        const client = clients[lane % CLIENTS] as ControlPlane;
        for (let count = 0; !isOver; count++) {
          answered.push((await act(client, "note.write", `${lane} ${count}`)).decisionId);
        }
      };
      const running = Promise.all(Array.from({ length: LANES }, (_, lane) => runLane(lane)));
      running.catch(() => undefined);
      await delay(LOAD_MS);
      const before = answered.length;
      process.kill(workersOf(served.server).get(slot) as number, "SIGKILL");
      await delay(LOAD_MS);
      isOver = true;
      await running;
      expect(before).to.be.above(LANES);
      expect(answered.length).to.be.above(before + LANES);
      // The notes with which the streams were opened are the oldest.
      const notes = await decisionIdsOf(clients[0] as ControlPlane, agentId);
      expect(notes.slice(0, -CLIENTS)).to.have.members(answered);
      const contents = await contentsOf(served);
      expect(contents).to.have.length(CLIENTS + answered.length);
      expect(new Set(contents).size).to.equal(1 + answered.length);
    });
  }
});
