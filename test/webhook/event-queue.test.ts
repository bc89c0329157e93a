import { expect } from "chai";
import type { Pool } from "pg";
import type { EventName } from "../../src/webhook/event.ts";
import { createEventQueue } from "../../src/webhook/event-queue.ts";

const WEBHOOK = {
  ...{ workspaceId: "default", webhookId: "wh_1", url: "", isActive: true, createdAtMs: 0, secret: "" },
  ...{ oldSecret: null, oldSecretUntilMs: null, revision: 0, failures: 0, failingSinceMs: null },
  ...{ nextAttemptAtMs: null, events: ["decision.blocked"], nextSeq: 5 },
};

/** A stretch of the log. */
const stretch = (first: number, end: number, ...names: EventName[]) => ({ first, end, names: new Set(names) });

// Skipping reads nothing: what it may pass over follows from the stretch alone.
const create = () => createEventQueue(undefined as unknown as Pool, WEBHOOK);

const STRETCHES = [
  { name: "follows the cursor and holds nothing", batch: stretch(5, 9), skipped: true, cursor: 9 },
  { name: "holds an event of another webhook", batch: stretch(5, 9, "tool.changed"), skipped: true, cursor: 9 },
  { name: "begins before the cursor", batch: stretch(3, 9), skipped: true, cursor: 9 },
  { name: "ends before the cursor", batch: stretch(1, 3), skipped: true, cursor: 5 },
  { name: "leaves a gap after the cursor", batch: stretch(6, 9), skipped: false, cursor: 5 },
  { name: "holds an event", batch: stretch(5, 9, "decision.blocked"), skipped: false, cursor: 5 },
];

describe("createEventQueue", () => {
  for (const { name, batch, skipped, cursor } of STRETCHES) {
    it(`${skipped ? "skips" : "does not skip"} a stretch that ${name}.`, () => {
      const queue = create();
      expect([queue.skip(batch), queue.cursor]).to.deep.equal([skipped, cursor]);
    });
  }

  it("begins again where a change of the webhook says.", () => {
    const queue = create();
    queue.skip(stretch(5, 9));
    queue.adopt({ ...WEBHOOK, revision: 1, nextSeq: 2, events: ["tool.changed"] });
    expect([queue.revision, queue.cursor]).to.deep.equal([1, 2]);
    expect([queue.wants(stretch(2, 3, "tool.changed")), queue.wants(stretch(2, 3, "decision.blocked"))]).to.deep.equal([
      true,
      false,
    ]);
  });
});
