import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { EscalationChange } from "../../src/escalation/feed.ts";
import { watchEscalations } from "../../src/escalation/watch.ts";
import { until } from "../log/gate.ts";
import type { Party } from "../log/harness.ts";
import { seededBelow } from "../log/harness.ts";
import { reasonOf } from "../support/workspace.ts";
import { type EscalationStage, openEscalationStage } from "./harness.ts";

const CREATORS = 6;
const EACH = 15;

describe("watching escalations", () => {
  let stage: EscalationStage;
  beforeEach(async () => {
    stage = await openEscalationStage(2);
  });
  afterEach(() => stage.close());

  /** Watches from a cursor until `isEnough`; heartbeats are left out. */
  async function watched(
    party: Party,
    cursor: string,
    isEnough: (changes: readonly EscalationChange[]) => boolean,
  ): Promise<EscalationChange[]> {
    const caller = new AbortController();
    const changes: EscalationChange[] = [];
    for await (const change of watchEscalations(stage.watchOn(party, caller.signal, 20), cursor)) {
      if (change !== undefined) changes.push(change);
      if (isEnough(changes)) break;
    }
    return changes;
  }

  const shown = ({ kind, escalation, seq }: EscalationChange) => `${seq} ${kind} ${escalation.escalationId}`;

  /** What the log says happened, in its order. */
  async function fromLog(): Promise<string[]> {
    const { rows } = await stage.party.database.pool.query<{ seq: number; id: string; kind: string }>(
      `select created_seq::int as seq, escalation_id as id, 'created' as kind from escalation
       union all select resolved_seq::int, escalation_id, 'resolved' from escalation where resolved_seq is not null
       order by seq`,
    );
    return rows.map(({ seq, id, kind }) => `${seq} ${kind} ${id}`);
  }

  it("begins with what is pending now, and goes on with what happens on every replica.", async () => {
    const [first, second] = [await stage.escalate(), await stage.escalate(stage.parties[1])];
    await stage.resolve(first);
    const changes: EscalationChange[] = [];
    const reading = watched(stage.party, "", (all) => {
      changes.splice(0, changes.length, ...all);
      return all.length === 4;
    });
    await until(() => changes.length === 1);
    await stage.resolve(second, Resolution.REJECTED, stage.parties[1]);
    const third = await stage.escalate(stage.parties[1]);
    await stage.resolve(third);
    const seen = (await reading).map(({ kind, escalation }) => [kind, escalation.escalationId, escalation.status]);
    expect(seen).to.deep.equal([
      ["created", second, "pending"],
      ["resolved", second, "rejected"],
      ["created", third, "pending"],
      ["resolved", third, "approved"],
    ]);
    expect(stage.party.log.listeners).to.equal(0);
  });

  it("resumed from a cursor again and again, loses nothing and doubles nothing.", async () => {
    const below = seededBelow(5);
    const busy = async (party: Party): Promise<void> => {
      for (let count = 0; count < EACH; count++) {
        const escalationId = await stage.escalate(party);
        const resolver = stage.parties[below(2)] as Party;
        if (below(10) < 7) await stage.resolve(escalationId, Resolution.APPROVED, resolver);
      }
    };
    let isOver = false;
    const all = Array.from({ length: CREATORS }, (_, index) => busy(stage.parties[index % 2] as Party));
    const done = Promise.all(all).then(() => {
      isOver = true;
    });
    const seen: string[] = [];
    let cursor = "0";
    let turns = 0;
    const follow = async (): Promise<void> => {
      const party = stage.parties[turns++ % 2] as Party;
      const size = 1 + below(12);
      let idle = 0;
      const changes = await watched(party, cursor, ({ length }) => length >= size || (isOver && ++idle > 15));
      seen.push(...changes.map(shown));
      cursor = String(changes.at(-1)?.seq ?? cursor);
    };
    while (!isOver) await follow();
    await done;
    const whole = await fromLog();
    while (seen.length < whole.length) await follow();
    await delay(50);
    expect(seen).to.deep.equal(whole);
    expect(turns).to.be.above(3);
  });

  it("shows on two replicas at once the same changes in the same order.", async () => {
    const count = CREATORS * 10;
    const streams = stage.parties.map((party) => watched(party, "0", ({ length }) => length === count * 2));
    const created = await Promise.all(
      Array.from({ length: count }, (_, index) => stage.escalate(stage.parties[index % 2], `${index}`)),
    );
    await Promise.all(
      created.map((id, index) => stage.resolve(id, Resolution.APPROVED, stage.parties[(index + 1) % 2])),
    );
    const [one = [], two = []] = await Promise.all(streams);
    expect(one.map(shown)).to.deep.equal(await fromLog());
    expect(two.map(shown)).to.deep.equal(one.map(shown));
  });

  it("reads a backlog of several pages in order.", async () => {
    const count = 1_203;
    await Promise.all(Array.from({ length: count }, (_, index) => stage.escalate(stage.party, `${index}`)));
    const whole = await fromLog();
    for (const cursor of ["", "0"]) {
      const changes = await watched(stage.party, cursor, ({ length }) => length === count);
      expect(changes.map(shown)).to.deep.equal(whole);
    }
  });

  it("sends heartbeats while nothing happens.", async () => {
    const caller = new AbortController();
    const stream = watchEscalations(stage.watchOn(stage.party, caller.signal, 5), "");
    for (let beat = 0; beat < 3; beat++) expect(await stream.next()).to.deep.equal({ done: false, value: undefined });
    caller.abort();
    await stream.return(undefined);
    expect(stage.party.log.listeners).to.equal(0);
  });

  it("refuses a cursor that is none.", async () => {
    const { signal } = new AbortController();
    for (const cursor of ["-1", "x", "1.5", "1".repeat(16)]) {
      const stream = watchEscalations(stage.watchOn(stage.party, signal), cursor);
      expect(await reasonOf(stream.next())).to.equal("INVALID_FIELD");
    }
  });
});
