import { expect } from "chai";
import type { DecisionPeers } from "../../src/log/peers.ts";
import { createHandOver } from "../../src/log/peers.ts";
import type { Action, SealedDecision } from "../../src/state/types.ts";
import { actionOf, failureOf, openWorkspace, type Replica, type TestWorkspace } from "../support/harness.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";

const wanted = (): boolean => false;

describe("handing actions over", () => {
  let workspace: TestWorkspace;
  /** Takes what is handed over. */
  let far: Replica;
  let near: Replica;
  let agentId: string;
  /** The ids of all actions that were handed over. */
  let asked: string[];
  let answer: (action: Action) => ReturnType<DecisionPeers["decide"]>;

  beforeEach(async () => {
    asked = [];
    workspace = await openWorkspace();
    far = await workspace.replica();
    answer = (action) => far.log.decideHere(action, wanted);
    const peers: DecisionPeers = {
      decide(workspaceId, action) {
        expect(workspaceId).to.equal(workspace.workspaceId);
        asked.push(action.decisionId);
        return answer(action);
      },
      tell: () => undefined,
    };
    agentId = (await workspace.agents.registerAgent({ name: "agent" })).agent?.agentId ?? "";
    near = await workspace.replica({ surroundings: { peers } });
  });
  afterEach(async () => {
    assertIntact(await readLog(workspace.url));
    await workspace.close();
  });

  const act = (by: Replica, more: Partial<Action> = {}): Promise<SealedDecision> =>
    by.log.decide({ ...actionOf({ agentId, actionType: "pay" }), ...more }, wanted);

  /** Has the far replica append what the near one learns by being overtaken. */
  async function contend(): Promise<void> {
    await act(far);
    await act(near);
    expect(asked).to.deep.equal([]);
  }

  const sealedIds = async (): Promise<string[]> =>
    decisionsOf(await readLog(workspace.url)).map(({ decision_id }) => decision_id);

  it("does not happen while nobody else appends.", async () => {
    for (let count = 0; count < 5; count++) await act(near);
    await Promise.all(Array.from({ length: 50 }, () => act(near)));
    expect(asked).to.deep.equal([]);
  });

  it("does not happen when others append what was read before the next batch.", async () => {
    for (let count = 0; count < 5; count++) {
      await act(far);
      await near.log.caughtUp();
      await act(near);
    }
    expect(asked).to.deep.equal([]);
  });

  it("happens once another process overtook a batch.", async () => {
    await contend();
    const sealed = [await act(near), await act(near), ...(await Promise.all([act(near), act(near)]))];
    expect(asked).to.have.members(sealed.map(({ decisionId }) => decisionId));
    expect((await sealedIds()).slice(2)).to.deep.equal(asked);
  });

  it("does not happen to actions that a guard was asked about.", async () => {
    await contend();
    await act(near, { answers: new Map() });
    expect(asked).to.deep.equal([]);
    const { decisionId } = await act(near);
    expect(asked).to.deep.equal([decisionId]);
  });

  it("does not happen to what is asked to be decided here.", async () => {
    await contend();
    await near.log.decideHere(actionOf({ agentId, actionType: "pay" }), wanted);
    expect(asked).to.deep.equal([]);
  });

  it("is known to the process that is asked.", async () => {
    const here = createHandOver("workspace", undefined, async () => ({}) as SealedDecision);
    const action = actionOf({ agentId, actionType: "pay" });
    await here.decide(action, wanted);
    expect(here.isAsked).to.equal(false);
    await here.decideForPeer(action, wanted);
    expect(here.isAsked).to.equal(true);
  });

  it("leaves a process to decide what is its own.", async () => {
    await contend();
    answer = () => undefined;
    const { decisionId } = await act(near);
    expect(asked).to.deep.equal([decisionId]);
    expect(await sealedIds()).to.include(decisionId);
  });

  it("to one that is lost before it decided has the action decided here.", async () => {
    await contend();
    answer = async () => undefined;
    const { decisionId } = await act(near);
    expect((await sealedIds()).filter((id) => id === decisionId)).to.have.length(1);
  });

  it("to one that is lost after it decided gives that decision.", async () => {
    await contend();
    const lost: SealedDecision[] = [];
    answer = async (action) => void lost.push(await far.log.decideHere(action, wanted));
    const sealed = await Promise.all(Array.from({ length: 20 }, () => act(near)));
    const bySeq = (a: SealedDecision, b: SealedDecision): number => a.seq - b.seq;
    expect(sealed.toSorted(bySeq)).to.deep.equal(lost.toSorted(bySeq));
    expect(await sealedIds()).to.have.length(22);
  });

  it("to one that is lost while it decides gives one decision, whoever takes it.", async () => {
    await contend();
    const late: Promise<SealedDecision>[] = [];
    answer = async (action) => void late.push(far.log.decideHere({ ...action, isRetryable: true }, wanted));
    const sealed = await Promise.all(Array.from({ length: 20 }, () => act(near)));
    expect(sealed).to.have.deep.members(await Promise.all(late));
    expect(await sealedIds()).to.have.length(22);
  });

  it("fails with what it failed with there, and is not tried here.", async () => {
    await contend();
    const { metadata, message } = await failureOf(act(near, { agentId: "agt_unknown" }));
    expect([message, metadata]).to.deep.equal(["no agent `agt_unknown`", { agent_id: "agt_unknown" }]);
    expect(asked).to.have.length(1);
  });

  /** What a listener hears that comes now and has the near replica look for more. */
  async function unheard(): Promise<string[]> {
    const heard: string[] = [];
    const stop = near.log.subscribe((events) => {
      for (const event of events) if (event.kind === "decision") heard.push(event.decisionId);
    });
    near.log.wakeUp({ seq: Number.POSITIVE_INFINITY, isChange: false });
    await near.log.idle();
    stop();
    return heard;
  }

  it("leaves what the other decided unread as long as nobody here listens.", async () => {
    await contend();
    const { decisionId } = await act(near);
    near.log.wakeUp({ seq: Number.POSITIVE_INFINITY, isChange: false });
    await near.log.idle();
    expect(await unheard()).to.deep.equal([decisionId]);
  });

  it("has what the other decided read at the regular look.", async () => {
    await contend();
    await act(near);
    expect([near.log.handsOver, far.log.handsOver]).to.deep.equal([true, false]);
    near.logs.wakeUp(undefined);
    await near.log.idle();
    expect(await unheard()).to.deep.equal([]);
  });

  it("does not happen in a process that has no others.", async () => {
    await act(workspace);
    await act(far);
    const sealed = [await act(workspace), await act(workspace)];
    expect(await sealedIds()).to.include.members(sealed.map(({ decisionId }) => decisionId));
    expect(asked).to.deep.equal([]);
  });
});
