import { expect } from "chai";
import { assertIntact, type StoredLog } from "../log/stored-log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { playApprovals } from "./approvals.ts";
import { readApprovals } from "./approvals-log.ts";
import { startPaymentFleet } from "./payments.ts";

const SIZE = { processes: 2, callers: 12, steps: 40, kills: 1 };

/** The short form of `npm run fire -- approvals`. */
describe("approvals by several people, on servers that are killed", () => {
  let database: TestDatabase;
  let log: StoredLog;
  before(async function () {
    this.timeout(240_000);
    database = await createTestDatabase();
    await using cleanup = new AsyncDisposableStack();
    log = await playApprovals(await startPaymentFleet(database.url, SIZE.processes, cleanup), 11, SIZE);
  });
  after(() => database.drop());

  it("come from as many people as every rule asks for, and never from who asked or edited.", () => {
    assertIntact(log);
    const { faults, figures } = readApprovals(log);
    expect(faults).to.deep.equal([]);
    // Kills and other load decide how often the rest happens in so short a storm.
    for (const name of ["asked", "given", "approved together"]) expect(figures[name], name).to.be.greaterThan(0);
  });

  it("would not, had one of them been left out of the log.", () => {
    const last = log.entries.findLastIndex(({ body }) => body.includes('"type":"escalation_approval_given"'));
    const resolved = log.entries.find(
      ({ body }) => body.includes('"approvals":[{') && body.includes('"type":"escalation_resolved"'),
    );
    const id = /"escalation_id":"([^"]+)"/.exec(resolved?.body ?? "")?.[1] ?? "";
    expect(last).to.be.greaterThan(0);
    const entries = log.entries.filter(
      ({ body }) => !(body.includes('"type":"escalation_approval_given"') && body.includes(id)),
    );
    expect(readApprovals({ ...log, entries }).faults.join("\n")).to.include("with a demand unmet");
  });
});
