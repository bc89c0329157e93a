import { expect } from "chai";
import { Pool } from "pg";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { getEscalation } from "../../src/escalation/escalation.ts";
import { EscalationFeed } from "../../src/escalation/feed.ts";
import { waitEscalation } from "../../src/escalation/watch.ts";
import { type Replica, reasonOf } from "../support/harness.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

/** A stream of which the next message is asked for one by one. */
const next = async <T>(stream: AsyncGenerator<T>): Promise<T | "ended"> => {
  const { done, value } = await stream.next();
  return done ? "ended" : value;
};

describe("waiting for an escalation", () => {
  let workspace: EscalationWorkspace;
  const waiting = new AbortController();
  before(async () => {
    workspace = await openEscalationWorkspace(2);
  });
  after(() => workspace.close());

  const wait = (replica: Replica, escalationId: string, heartbeatMs?: number) =>
    waitEscalation(workspace.watchOn(replica, waiting.signal, heartbeatMs), escalationId, null);

  for (const [where, resolver] of [
    ["this", 0],
    ["another", 1],
  ] as const) {
    it(`wakes when ${where} replica resolves it.`, async () => {
      const content = `${where} replica`;
      const escalationId = await workspace.escalate(workspace, content);
      const stream = wait(workspace, escalationId, 30_000);
      expect(await next(stream)).to.include({ escalationId, status: "pending", resolvedAtMs: null });
      await workspace.escalate(workspace, content);
      const resolvedAt = performance.now();
      const woken = next(stream).then((message) => ({ message, at: performance.now() }));
      await workspace.resolve(escalationId, Resolution.REJECTED, workspace.replicas[resolver]);
      const { message, at } = await woken;
      console.log(`      woken ${Math.round(at - resolvedAt)} ms after the call to ${where} replica`);
      const read = await getEscalation({ log: workspace.log, pool: workspace.database.pool }, escalationId, null);
      expect(message).to.include({ escalationId, status: "rejected", asked: 2 }).and.to.deep.equal(read);
      expect(await next(stream)).to.equal("ended");
    });
  }

  it("hears of it although nothing can be read then.", async () => {
    const escalationId = await workspace.escalate();
    const context = workspace.watchOn(workspace, waiting.signal, 30_000);
    const unreadable = new Pool();
    await unreadable.end();
    const feed = new EscalationFeed(workspace.log, unreadable);
    const stream = waitEscalation({ ...context, feed }, escalationId, null);
    await next(stream);
    const woken = next(stream);
    await workspace.resolve(escalationId, Resolution.REJECTED, workspace.replicas[1]);
    expect(await woken).to.include({ escalationId, status: "rejected" });
    expect(await next(stream)).to.equal("ended");
  });

  it("gives a large one as a read gives it.", async () => {
    const escalationId = await workspace.escalate(workspace, "x".repeat(60_000));
    const stream = wait(workspace, escalationId);
    expect(await next(stream)).to.include({ escalationId, status: "pending" });
    const woken = next(stream);
    await workspace.resolve(escalationId, Resolution.APPROVED, workspace.replicas[1]);
    const read = await getEscalation({ log: workspace.log, pool: workspace.database.pool }, escalationId, null);
    expect(await woken)
      .to.include({ status: "approved" })
      .and.to.deep.equal(read);
    expect(await next(stream)).to.equal("ended");
  });

  it("says at once how one that was resolved before came out.", async () => {
    const escalationId = await workspace.escalate();
    await workspace.resolve(escalationId, Resolution.APPROVED, workspace.replicas[1]);
    const stream = wait(workspace, escalationId);
    expect(await next(stream)).to.include({ status: "approved" });
    expect(await next(stream)).to.equal("ended");
  });

  it("sends heartbeats while nothing happens, and ends quietly when the caller goes away.", async () => {
    const escalationId = await workspace.escalate();
    const caller = new AbortController();
    const stream = waitEscalation(workspace.watchOn(workspace, caller.signal, 5), escalationId, null);
    await next(stream);
    for (let beat = 0; beat < 3; beat++) expect(await next(stream)).to.equal(undefined);
    const last = next(stream);
    caller.abort();
    expect(await last).to.be.oneOf([undefined, "ended"]);
    expect(await next(stream)).to.equal("ended");
    expect(workspace.log.listeners).to.equal(0);
  });

  it("wakes every one of a hundred who wait, and nobody who waits for another.", async () => {
    const [escalationId, other] = [await workspace.escalate(), await workspace.escalate()];
    const streams = Array.from({ length: 100 }, (_, index) =>
      wait(workspace.replicas[index % 2] as Replica, escalationId, 30_000),
    );
    const bystander = wait(workspace, other, 30_000);
    await Promise.all([...streams, bystander].map(next));
    const woken = streams.map(next);
    const disturbed = next(bystander);
    await workspace.resolve(escalationId);
    for (const message of await Promise.all(woken)) expect(message).to.include({ escalationId, status: "approved" });
    await workspace.resolve(other);
    expect(await disturbed).to.include({ escalationId: other });
    await bystander.return(undefined);
    for (const stream of streams) await stream.return(undefined);
    for (const { log } of workspace.replicas) expect(log.listeners).to.equal(0);
  });

  it("is told of no escalation that does not exist, or is another agent's.", async () => {
    const escalationId = await workspace.escalate();
    const context = workspace.watchOn(workspace, waiting.signal);
    for (const [id, agentId] of [
      ["esc_none", null],
      [escalationId, "agt_other"],
    ] as const) {
      expect(await reasonOf(waitEscalation(context, id, agentId).next())).to.equal("ESCALATION_NOT_FOUND");
    }
  });
});
