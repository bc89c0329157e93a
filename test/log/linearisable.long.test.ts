import { expect } from "chai";
import { createTestDatabase } from "../support/database.ts";
import type { Call } from "./linearisable-calls.ts";
import { checkHistory, type RecordedHistory } from "./linearisable-checks.ts";
import { recordHistory } from "./linearisable-run.ts";

const SECONDS = 6;
const SEED = 5;
/** Histories, each twice as long as the one before: on a machine with little time, Redis may never be ahead in a short one. */
const MOST_HISTORIES = 4;
/** The text of a second count in a body. */
const SECOND_COUNT = '"count":2,';
const MUST_HAPPEN = [
  "decisions",
  "moves",
  "mandates",
  "reads",
  "claims",
  "outcomes",
  "unknown outcomes",
  "exceeded budgets",
  "counters from the mirror",
  "limits of principals",
];

/** The short form of `linearisable.ts`. */
describe("a history of three processes with clocks five minutes apart, a Redis in trouble and a kill", () => {
  let history: RecordedHistory;
  let seed = SEED;
  const record = async (): Promise<void> => {
    const database = await createTestDatabase();
    const seconds = SECONDS * 2 ** (seed - SEED);
    history = await recordHistory({ databaseUrl: database.url, seed, seconds });
    await database.drop();
  };
  const isUneventful = (): boolean => {
    const { faults, figures } = checkHistory(history);
    const hasHappened =
      MUST_HAPPEN.every((name) => figures[name] !== 0) &&
      history.log.entries.some(({ body }) => body.includes(SECOND_COUNT));
    return faults.length === 0 && !hasHappened;
  };
  before("records one in which everything happens that has to", async function () {
    this.timeout(MOST_HISTORIES * 120_000);
    await record();
    while (seed < SEED + MOST_HISTORIES - 1 && isUneventful()) {
      seed += 1;
      await record();
    }
  });

  const answeredTo = (kind: Call["kind"], fits: (call: Call) => boolean = () => true): Call =>
    history.calls.find((call) => call.kind === kind && call.outcome.kind === "answered" && fits(call)) as Call;
  /** The history with one call told otherwise. */
  const withCall = (call: Call, more: Partial<Call>): RecordedHistory => ({
    ...history,
    calls: history.calls.map((each) => (each === call ? { ...call, ...more } : each)),
  });
  const faultsOf = (changed: RecordedHistory): string => checkHistory(changed).faults.join("\n");

  it("is linearisable: the log is its order, and a naive model makes of it what was sealed.", () => {
    const { faults, figures } = checkHistory(history);
    expect(faults, `seed ${seed}`).to.deep.equal([]);
    for (const name of MUST_HAPPEN) expect(figures[name], name).to.be.greaterThan(0);
  });

  it("would not be, had a caller received another answer, or one that nobody sealed.", () => {
    const call = answeredTo("intercept");
    const body = { ...(call.outcome as { body: object }).body, trust_score: 12.3 };
    expect(faultsOf(withCall(call, { outcome: { kind: "answered", body } }))).to.include(
      "differs from what was answered",
    );
    expect(faultsOf(withCall(call, { mark: "another" }))).to.include("not in the log");
  });

  it("would not be, had an answer come before what it tells of began.", () => {
    const first = history.calls.find(({ mark }) => mark !== undefined)?.startedAt ?? 0;
    const call = history.calls.findLast(({ kind, outcome }) => kind === "register" && outcome.kind === "answered");
    const early = withCall(call as Call, { startedAt: first - 2, endedAt: first - 1 });
    expect(faultsOf(early)).to.include("nothing from entry");
  });

  it("would not be, had a read shown what was over before it began.", () => {
    const last = Math.max(...history.calls.map(({ endedAt }) => (Number.isFinite(endedAt) ? endedAt : 0)));
    const isBusy = ({ outcome }: Call): boolean =>
      outcome.kind === "answered" && (outcome.body.decisions as unknown[]).length > 0;
    const stale = withCall(answeredTo("list_decisions", isBusy), { startedAt: last + 1, endedAt: last + 2 });
    expect(faultsOf(stale)).to.include("nothing from entry");
  });

  it("would not be, had one count come out otherwise.", () => {
    const { entries, head } = history.log;
    const counted = entries.find(({ body }) => body.includes(SECOND_COUNT));
    const changed = entries.map((entry) =>
      entry === counted ? { ...entry, body: entry.body.replace(SECOND_COUNT, '"count":3,') } : entry,
    );
    const faults = faultsOf({ ...history, log: { entries: changed, head } });
    expect(faults).to.include("the log is not intact").and.to.include("differs from the model");
  });
});
