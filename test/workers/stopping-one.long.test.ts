import { expect } from "chai";
import { EscalationService, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connect, decisionIdsOf, registerAgent } from "../support/service.ts";
import { type Balancer, startBalancer } from "./balancer.ts";
import { escalateReviews, until, workerPids } from "./harness.ts";

const ADMIN_KEY = "the-admin-key-of-the-handover";
const CALLERS = 16;
/** Decisions before the stop, and after it. */
const MORE = CALLERS * 10;
/** Milliseconds in which callers begin to wait. */
const SETTLE_MS = 600;

/** What serves, at one address. */
interface Service {
  readonly http: string;
  readonly grpc: string;
  /** Tells one of the processes to stop. */
  stopOne(): Promise<unknown>;
  stop(): Promise<void>;
}

const start = (databaseUrl: string, env: Record<string, string> = {}): Promise<TestServer> =>
  startServer({ databaseUrl, env: { ACP_ADMIN_KEY: ADMIN_KEY, ...env } });

async function startWorkers(databaseUrl: string): Promise<Service> {
  const server = await start(databaseUrl, { ACP_WORKERS: "2" });
  const stopOne = async (): Promise<void> => {
    const [pid = 0] = workerPids(server);
    process.kill(pid, "SIGTERM");
    await until("another took its place", () => workerPids(server).every((each) => each !== pid));
  };
  return { ...server, stopOne, stop: async () => void (await server.stop()) };
}

async function startReplicas(databaseUrl: string): Promise<Service> {
  const servers = await Promise.all([start(databaseUrl), start(databaseUrl)]);
  const balancers: Balancer[] = [
    await startBalancer(servers.map(({ http }) => new URL(http).host)),
    await startBalancer(servers.map(({ grpc }) => grpc)),
  ];
  const [http, grpc] = balancers.map(({ address }) => address) as [string, string];
  return {
    http: `http://${http}`,
    grpc,
    stopOne: () => (servers[0] as TestServer).stop(),
    async stop() {
      for (const balancer of balancers) balancer.close();
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}

/** Callers that call a guarded function one time after the other until `isOver`. */
async function load(
  controlPlane: ControlPlane,
  agentId: string,
  decided: string[],
  isOver: () => boolean,
): Promise<void> {
  const guarded = controlPlane.guard((value: string) => value, {
    agentId,
    actionType: "note.write",
    toArguments: (value) => ({ value }),
    abortWhenRevoked: false,
    onDecision: ({ decisionId }) => void decided.push(decisionId),
  });
  const runLane = async (lane: number): Promise<void> => {
    for (let count = 0; !isOver(); count++) await guarded(`${lane} ${count}`);
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, lane) => runLane(lane)));
}

const SERVICES = { workers: startWorkers, "replicas behind a balancer": startReplicas };

for (const [name, startService] of Object.entries(SERVICES)) {
  describe(`stopping one of two ${name}`, () => {
    let database: TestDatabase;
    let service: Service;

    beforeEach(async () => {
      database = await createTestDatabase();
      service = await startService(database.url);
    });
    afterEach(async () => {
      await service.stop();
      await database.drop();
    });

    for (const wire of ["http", "grpc"] as const) {
      it(`fails no guarded call over ${wire}, and decides each once.`, async () => {
        const controlPlane = connect({ ...service, adminKey: ADMIN_KEY }, wire);
        const agentId = await registerAgent(controlPlane);
        const decided: string[] = [];
        let isOver = false;
        const loading = load(controlPlane, agentId, decided, () => isOver);
        const more = async (): Promise<void> => {
          const { length } = decided;
          await Promise.race([loading, until("more is decided", () => decided.length >= length + MORE)]);
        };
        await more();
        await service.stopOne();
        await more();
        isOver = true;
        await loading;
        expect(await decisionIdsOf(controlPlane, agentId)).to.have.members(decided);
        controlPlane.close();
      });
    }

    it("leaves nobody who waits for a human without the answer.", async () => {
      const controlPlane = connect({ ...service, adminKey: ADMIN_KEY });
      await escalateReviews(controlPlane);
      const agentId = await registerAgent(controlPlane);
      const action = { agentId, actionType: "review.send", actionContent: "a letter" };
      const { escalationId } = await controlPlane.intercept(action);
      // Several, so that some of them wait on the one that stops; without polling, so that it is streams that bring it.
      const waiting = Array.from({ length: 6 }, () =>
        controlPlane.waitForEscalation(escalationId ?? "", { timeout: 30, pollInterval: 15 }),
      );
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
      await service.stopOne();
      const request = { escalationId: escalationId ?? "", resolution: Resolution.APPROVED };
      await controlPlane.client(EscalationService).resolveEscalation(request);
      const resolvedAt = performance.now();
      expect(new Set(await Promise.all(waiting))).to.deep.equal(new Set(["approved"]));
      expect(performance.now() - resolvedAt).to.be.below(10_000);
      controlPlane.close();
    });
  });
}
