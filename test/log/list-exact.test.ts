import { expect } from "chai";
import { ListKind } from "../../gen/agentcontrol/v1/list_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type Replica, withWorkspace } from "../support/harness.ts";
import { type ListReplica, runList } from "./list-run.ts";
import { assertIntact, readLog } from "./stored-log.ts";

describe("a list that changes while four replicas decide", () => {
  it("is in force at its place in the log for every decision: 10,000 values.", () =>
    withWorkspace({ replicas: 4 }, async (test) => {
      const list = "growing";
      const agentId = await test.agent();
      await test.lists.putList({ name: list, kind: ListKind.TEXT });
      const value = { kind: { case: "stringValue" as const, value: list } };
      const conditions = { rules: [{ field: "to", operator: "not_in_list", value }] };
      await test.mandate([{ type: RuleType.METADATA, decision: Decision.BLOCK, conditions }]);
      const replicas = test.replicas.map(
        (replica: Replica): ListReplica => ({
          add: async (name, values) => void (await replica.lists.addListValues({ name, values: [...values] })),
          remove: async (name, values) => void (await replica.lists.removeListValues({ name, values: [...values] })),
          decide: async (to) => void (await test.intercept({ agentId, actionType: "pay", metadata: { to } }, replica)),
        }),
      );
      const run = await runList({ databaseUrl: test.url, replicas, list, values: 10_000, atOnce: 200 });
      expect(run.faults).to.deep.equal([]);
      expect(run.allowed).to.be.within(50, run.decisions - 50);
      expect(run.listsSeen).to.be.greaterThan(20);
      assertIntact(await readLog(test.url));
    })).timeout(300_000);
});
