import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { type Escalation, EscalationStatus } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type EscalationChange, watchEscalations } from "../../src/escalation/watch.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { callerWith, type Replica, reasonOf, until } from "../support/harness.ts";
import { type EscalationWorkspace, openEscalationWorkspace } from "./harness.ts";

describe("an action that is asked for again", () => {
  let workspace: EscalationWorkspace;
  let agentId: string;
  before(async () => {
    workspace = await openEscalationWorkspace(2);
  });
  beforeEach(async () => {
    agentId = await workspace.agent();
  });
  after(() => workspace.close());

  const ask = (init: Partial<MessageInitShape<typeof InterceptRequestSchema>> = {}, on: Replica = workspace) =>
    workspace.intercept({ agentId, actionType: "ask", ...init } as never, on);

  const read = async (escalationId: string): Promise<Escalation> =>
    (await workspace.escalations.getEscalation({ escalationId })).escalation as Escalation;

  it("while it is pending joins the same escalation, with a sealed decision each.", async () => {
    const asks = Array.from({ length: 12 }, (_, index) => ask({}, workspace.replicas[index % 2]));
    const replies = await Promise.all(asks);
    const [escalationId = ""] = new Set(replies.map((reply) => reply.escalationId));
    expect(new Set(replies.map((reply) => reply.escalationId))).to.have.length(1);
    expect(new Set(replies.map(({ decisionId }) => decisionId))).to.have.length(12);
    expect(await read(escalationId)).to.include({ asked: 12, status: EscalationStatus.PENDING });
    const log = await readLog(workspace.url);
    assertIntact(log);
    const bodies = log.entries.map(({ body }) => JSON.parse(body));
    const sealed = bodies.filter((body) => body.escalation_id === escalationId);
    expect(sealed.map(({ type }) => type)).to.deep.equal(Array(12).fill("decision"));
    expect(sealed.filter((body) => body.escalation_expires_at !== undefined)).to.have.length(1);
  });

  it("by a repeated request is not asked for again.", async () => {
    const requestId = randomUUID();
    const replies = await Promise.all(workspace.replicas.map((replica) => ask({ requestId }, replica)));
    expect(new Set(replies.map(({ decisionId }) => decisionId))).to.have.length(1);
    expect((await read(replies[0]?.escalationId ?? "")).asked).to.equal(1);
  });

  it("joins no escalation of another agent, another action or one that was resolved.", async () => {
    const first = (await ask()).escalationId ?? "";
    const other = { agentId: await workspace.agent(), actionType: "ask", actionContent: "" };
    const ids = [
      first,
      (await workspace.intercept(other)).escalationId,
      (await ask({ actionContent: "x" })).escalationId,
    ];
    await workspace.resolve(first);
    ids.push((await ask()).escalationId);
    expect(new Set(ids)).to.have.length(4);
    const { asked, replacedBy } = await read(first);
    expect({ asked, replacedBy }).to.deep.equal({ asked: 1, replacedBy: undefined });
  });

  it("is admitted for one asker, and the others get one new escalation.", async () => {
    const { escalationId = "" } = await ask();
    for (const replica of [...workspace.replicas, ...workspace.replicas]) await ask({}, replica);
    await workspace.resolve(escalationId);
    const presented = workspace.replicas.flatMap((replica) => [
      ask({ escalationId }, replica),
      ask({ escalationId }, replica),
    ]);
    const replies = await Promise.all(presented);
    const [admitted, ...more] = replies.filter(({ decision }) => decision === Decision.ALLOW);
    expect(more).to.have.length(0);
    const others = replies.filter(({ decision }) => decision === Decision.ESCALATE);
    expect(others.map(({ reasons }) => reasons.at(-1)?.code)).to.deep.equal(Array(3).fill("APPROVAL_USED"));
    const [replacedBy = ""] = others.map((reply) => reply.escalationId);
    expect(new Set(others.map((reply) => reply.escalationId))).to.have.length(1);
    const used = await read(escalationId);
    expect(used).to.include({ asked: 5, replacedBy, usedByDecisionId: admitted?.decisionId });
    expect(used.usedAt).to.deep.equal((await workspace.enforcement.getDecision(admitted as never)).decision?.decidedAt);
    expect(await read(replacedBy)).to.include({ asked: 3, status: EscalationStatus.PENDING });
  });

  it("makes one event of watchers and updates that show how often.", async () => {
    const caller = new AbortController();
    const cursor = String((await workspace.log.caughtUp()).seq - 1);
    const changes: EscalationChange[] = [];
    let isLive = false;
    const read = async (count: number) => {
      const stream = watchEscalations(workspace.watchOn(workspace.replicas[1] as Replica, caller.signal, 20), cursor);
      for await (const together of stream) {
        isLive = true;
        changes.push(...(together ?? []));
        if (changes.length === count) break;
      }
    };
    const watching = read(4);
    await until(() => isLive);
    const { escalationId = "" } = await ask();
    for (const [index, step] of [
      ask,
      ask,
      () => workspace.escalations.withdrawEscalation({ escalationId }),
    ].entries()) {
      // What comes sooner than it is read comes as one.
      await until(() => changes.length === index + 1);
      await step();
    }
    await watching;
    expect(changes.map(({ kind }) => kind)).to.deep.equal(["created", "updated", "updated", "updated"]);
    expect(changes.at(-1)?.escalation).to.include({ escalationId, asked: 2, status: "pending" });
    changes.length = 0;
    await workspace.resolve(escalationId);
    await read(3);
    expect(changes.map(({ kind, escalation }) => `${kind} ${escalation.status}`)).to.deep.equal([
      "created pending",
      "updated pending",
      "resolved approved",
    ]);
  });

  describe("and withdrawn", () => {
    const withdraw = (escalationId: string, as = workspace.adminCaller) =>
      workspace.escalations.withdrawEscalation({ escalationId }, as);

    it("loses one ask each time, and the last ends it.", async () => {
      const { escalationId = "" } = await ask();
      await ask({}, workspace.replicas[1]);
      const { escalation } = await withdraw(escalationId);
      expect(escalation).to.include({ asked: 1, status: EscalationStatus.PENDING });
      const ended = (await withdraw(escalationId)).escalation;
      expect(ended).to.include({ asked: 0, status: EscalationStatus.REJECTED, resolvedBy: "withdrawal" });
      expect(ended).to.deep.equal(await read(escalationId));
      expect(await reasonOf(withdraw(escalationId))).to.equal("ESCALATION_RESOLVED");
      expect(await reasonOf(workspace.resolve(escalationId))).to.equal("ESCALATION_RESOLVED");
      expect((await ask()).escalationId).to.not.equal(escalationId);
    });

    it("can be by a key that asked or that is bound to the agent, and by no other.", async () => {
      const { escalationId = "" } = await ask();
      const stranger = { ...callerWith(workspace.adminCaller, Role.AGENT), keyId: "key_stranger" };
      expect(await reasonOf(withdraw(escalationId, stranger))).to.equal("NOT_AN_ASKER");
      const other = { ...stranger, agentId: await workspace.agent() };
      expect(await reasonOf(withdraw(escalationId, other))).to.equal("ESCALATION_NOT_FOUND");
      await workspace.enforcement.intercept({ agentId, actionType: "ask" }, stranger);
      expect((await withdraw(escalationId, stranger)).escalation?.asked).to.equal(1);
      const bound = { ...stranger, keyId: "key_bound", agentId };
      expect((await withdraw(escalationId, bound)).escalation?.asked).to.equal(0);
    });
  });
});
