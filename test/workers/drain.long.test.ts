import { credentials, loadPackageDefinition } from "@grpc/grpc-js";
import type { PackageDefinition } from "@grpc/proto-loader";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";
import { healthService } from "../support/loaded-proto.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connect, registerAgent } from "../support/service.ts";
import { type Answer, type CallOptions, openWires, type Wire, type Wires } from "../support/wires.ts";
import { until } from "./harness.ts";

const INTERCEPT = EnforcementService.method.intercept;
const WATCH = EscalationService.method.watchEscalations;

/** Runs `use` while nothing can be appended to the log of the workspace `default`. */
async function whileLogIsHeld<T>(
  { url }: TestDatabase,
  use: (release: () => Promise<unknown>) => Promise<T>,
): Promise<T> {
  return withClient(url, async (client) => {
    await client.query("begin");
    await client.query("select from ledger_head where workspace_id = 'default' for update");
    return use(() => client.query("rollback"));
  });
}

/** Whether a statement of the service waits for a lock. */
async function appendWaits({ url }: TestDatabase): Promise<boolean> {
  const text = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  return withClient(url, async (client) => (await client.query(text)).rows.length > 0);
}

interface HealthWatch {
  readonly told: string[];
  close(): void;
}

function watchHealth(address: string): HealthWatch {
  const definition = loadPackageDefinition({ "x.Health": healthService } as PackageDefinition);
  const { Health } = (definition as never as { x: { Health: new (...given: unknown[]) => never } }).x;
  const client = new Health(address, credentials.createInsecure()) as {
    watch(request: object): NodeJS.EventEmitter;
    close(): void;
  };
  const told: string[] = [];
  const call = client.watch({ service: "" });
  call.on("data", ({ status }: { status: string }) => told.push(status)).on("error", () => undefined);
  return { told, close: () => client.close() };
}

/** The answer that a stream of a wire ends with; undefined for one that ends by itself. */
async function endOf(wire: Wire, options: CallOptions): Promise<Answer | undefined> {
  try {
    for await (const _ of wire.stream(WATCH, {}, options));
    return undefined;
  } catch (error) {
    return error as Answer;
  }
}

/** What a client says of a connection that was closed under its request. */
const CLOSED = /EPIPE|ECONNRESET|socket hang up/;

