import { expect } from "chai";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { applyDrafts, applyTools } from "../../src/dryrun/drafts.ts";
import { coldState } from "../log/comparable.ts";
import { actionRule, withWorkspace } from "../support/harness.ts";
import { draftOf } from "./run-backtest.ts";

describe("suppositions of a dry run", () => {
  it("give the event loop its turn after each tool and each draft.", () =>
    withWorkspace({}, async ({ database }) => {
      const state = await coldState(database.pool);
      const inForce: string[] = [];
      const giveTurn = async (): Promise<void> =>
        void inForce.push(`${state.policies.tools.size} tools, ${state.policies.mandates.size} drafts`);
      const tools = ["pay", "send"].map((name) => ({
        name,
        description: undefined,
        inputSchema: { type: "object" },
        source: ToolSource.API,
        declared: undefined,
      }));
      await applyTools(state, tools, giveTurn);
      const drafts = ["a", "b"].map((name) => draftOf(name, [actionRule(Decision.BLOCK, "pay")]));
      await applyDrafts(state, drafts, giveTurn);
      expect(inForce).to.deep.equal([
        "1 tools, 0 drafts",
        "2 tools, 0 drafts",
        "2 tools, 1 drafts",
        "2 tools, 2 drafts",
      ]);
    }));
});
