import { expect } from "chai";
import { KeyUses } from "../../src/registry/key-uses.ts";
import { SILENT_LOG } from "../support/database.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

describe("the last use of a key", () => {
  let test: TestWorkspace;
  let uses: KeyUses;
  let nowMs = 1_700_000_000_000;
  const statements: string[] = [];
  before(async () => {
    test = await openWorkspace();
    const { pool } = test.database;
    const watched = {
      query: (config: { name: string }) => {
        statements.push(config.name);
        return pool.query(config as never);
      },
    };
    uses = new KeyUses({ pool: watched as never, clock: { now: () => nowMs }, log: SILENT_LOG });
  });
  after(async () => {
    await uses?.close();
    await test?.close();
  });

  const shown = async (): Promise<number | undefined> => {
    const { keys } = await test.admin.listApiKeys({});
    const at = keys.find(({ keyId }) => keyId === test.adminCaller.keyId)?.lastUsedAt;
    return at === undefined ? undefined : Number(at.seconds) * 1000;
  };

  it("is written in the background, at most once a minute, and never moves back.", async () => {
    const { keyId } = test.adminCaller;
    expect(await shown()).to.equal(undefined);
    for (let count = 0; count < 1_000; count++) uses.note(keyId);
    expect(statements).to.deep.equal([]);
    await uses.flush();
    expect(await shown()).to.equal(1_700_000_000_000);
    nowMs += 59_000;
    uses.note(keyId);
    await uses.flush();
    expect(await shown()).to.equal(1_700_000_000_000);
    nowMs += 1_000;
    uses.note(keyId);
    await uses.flush();
    expect(await shown()).to.equal(1_700_000_060_000);
    expect(statements).to.deep.equal(["write-key-uses", "write-key-uses"]);
    nowMs -= 600_000;
    const late = new KeyUses({ pool: test.database.pool, clock: { now: () => nowMs }, log: SILENT_LOG });
    late.note(keyId);
    await late.close();
    expect(await shown()).to.equal(1_700_000_060_000);
  });

  it("is kept of API keys alone, and lost without a fault when it cannot be written.", async () => {
    statements.length = 0;
    for (const id of ["crd_1", "fed_1", "oidc:https://idp|7"]) uses.note(id);
    await uses.flush();
    expect(statements).to.deep.equal([]);
    const broken = { query: () => Promise.reject(new Error("away")) };
    const lost = new KeyUses({ pool: broken as never, clock: { now: () => nowMs }, log: SILENT_LOG });
    lost.note("key_1");
    await lost.close();
  });
});