describe("a service that is told to stop", () => {
  let database: TestDatabase;
  let server: TestServer;
  let controlPlane: ControlPlane;
  let wires: Wires;
  let agentId: string;
  let options: CallOptions;

  beforeEach(async () => {
    database = await createTestDatabase();
    server = await startServer({ databaseUrl: database.url, env: { ACP_DRAIN_MS: "20000" } });
    controlPlane = connect(server);
    wires = openWires(server);
    options = { key: server.adminKey };
    agentId = await registerAgent(controlPlane);
  });
  afterEach(async () => {
    wires.close();
    controlPlane.close();
    await server.kill();
    await database.drop();
  });

  const attempt = (name: string) => ({ agent_id: agentId, action_type: "note.write", action_content: name });
  const intercepting = (wire: Wire): Promise<Answer> => wire.unary(INTERCEPT, attempt(wire.name), options);
  /** Asks again on a new connection if the service closed the idle one in the moment in which the call was written. */
  async function interceptingAnew(wire: Wire): Promise<Answer> {
    const answer = await intercepting(wire);
    return CLOSED.test(answer.message ?? "") ? intercepting(wire) : answer;
  }
  const metrics = async (): Promise<string> => (await fetch(`${server.http}/metrics`)).text();
  const isReady = async (): Promise<boolean> => (await fetch(`${server.http}/readyz`)).ok;

  it("says so, takes no new call, answers those it took, and then ends.", async () => {
    const health = watchHealth(server.grpc);
    await until("it serves", () => health.told[0] === "SERVING");
    await whileLogIsHeld(database, async (release) => {
      const taken = wires.all.map(intercepting);
      const watching = wires.all.map((wire) => endOf(wire, options));
      await until("all are taken", async () => /kind="unary"\} 5\n.*kind="stream"\} 5\n/.test(await metrics()));
      const stopped = server.stop();
      await until("it says that it is not ready", async () => !(await isReady()));
      const refused = await fetch(`${server.http}/readyz`);
      expect([refused.status, refused.headers.get("retry-after")]).to.deep.equal([503, "1"]);
      expect(refused.headers.get("connection")).to.equal("close");
      for (const { code, reason } of await Promise.all(wires.all.map(interceptingAnew))) {
        expect([code, reason]).to.deep.equal(["UNAVAILABLE", "SHUTTING_DOWN"]);
      }
      for (const ending of await Promise.all(watching)) expect(ending?.code).to.equal("UNAVAILABLE");
      await release();
      const answers = await Promise.all(taken);
      expect(answers.map(({ code }) => code)).to.deep.equal(answers.map(() => "OK"));
      expect(health.told).to.deep.equal(["SERVING", "NOT_SERVING"]);
      expect(await stopped).to.equal(0);
      const { rows } = await withClient(database.url, (client) =>
        client.query("select entry_id from ledger_entry where agent_id = $1 and kind = 0", [agentId]),
      );
      const ids = answers.map(({ body }) => (body as { decision_id: string }).decision_id);
      expect(rows.map(({ entry_id }) => entry_id)).to.have.members(ids);
    });
    health.close();
  });

  it("answers the requests of an open stream before the stream ends.", async () => {
    const streaming = connect(server, "grpc");
    const decided = await streaming.intercept({ agentId, actionType: "note.write", actionContent: "first" });
    const results = await whileLogIsHeld(database, async (release) => {
      const calls = Array.from({ length: 50 }, (_, index) =>
        streaming.intercept({ agentId, actionType: "note.write", actionContent: `note ${index}` }),
      );
      await until("an append waits for the log", () => appendWaits(database));
      const stopped = server.stop();
      await until("it says that it is not ready", async () => !(await isReady()));
      await release();
      // The service is gone afterwards: whoever were not answered by the stream would have nobody to ask again.
      expect(await stopped).to.equal(0);
      return Promise.all(calls);
    });
    streaming.close();
    expect(new Set([decided, ...results].map(({ decisionId }) => decisionId)).size).to.equal(51);
  });

  it("ends at once when it is told so again.", async () => {
    await whileLogIsHeld(database, async (release) => {
      const taken = intercepting(wires.all[0] as Wire);
      taken.catch(() => undefined);
      await until("it is taken", async () => /kind="unary"\} 1\n/.test(await metrics()));
      process.kill(server.pid, "SIGTERM");
      await until("it drains", async () => !(await isReady()));
      await new Promise((resolve) => setTimeout(resolve, 600));
      expect(await server.stop()).to.equal(143);
      await release();
    });
  });
});

for (const workers of ["1", "2"]) {
  describe(`a lame duck of ${workers === "1" ? "one process" : "two workers"}`, () => {
    let database: TestDatabase;
    before(async () => {
      database = await createTestDatabase();
    });
    after(() => database.drop());

    it("says that it is not ready, and serves every call on both ports", async () => {
      // Longer than the test, so that nothing depends on speed.
      const env = { ACP_LAME_DUCK_MS: "600000", ACP_WORKERS: workers };
      const server = await startServer({ databaseUrl: database.url, env });
      const controlPlane = connect(server);
      const wires = openWires(server);
      try {
        const agentId = await registerAgent(controlPlane);
        process.kill(server.pid, "SIGTERM");
        const told = async (): Promise<number> =>
          (await fetch(`${server.http}/readyz`, { headers: { connection: "close" } })).status;
        // Any of the workers may answer.
        await until("all say that they are not ready", async () => {
          const statuses = [await told(), await told(), await told(), await told()];
          return statuses.every((status) => status === 503);
        });
        const action = { agent_id: agentId, action_type: "note.write", action_content: "late" };
        for (const wire of wires.all) {
          const { code } = await wire.unary(INTERCEPT, action, { key: server.adminKey });
          expect(code, wire.name).to.equal("OK");
        }
      } finally {
        wires.close();
        controlPlane.close();
        await server.kill();
      }
    });

    it("drains afterwards and ends without a fault", async () => {
      const env = { ACP_LAME_DUCK_MS: "700", ACP_WORKERS: workers };
      const server = await startServer({ databaseUrl: database.url, env });
      const startedAt = performance.now();
      expect(await server.stop()).to.equal(0);
      expect(performance.now() - startedAt).to.be.at.least(700);
    });
  });
}
