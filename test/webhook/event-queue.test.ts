import { expect } from "chai";
import { Pool } from "pg";
import { type EventName, EventQueue } from "../../src/webhook/event-queue.ts";

const WEBHOOK = {
  workspaceId: "default",
  kind: "webhook",
  holder: "",
  label: "",
  webhookId: "wh_1",
  url: "",
  isActive: true,
  createdAtMs: 0,
  sealedSecret: Buffer.of(),
  sealedOldSecret: null,
  oldSecretUntilMs: null,
  revision: 0,
  failures: 0,
  failingSinceMs: null,
  nextAttemptAtMs: null,
  events: ["decision.blocked"],
  nextSeq: 5,
};

/** A span of the log. */
const span = (first: number, end: number, ...names: EventName[]) => ({ first, end, names: new Set(names) });

// The pool never connects: skipping reads nothing.
const create = () => new EventQueue(new Pool(), WEBHOOK);

const SPANS = [
  { name: "follows the cursor and holds nothing", given: span(5, 9), skipped: true, cursor: 9 },
  { name: "holds an event of another webhook", given: span(5, 9, "tool.changed"), skipped: true, cursor: 9 },
  { name: "begins before the cursor", given: span(3, 9), skipped: true, cursor: 9 },
  { name: "ends before the cursor", given: span(1, 3), skipped: true, cursor: 5 },
  { name: "leaves a gap after the cursor", given: span(6, 9), skipped: false, cursor: 5 },
  { name: "holds an event", given: span(5, 9, "decision.blocked"), skipped: false, cursor: 5 },
];

describe("an event queue", () => {
  for (const { name, given, skipped, cursor } of SPANS) {
    it(`${skipped ? "skips" : "does not skip"} a span that ${name}.`, () => {
      const queue = create();
      expect([queue.skip(given), queue.cursor]).to.deep.equal([skipped, cursor]);
    });
  }

  it("begins again where a change of the webhook says.", () => {
    const queue = create();
    queue.skip(span(5, 9));
    queue.replaceConfig({ ...WEBHOOK, revision: 1, nextSeq: 2, events: ["tool.changed"] });
    expect([queue.revision, queue.cursor]).to.deep.equal([1, 2]);
    expect([
      queue.hasEventsIn(span(2, 3, "tool.changed")),
      queue.hasEventsIn(span(2, 3, "decision.blocked")),
    ]).to.deep.equal([true, false]);
  });
});
