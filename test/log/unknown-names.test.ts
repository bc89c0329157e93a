import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Pool, PoolClient } from "pg";
import { WorkspaceLog } from "../../src/log/writer.ts";
import { loadState } from "../../src/state/load.ts";
import { idFromUuid } from "../../src/store/ids.ts";
import { readEscalation } from "../../src/store/sql/read-workspace.ts";
import { decideOn } from "../support/decide-on.ts";
import { actionOf, withWorkspace } from "../support/harness.ts";
import { createTestClock } from "../support/test-clock.ts";

const LOCK = "begin";

describe("actions that present escalations which do not exist", () => {
  it("read each once, and never take the lock of the log.", () =>
    withWorkspace({}, async (workspace) => {
      const agentId = await workspace.agent();
      const { pool } = workspace.database;
      const statements: string[] = [];
      const noted = <T extends Pool | PoolClient>(target: T): T =>
        new Proxy(target, {
          get(_, name) {
            const value = Reflect.get(target, name) as unknown;
            if (name === "connect") return async () => noted(await pool.connect());
            if (name !== "query") return typeof value === "function" ? value.bind(target) : value;
            return (...args: Parameters<Pool["query"]>) => {
              const [statement] = args as unknown as [string | { name?: string }];
              statements.push(typeof statement === "string" ? statement : (statement.name ?? ""));
              return target.query(...args);
            };
          },
        });
      const clock = createTestClock();
      clock.observe(Date.now(), performance.now(), performance.now());
      const log = new WorkspaceLog(
        { ...workspace.database, pool: noted(pool) },
        await loadState(pool, "default"),
        clock,
      );
      const present = () =>
        decideOn(log, {
          ...actionOf({ agentId, actionType: "read" }),
          escalationId: idFromUuid("esc", randomUUID()),
        });
      const decisions = await Promise.all(Array.from({ length: 300 }, present));
      for (const { decision } of decisions) expect(decision).to.equal("allow");
      expect(statements.filter((name) => name === readEscalation.name)).to.have.length(300);
      expect(statements).not.to.include(LOCK);
    }));
});
