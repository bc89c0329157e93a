import { create } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import { steps } from "../../src/decision/decide.ts";
import type { Action } from "../../src/state/types.ts";
import { coldState } from "../log/comparable.ts";
import { velocityRule, withWorkspace } from "../support/harness.ts";

describe("a decision that changes no trust", () => {
  it("leaves it as it is, here, on another replica and after a start, and counts in limits.", () =>
    withWorkspace({ replicas: 2 }, async (workspace) => {
      const agentId = await workspace.agent();
      await workspace.mandate([velocityRule(3)]);
      const caller = { keyId: "key_a", workspaceId: workspace.log.workspaceId, role: Role.ADMIN, agentId: null };
      const decide = (marks: Partial<Action> = { keepsTrust: true }) => {
        const request = create(InterceptRequestSchema, { agentId, actionType: "pay" });
        const action = { ...actionFrom(request, caller), ...marks };
        return workspace.log.append(action, steps(action), () => false);
      };
      for (const want of ["allow", "allow", "allow", "block"]) expect((await decide()).decision).to.equal(want);
      const refusal = { code: "TOOL_UNKNOWN", message: "no such tool" } as const;
      const refused = await decide({ keepsTrust: true, refusal });
      expect(refused).to.deep.include({ decision: "block", path: "mcp_definition", reasons: [refusal] });
      const { pool } = workspace.database;
      const states = [...workspace.replicas.map(({ log }) => log.caughtUp()), coldState(pool)];
      for (const state of await Promise.all(states)) expect(state.agents.get(agentId)?.trustTenths).to.equal(500);
      const { rows } = await pool.query(
        "select body::json -> 'trust' as trust, body::json -> 'trust_kept' as kept from ledger_entry where kind = 0",
      );
      for (const row of rows) expect(row).to.deep.equal({ trust: { before: 50, after: 50 }, kept: true });
      expect(rows).to.have.length(5);
      await decide({});
      expect((await workspace.log.caughtUp()).agents.get(agentId)?.trustTenths).to.equal(480);
    }));
});
