import { expect } from "chai";
import type { Pool } from "pg";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { getEscalation } from "../../src/escalation/escalation.ts";
import { createEscalationFeed } from "../../src/escalation/feed.ts";
import { waitEscalation } from "../../src/escalation/watch.ts";
import type { Party } from "../log/harness.ts";
import { reasonOf } from "../support/workspace.ts";
import { type EscalationStage, openEscalationStage } from "./harness.ts";

/** A stream of which the next message is asked for one by one. */
const next = async <T>(stream: AsyncGenerator<T>): Promise<T | "ended"> => {
  const { done, value } = await stream.next();
  return done ? "ended" : value;
};

describe("waiting for an escalation", () => {
  let stage: EscalationStage;
  const waiting = new AbortController();
  before(async () => {
    stage = await openEscalationStage(2);
  });
  after(() => stage.close());

  const wait = (party: Party, escalationId: string, heartbeatMs?: number) =>
    waitEscalation(stage.watchOn(party, waiting.signal, heartbeatMs), escalationId, null);

  for (const [where, resolver] of [
    ["this", 0],
    ["another", 1],
  ] as const) {
    it(`wakes when ${where} replica resolves it.`, async () => {
      const escalationId = await stage.escalate();
      const stream = wait(stage.party, escalationId, 30_000);
      expect(await next(stream)).to.include({ escalationId, status: "pending", resolvedAtMs: null });
      const resolvedAt = performance.now();
      const woken = next(stream).then((message) => ({ message, at: performance.now() }));
      await stage.resolve(escalationId, Resolution.REJECTED, stage.parties[resolver]);
      const { message, at } = await woken;
      console.log(`      woken ${Math.round(at - resolvedAt)} ms after the call to ${where} replica`);
      const read = await getEscalation(stage.party.database.pool, stage.party.log.workspaceId, escalationId, null);
      expect(message).to.include({ escalationId, status: "rejected" }).and.to.deep.equal(read);
      expect(await next(stream)).to.equal("ended");
    });
  }

  it("hears of it although nothing can be read then.", async () => {
    const escalationId = await stage.escalate();
    const context = stage.watchOn(stage.party, waiting.signal, 30_000);
    const unreadable = { query: () => Promise.reject(new Error("read")) } as unknown as Pool;
    const stream = waitEscalation(
      { ...context, feed: createEscalationFeed(stage.party.log, unreadable) },
      escalationId,
      null,
    );
    await next(stream);
    const woken = next(stream);
    await stage.resolve(escalationId, Resolution.REJECTED, stage.parties[1]);
    expect(await woken).to.include({ escalationId, status: "rejected" });
    expect(await next(stream)).to.equal("ended");
  });

  it("says at once how one that was resolved before came out.", async () => {
    const escalationId = await stage.escalate();
    await stage.resolve(escalationId, Resolution.APPROVED, stage.parties[1]);
    const stream = wait(stage.party, escalationId);
    expect(await next(stream)).to.include({ status: "approved" });
    expect(await next(stream)).to.equal("ended");
  });

  it("sends heartbeats while nothing happens, and ends quietly when the caller goes away.", async () => {
    const escalationId = await stage.escalate();
    const caller = new AbortController();
    const stream = waitEscalation(stage.watchOn(stage.party, caller.signal, 5), escalationId, null);
    await next(stream);
    for (let beat = 0; beat < 3; beat++) expect(await next(stream)).to.equal(undefined);
    const last = next(stream);
    caller.abort();
    expect(await last).to.be.oneOf([undefined, "ended"]);
    expect(await next(stream)).to.equal("ended");
    expect(stage.party.log.listeners).to.equal(0);
  });

  it("wakes every one of a hundred who wait, and nobody who waits for another.", async () => {
    const [escalationId, other] = [await stage.escalate(), await stage.escalate()];
    const streams = Array.from({ length: 100 }, (_, index) =>
      wait(stage.parties[index % 2] as Party, escalationId, 30_000),
    );
    const bystander = wait(stage.party, other, 30_000);
    await Promise.all([...streams, bystander].map(next));
    const woken = streams.map(next);
    const disturbed = next(bystander);
    await stage.resolve(escalationId);
    for (const message of await Promise.all(woken)) expect(message).to.include({ escalationId, status: "approved" });
    await stage.resolve(other);
    expect(await disturbed).to.include({ escalationId: other });
    await bystander.return(undefined);
    for (const stream of streams) await stream.return(undefined);
    for (const { log } of stage.parties) expect(log.listeners).to.equal(0);
  });

  it("is told of no escalation that does not exist, or is another agent's.", async () => {
    const escalationId = await stage.escalate();
    const context = stage.watchOn(stage.party, waiting.signal);
    for (const [id, agentId] of [
      ["esc_none", null],
      [escalationId, "agt_other"],
    ] as const) {
      expect(await reasonOf(waitEscalation(context, id, agentId).next())).to.equal("ESCALATION_NOT_FOUND");
    }
  });
});
