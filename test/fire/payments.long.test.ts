import { expect } from "chai";
import { assertIntact } from "../log/stored-log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import type { JournalLine } from "./payment-plans.ts";
import { type PlayedRound, playPayments, startPaymentFleet } from "./payments.ts";
import { readPaidRound } from "./payments-log.ts";

const SIZE = { payments: 300, processes: 2, clients: 2, spreadMs: 1_000, clientKills: 2, serverKills: 1 };
const SEED = 7;

/** The short form of `npm run fire -- payments`. */
describe("payments under budgets, by clients and servers that are killed", () => {
  let database: TestDatabase;
  let played: PlayedRound;
  before(async function () {
    this.timeout(240_000);
    database = await createTestDatabase();
    await using cleanup = new AsyncDisposableStack();
    played = await playPayments(await startPaymentFleet(database.url, SIZE.processes, cleanup), SEED, SIZE);
  });
  after(() => database.drop());

  /** Faults of the log with the first entry that holds all texts told otherwise, and with another journal. */
  function faultsWith(texts: readonly string[], other: string, journal = played.round.journal): string {
    const { log, round } = played;
    const [changed = ""] = texts;
    const found = log.entries.find(({ body }) => texts.every((text) => body.includes(text)));
    expect(found, `an entry with ${texts}`).to.not.equal(undefined);
    const entries = log.entries.map((entry) =>
      entry === found ? { ...entry, body: entry.body.replace(changed, other) } : entry,
    );
    return readPaidRound({ ...log, entries }, { ...round, journal }).faults.join("\n");
  }
  const firstRun = (): JournalLine & { kind: "ran" } =>
    played.round.journal.find((line) => line.kind === "ran") as JournalLine & { kind: "ran" };

  it("stay in every pot at every place of the log, are refused only where they do not fit, end once, and run once.", () => {
    const { log, round } = played;
    assertIntact(log);
    const { faults, figures } = readPaidRound(log, round);
    expect(faults).to.deep.equal([]);
    for (const name of ["allow", "block", "runs", "succeeded", "failed", "cancelled", "unknown"])
      expect(figures[name], name).to.be.greaterThan(0);
  });

  it("would not, had one been refused that fits, or allowed that does not.", () => {
    expect(faultsWith(['"decision":"allow"'], '"decision":"block"')).to.include("block instead of allow");
    const allowed = faultsWith(['"decision":"block"', '"amount":1'], '"decision":"allow"');
    expect(allowed).to.include("allow instead of block");
    expect(allowed).to.match(/leaves \d+ with \d+ declared in the pot/);
  });

  it("would not, had a pot been told otherwise, or one succeeded that did not run.", () => {
    expect(faultsWith(['"captured":0,'], '"captured":1,')).to.include("are sealed as");
    const cancelled = faultsWith(['"status":"cancelled"', '"type":"outcome"'], '"status":"succeeded"');
    expect(cancelled).to.include("succeeded without a run");
  });

  it("would not, had an outcome been missing, or a second one sealed.", () => {
    expect(faultsWith(['"type":"outcome"'], '"type":"other"')).to.include("is pending for ever");
    const { log, round } = played;
    const outcome = log.entries.findLast(({ body }) => body.includes('"type":"outcome"')) as (typeof log.entries)[0];
    const twice = readPaidRound({ ...log, entries: [...log.entries, outcome] }, round).faults;
    expect(twice.join("\n")).to.match(/entry \d+ follows (succeeded|failed|cancelled|unknown)/);
  });

  it("would not, had a tool run twice, or under no claim of its own.", () => {
    const { log, round } = played;
    const run = firstRun();
    const faultsOf = (line: JournalLine): string =>
      readPaidRound(log, { ...round, journal: [...round.journal, line] }).faults.join("\n");
    expect(faultsOf(run)).to.include("ran twice");
    expect(faultsOf({ ...run, claimId: run.requestId })).to.include("ran under another claim");
    expect(faultsOf({ ...run, decisionId: "dec_none" })).to.include("ran without an allowed payment");
    const reported = { kind: "reported", decisionId: run.decisionId, status: "other" } as const;
    expect(faultsOf(reported)).to.include("acknowledged but not sealed");
  });
});
