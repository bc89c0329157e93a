import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connect, registerAgent } from "../support/service.ts";
import { limitRefunds } from "./harness.ts";

const REPLICAS = 3;
const LIMIT = 7;

describe("several starts on one empty database at the same moment", () => {
  let database: TestDatabase;
  let servers: TestServer[];
  let controlPlanes: ControlPlane[];

  before(async () => {
    database = await createTestDatabase([]);
    const env = { ACP_ADMIN_KEY: randomBytes(24).toString("hex"), ACP_DATABASE_OWNER_URL: database.ownerUrl };
    const start = () => startServer({ databaseUrl: database.url, env });
    servers = await Promise.all(Array.from({ length: REPLICAS }, start));
    controlPlanes = servers.map((server) => connect(server));
  });
  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await database.drop();
  });

  it("make one workspace with one key, and no agent.", async () => {
    const admin = (controlPlanes[0] as ControlPlane).client(AdminService);
    expect((await admin.listApiKeys({})).keys).to.have.length(1);
    expect((await admin.listWorkspaces({})).workspaces.map(({ workspaceId }) => workspaceId)).to.deep.equal([
      "default",
    ]);
    const { agents } = await (controlPlanes[1] as ControlPlane).client(AgentService).listAgents({});
    expect(agents).to.deep.equal([]);
  });

  it("hold a limit together.", async () => {
    const [first] = controlPlanes as [ControlPlane];
    await limitRefunds(first, LIMIT);
    const agentIds = await Promise.all(controlPlanes.map((each) => registerAgent(each)));
    const action = { actionType: "refund.send", actionContent: "refund an order" };
    const results = await Promise.all(
      Array.from({ length: 20 * REPLICAS }, (_, index) => {
        const agentId = agentIds[index % REPLICAS] as string;
        return (controlPlanes[(index + 1) % REPLICAS] as ControlPlane).intercept({ ...action, agentId });
      }),
    );
    expect(results.filter(({ decision }) => decision === "allow")).to.have.length(LIMIT);
  });
});
