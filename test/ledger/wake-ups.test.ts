import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { listenForWakeUps } from "../../src/ledger/index.ts";
import { createTestDatabase, SILENT_LOG, withClient } from "../support/database.ts";
import { startGate, until } from "./gate.ts";

describe("wake-ups from other replicas", () => {
  it("go on over one connection after the database was away for a while, each heard once.", async () => {
    const database = await createTestDatabase();
    const gate = await startGate(database.url);
    const heard: unknown[] = [];
    const wakeUps = await listenForWakeUps(gate.url, SILENT_LOG, (wakeUp) => heard.push(wakeUp));
    expect(heard).to.deep.equal([undefined]);
    gate.shut();
    await until(() => gate.refused >= 2);
    heard.length = 0;
    gate.open();
    await until(() => heard.length > 0);
    // Long enough for another attempt to connect, if one were under way.
    await delay(800);
    expect(heard).to.deep.equal([undefined]);
    await withClient(database.url, async (client) => {
      const { rows } = await client.query(
        "select 1 from pg_stat_activity where datname = current_database() and application_name = 'acp wake-ups'",
      );
      expect(rows).to.have.length(1);
      await client.query("select pg_notify('acp_log', 'default 7')");
    });
    await until(() => heard.length > 1);
    await delay(100);
    expect(heard).to.deep.equal([undefined, { workspaceId: "default", seq: 7, isChange: true }]);
    await wakeUps.close();
    gate.close();
    await database.drop();
  });

  it("that are ended while the database is away are not begun again.", async () => {
    const database = await createTestDatabase();
    const gate = await startGate(database.url);
    const heard: unknown[] = [];
    const wakeUps = await listenForWakeUps(gate.url, SILENT_LOG, (wakeUp) => heard.push(wakeUp));
    gate.shut();
    await until(() => gate.refused >= 1);
    await wakeUps.close();
    gate.open();
    await delay(800);
    expect(heard).to.have.length(1);
    gate.close();
    await database.drop();
  });
});
