import { expect } from "chai";
import { startService, type TestService } from "../support/service.ts";
import { CONNECT, readScenarios, runScenario } from "./scenario.ts";

const SCENARIOS = readScenarios();

describe("the scenarios of the client libraries", () => {
  let service: TestService;
  before("starts a server", async () => {
    service = await startService();
  });
  after("stops the server", () => service?.stop());

  it("are forty-nine, with names of their own.", () => {
    expect(new Set(SCENARIOS.map(({ name }) => name))).to.have.property("size", 49);
  });

  for (const [wire, connect] of Object.entries(CONNECT)) {
    describe(`over ${wire}`, () => {
      for (const scenario of SCENARIOS) it(scenario.name, () => runScenario(service, connect, scenario));
    });
  }
});
