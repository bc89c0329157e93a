import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { type Agent, AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type Fleet, SKEWS_MS, startFleet } from "./fleet.ts";
import { runStormRound } from "./storm-round.ts";

const ROUNDS = 5;
const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

/** The time in an id, which the process that made it read from its wall clock. */
function timeInId(id: string): number {
  const bits = [...id.slice(id.indexOf("_") + 1)]
    .slice(0, 10)
    .map((each) => BASE32.indexOf(each).toString(2).padStart(5, "0"));
  return Number.parseInt(bits.join("").slice(0, 48), 2);
}

describe("after RevokeAgent has returned", () => {
  const cleanup = new AsyncDisposableStack();
  let database: TestDatabase;
  let fleet: Fleet;

  before("starts three processes on one database, two with wall clocks five minutes wrong", async () => {
    database = await createTestDatabase();
    cleanup.defer(() => database.drop());
    fleet = await startFleet(database.url, SKEWS_MS, cleanup);
  });
  after("stops them", () => cleanup.disposeAsync());

  it("no process allows the agent, its delegates or their children anything, while 64 callers hammer.", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { before, after, faults } = await runStormRound(fleet, database.url, round);
      expect(faults).to.deep.equal([]);
      expect(before).to.be.greaterThan(64);
      expect(after).to.be.greaterThan(64);
    }
  });

  it("a wrong wall clock shows in the ids that its process makes and in no time that it seals.", async () => {
    const agents: Agent[] = [];
    for (const controlPlane of fleet.controlPlanes.slice(0, SKEWS_MS.length)) {
      const { agent } = await controlPlane.client(AgentService).registerAgent({ name: "timed" });
      if (agent?.registeredAt !== undefined) agents.push(agent);
    }
    const sealed = agents.map(({ registeredAt }) => (registeredAt === undefined ? 0 : timestampMs(registeredAt)));
    expect(sealed)
      .to.deep.equal([...sealed].sort((a, b) => a - b))
      .and.have.length(SKEWS_MS.length);
    const off = agents.map(({ agentId }, index) => timeInId(agentId) - (sealed[index] ?? 0));
    // The machine's own clock is the database's: what is left is the skew, to within a minute.
    expect(off.map((ms) => Math.round(ms / 60_000) + 0)).to.deep.equal(SKEWS_MS.map((ms) => ms / 60_000));
    expect((sealed.at(-1) ?? 0) - (sealed[0] ?? 0)).to.be.lessThan(60_000);
  });
});
