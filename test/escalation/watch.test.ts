import { expect } from "chai";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { type EscalationChange, watchEscalations } from "../../src/escalation/watch.ts";
import { until } from "../log/gate.ts";
import { failureOf, type Replica, reasonOf } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

const CREATORS = 6;
const EACH = 15;

describe("watching escalations", () => {
  let workspace: EscalationWorkspace;
  beforeEach(async () => {
    workspace = await openEscalationWorkspace(2);
  });
  afterEach(() => workspace.close());

  /** Watches from a cursor until `isEnough`; heartbeats are left out. */
  async function watched(
    replica: Replica,
    cursor: string,
    isEnough: (changes: readonly EscalationChange[]) => boolean,
  ): Promise<EscalationChange[]> {
    const caller = new AbortController();
    const changes: EscalationChange[] = [];
    for await (const together of watchEscalations(workspace.watchOn(replica, caller.signal, 20), cursor)) {
      changes.push(...(together ?? []));
      if (isEnough(changes)) break;
    }
    return changes;
  }

  const shown = ({ kind, escalation, seq }: EscalationChange) => `${seq} ${kind} ${escalation.escalationId}`;

  /** What the log says happened, in its order. */
  async function fromLog(): Promise<string[]> {
    const { rows } = await workspace.database.pool.query<{ seq: number; id: string; kind: string }>(
      `select created_seq::int as seq, escalation_id as id, 'created' as kind from escalation
       union all select resolved_seq::int, escalation_id, 'resolved' from escalation where resolved_seq is not null
       order by seq`,
    );
    return rows.map(({ seq, id, kind }) => `${seq} ${kind} ${id}`);
  }

  it("begins with what is pending now, and goes on with what happens on every replica.", async () => {
    const [first, second] = [await workspace.escalate(), await workspace.escalate(workspace.replicas[1])];
    await workspace.resolve(first);
    const changes: EscalationChange[] = [];
    const reading = watched(workspace, "", (all) => {
      changes.splice(0, changes.length, ...all);
      return all.length === 4;
    });
    await until(() => changes.length === 1);
    await workspace.resolve(second, Resolution.REJECTED, workspace.replicas[1]);
    const third = await workspace.escalate(workspace.replicas[1]);
    await workspace.resolve(third);
    const seen = (await reading).map(({ kind, escalation }) => [kind, escalation.escalationId, escalation.status]);
    expect(seen).to.deep.equal([
      ["created", second, "pending"],
      ["resolved", second, "rejected"],
      ["created", third, "pending"],
      ["resolved", third, "approved"],
    ]);
    expect(workspace.log.listeners).to.equal(0);
  });

  it("resumed from a cursor again and again, loses nothing and doubles nothing.", async () => {
    const below = seededBelow(5);
    const busy = async (replica: Replica): Promise<void> => {
      for (let count = 0; count < EACH; count++) {
        const escalationId = await workspace.escalate(replica);
        const resolver = workspace.replicas[below(2)] as Replica;
        if (below(10) < 7) await workspace.resolve(escalationId, Resolution.APPROVED, resolver);
      }
    };
    let isOver = false;
    const all = Array.from({ length: CREATORS }, (_, index) => busy(workspace.replicas[index % 2] as Replica));
    const done = Promise.all(all).then(() => {
      isOver = true;
    });
    const seen: string[] = [];
    let cursor = "0";
    let turns = 0;
    const follow = async (): Promise<void> => {
      const replica = workspace.replicas[turns++ % 2] as Replica;
      const size = 1 + below(12);
      let idle = 0;
      const changes = await watched(replica, cursor, ({ length }) => length >= size || (isOver && ++idle > 15));
      seen.push(...changes.map(shown));
      cursor = String(changes.at(-1)?.seq ?? cursor);
    };
    while (!isOver) await follow();
    await done;
    const whole = await fromLog();
    while (seen.length < whole.length) await follow();
    expect(seen).to.deep.equal(whole);
    expect(turns).to.be.above(3);
  });

  it("shows on two replicas at once the same changes in the same order.", async () => {
    const count = CREATORS * 10;
    const streams = workspace.replicas.map((replica) => watched(replica, "0", ({ length }) => length === count * 2));
    const created = await Promise.all(
      Array.from({ length: count }, (_, index) => workspace.escalate(workspace.replicas[index % 2], `${index}`)),
    );
    await Promise.all(
      created.map((id, index) => workspace.resolve(id, Resolution.APPROVED, workspace.replicas[(index + 1) % 2])),
    );
    const [one = [], two = []] = await Promise.all(streams);
    expect(one.map(shown)).to.deep.equal(await fromLog());
    expect(two.map(shown)).to.deep.equal(one.map(shown));
  });

  it("reads a backlog of several pages in order.", async () => {
    const count = 990;
    await Promise.all(Array.from({ length: count }, (_, index) => workspace.escalate(workspace, `${index}`)));
    const whole = await fromLog();
    for (const cursor of ["", "0"]) {
      const changes = await watched(workspace, cursor, ({ length }) => length === count);
      expect(changes.map(shown)).to.deep.equal(whole);
    }
  });

  it("yields what is pending some together, bounded by number and size, so that their names are read at once.", async () => {
    const escalate = (content: string) => workspace.escalate(workspace, content);
    for (let number = 0; number < 60; number++) await escalate(`${number}`);
    for (let number = 0; number < 3; number++) await escalate(`${number}`.padEnd(40_000, "x"));
    const sizes: number[] = [];
    for await (const together of watchEscalations(workspace.watchOn(workspace, new AbortController().signal), "")) {
      if (together === undefined) break;
      sizes.push(together.length);
    }
    expect(sizes).to.deep.equal([50, 12, 1]);
  });

  it("sends heartbeats while nothing happens.", async () => {
    const caller = new AbortController();
    const stream = watchEscalations(workspace.watchOn(workspace, caller.signal, 5), "");
    for (let beat = 0; beat < 3; beat++) expect(await stream.next()).to.deep.equal({ done: false, value: undefined });
    caller.abort();
    await stream.return(undefined);
    expect(workspace.log.listeners).to.equal(0);
  });

  it("refuses a cursor beyond the end of the log.", async () => {
    const { seq } = await workspace.log.caughtUp();
    const { signal } = new AbortController();
    for (const cursor of [`${Math.max(seq, 1)}`, `${seq + 1000}`, "9".repeat(15)]) {
      const stream = watchEscalations(workspace.watchOn(workspace, signal), cursor);
      const failure = await failureOf(stream.next());
      expect(failure.message).to.contain("`cursor` is beyond the end of the log");
    }
  });

  it("refuses a cursor that is none.", async () => {
    const { signal } = new AbortController();
    for (const cursor of ["-1", "x", "1.5", "1".repeat(16)]) {
      const stream = watchEscalations(workspace.watchOn(workspace, signal), cursor);
      expect(await reasonOf(stream.next())).to.equal("INVALID_FIELD");
    }
  });
});
