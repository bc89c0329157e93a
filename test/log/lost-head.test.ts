import { expect } from "chai";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { openDatabase } from "../../src/store/database.ts";
import { withClient } from "../support/database.ts";
import { type TestWorkspace, withWorkspace } from "../support/harness.ts";
import { directUrlOf } from "../support/pooler.ts";
import { assertIntact, readLog } from "./stored-log.ts";

const AS_OWNER = "alter table ledger_entry disable trigger all";

/** Deletes the head of the log, and does more, as the owner of the tables. */
const loseHead = ({ ownerUrl }: TestWorkspace, ...more: readonly string[]): Promise<void> =>
  withClient(ownerUrl, async (client) => {
    for (const statement of ["delete from ledger_head", ...more]) await client.query(statement);
  });

async function grow(workspace: TestWorkspace, count: number): Promise<string> {
  const agentId = await workspace.agent();
  for (let turn = 0; turn < count; turn++) await workspace.intercept({ agentId, actionType: `pay.${turn}` });
  return agentId;
}

/** Opens the log as a process that starts now; gives the faults and what it warned of. */
async function start({ url }: TestWorkspace): Promise<{ warnings: string[]; size: number | ControlPlaneError }> {
  const warnings: string[] = [];
  const silent = { info: () => undefined, error: () => undefined };
  const log = {
    ...silent,
    warn: (details: object, text: string) => void warnings.push(`${text} ${JSON.stringify(details)}`),
  };
  const database = await openDatabase({ url, directUrl: directUrlOf(url), poolSize: 2, log });
  const logs = await createWorkspaceLogs(database, log);
  try {
    const opened = await logs.of("default");
    return { warnings, size: (await opened.caughtUp()).seq };
  } catch (error) {
    expect(error).to.be.instanceOf(ControlPlaneError);
    return { warnings, size: error as ControlPlaneError };
  } finally {
    await logs.close();
    await database.close();
  }
}

describe("a log whose head was deleted", () => {
  it("is rebuilt from its entries at start, which is logged, goes on and verifies.", () =>
    withWorkspace({}, async (workspace) => {
      await grow(workspace, 9);
      const before = await readLog(workspace.url);
      await loseHead(workspace);
      const { warnings, size } = await start(workspace);
      expect(size).to.equal(before.head.seq);
      expect(warnings.join()).to.contain("the head of a log was missing and is rebuilt").and.contain('"entries":');
      expect((await readLog(workspace.url)).head).to.deep.equal(before.head);
      expect((await start(workspace)).warnings).to.deep.equal([]);
      const later = await workspace.replica();
      await later.enforcement.intercept({ agentId: await workspace.agent(), actionType: "pay" });
      assertIntact(await readLog(workspace.url));
      expect((await readLog(workspace.url)).head.seq).to.equal(before.head.seq + 2);
    }));

  it("is rebuilt while processes serve: calls are asked to retry, and nothing is appended beside the log.", () =>
    withWorkspace({ replicas: 2 }, async (workspace) => {
      const agentId = await grow(workspace, 5);
      const [first, second] = workspace.replicas;
      if (first === undefined || second === undefined) throw new Error("there are two");
      for (const replica of [first, second]) await replica.log.caughtUp();
      for (const call of [
        () => workspace.intercept({ agentId, actionType: "pay" }, first),
        () => second.agents.registerAgent({ name: "later" }),
      ]) {
        const { entries } = await readLog(workspace.url);
        await loseHead(workspace);
        const refusal = await call().then(
          () => undefined,
          (error: unknown) => error,
        );
        expect((refusal as ControlPlaneError).reason).to.equal(ErrorReason.STORE_UNAVAILABLE);
        expect((refusal as Error).message).to.contain("the head of the log of `default` is missing");
        await call();
        const log = await readLog(workspace.url);
        assertIntact(log);
        expect(log.entries).to.have.length(entries.length + 1);
      }
    }));

  it("is not rebuilt over entries that do not fit together: the first wrong one is named.", () =>
    withWorkspace({}, async (workspace) => {
      await grow(workspace, 9);
      const { seq } = (await readLog(workspace.url)).head;
      const last = seq - 1;
      const tampered = (statement: string): Promise<void> =>
        loseHead(workspace, AS_OWNER, "create table kept as table ledger_entry", statement);
      const restored = (): Promise<void> =>
        loseHead(workspace, "delete from ledger_entry", "insert into ledger_entry table kept", "drop table kept");
      for (const [statement, index, text] of [
        ["delete from ledger_entry where seq = 3", 3, "is missing"],
        ["delete from ledger_entry", 0, "is missing, with all others"],
        ["update ledger_entry set leaf_hash = sha256('x') where seq = 2", last, "names another root"],
        [
          `update ledger_entry set body = replace(body, 'pay', 'say') where seq = ${last}`,
          last,
          "does not hash to its leaf",
        ],
      ] as const) {
        await tampered(statement);
        const { size, warnings } = await start(workspace);
        expect(size, statement).to.be.instanceOf(ControlPlaneError);
        const { reason, message, metadata } = size as ControlPlaneError;
        expect(reason).to.equal(ErrorReason.ENTRY_DAMAGED);
        expect(message).to.contain(`entry ${index} of the log of \`default\` ${text}`);
        expect(metadata).to.deep.equal({ workspace_id: "default", index: String(index) });
        expect(warnings).to.deep.equal([]);
        await restored();
      }
      expect((await start(workspace)).size).to.equal(seq);
    }));
});
