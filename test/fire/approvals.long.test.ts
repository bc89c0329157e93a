import { expect } from "chai";
import { assertIntact, type StoredLog } from "../log/stored-log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { playApprovals } from "./approvals.ts";
import { readApprovals, verifierFault } from "./approvals-log.ts";
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
    expect(verifierFault(log)).to.equal(undefined);
    // Kills and other load decide how often the rest happens in so short a storm.
    for (const name of ["asked", "given", "approved together"]) expect(figures[name], name).to.be.greaterThan(0);
  });

  it("are refused by the verifier when any of them is forged.", () => {
    const askers = new Map<string, string>();
    const approved: { id: string; by: readonly string[] }[] = [];
    for (const { body } of log.entries) {
      const entry = JSON.parse(body);
      if (entry.type === "decision" && entry.decision === "escalate") askers.set(entry.escalation_id, entry.key_id);
      if (entry.type === "escalation_resolved" && entry.approvals !== undefined)
        approved.push({ id: entry.escalation_id, by: entry.approvals.map(({ by }: { by: string }) => by) });
    }
    expect(approved.length).to.be.greaterThan(0);
    // biome-ignore lint/suspicious/noExplicitAny: the approvals of an entry that is forged.
    const forged = (id: string, change: (approvals: any[]) => any[]): string | undefined =>
      verifierFault(log, (entry) =>
        entry.type === "escalation_resolved" && entry.escalation_id === id
          ? { ...entry, approvals: change(entry.approvals) }
          : entry,
      );
    for (const { id } of approved) {
      const asker = askers.get(id);
      const forgeries = [
        forged(id, () => []),
        forged(id, (approvals) => [...approvals, approvals[0]]),
        forged(id, (approvals) => approvals.map((each) => ({ ...each, by: asker }))),
        forged(id, (approvals) => approvals.map((each) => ({ ...each, seq: 0 }))),
        forged(id, (approvals) => approvals.map((each) => ({ ...each, groups: ["nobody"] }))),
      ];
      for (const fault of forgeries) expect(fault, id).to.be.a("string");
    }
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
