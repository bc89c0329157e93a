import { connect } from "node:net";
import { expect } from "chai";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { createLineWriter, lineFromQuestion } from "../../src/cluster/peer-lines.ts";
import { createPeers } from "../../src/cluster/peers.ts";
import { readReceipts, sealedDecisionFromReceipt } from "../../src/log/receipts.ts";
import type { Action, SealedDecision } from "../../src/state/types.ts";
import { canonicalJson, type JsonObject } from "../../src/tree/canonical.ts";
import { actionRule } from "../log/harness.ts";
import { assertIntact, decisionsOf, readLog } from "../log/stored-log.ts";
import { actionOf, failureOf, reasonOf } from "../support/workspace.ts";
import { until } from "./harness.ts";
import { openPair, type Pair, wanted } from "./peer-pair.ts";

const WORKSPACES = Array.from({ length: 60 }, (_, index) => `workspace-${index}`);

/** What differs between two decisions on equal actions. */
const OWN = ["decision_id", "seq", "at", "previous_root", "previous_size", "escalation_id", "trust"];

const metadataOf = (metadata: JsonObject): Partial<Action> => ({
  metadata: metadata as Action["metadata"],
  metadataText: canonicalJson(metadata),
});

const typeOf = (actionType: string): Partial<Action> => ({
  actionType,
  normalisedType: actionType.trim().toLowerCase(),
});

const CASES: Readonly<Record<string, Partial<Action>>> = {
  "nothing but what it must have": {},
  "a type that is not written as patterns see it": typeOf(" Pay.NOW "),
  "a text of all kinds": { actionContent: `"quoted" \\ \t \n \r\n \u2028 \u0000 é 漢 👩‍👩‍👧` },
  "empty metadata": metadataOf({}),
  metadata: metadataOf({ z: 1, a: { b: [1.5, 1e21, null, "\t\n\u2028"] }, "": "" }),
  "metadata with a prototype": metadataOf(JSON.parse('{"__proto__": {"a": 1}, "constructor": {"__proto__": 2}}')),
  "a tool": { tool: "hammer" },
  "a session": { sessionId: "ses_none" },
  "a principal": { onBehalfOf: "agt_none" },
  "a grant": { grantId: "grt_none" },
  "an intent contract": { intentContractId: "itc_none" },
  "an escalation that is none": { escalationId: "esc_none" },
  "a key": { keyId: "key_other" },
  "a type that is blocked": typeOf("delete.all"),
  "a type that waits for a human": typeOf("review.send"),
};

describe("who decides for a workspace", () => {
  const peersAt = (...slots: number[]) => slots.map((slot) => ({ slot, path: `nowhere/${slot}` }));
  const deciders = (slots: readonly number[], told: readonly number[]): (number | undefined)[] => {
    const all = slots.map((slot) => ({ slot, peers: createPeers(slot) }));
    for (const { peers } of all) peers.know(peersAt(...told));
    return WORKSPACES.map((workspaceId) => {
      const action = actionOf({ agentId: "agt", actionType: "pay" });
      const own = all.filter(({ peers }) => peers.decide(workspaceId, action) === undefined);
      expect(own, workspaceId).to.have.length(1);
      return own[0]?.slot;
    });
  };

  for (const slots of [
    [1, 2],
    [1, 2, 3, 4],
  ]) {
    it(`is one of ${slots.length}, whatever order they are told in, and each for some.`, () => {
      const found = deciders(slots, slots);
      expect(deciders(slots, slots.toReversed())).to.deep.equal(found);
      expect([...new Set(found)]).to.have.members(slots);
    });
  }

  it("is whoever asks while there is nobody else.", () => {
    const alone = createPeers(1);
    for (const told of [undefined, [], peersAt(1), peersAt(2)]) {
      if (told !== undefined) alone.know(told);
      for (const workspaceId of WORKSPACES) {
        expect(alone.decide(workspaceId, actionOf({ agentId: "agt", actionType: "pay" }))).to.equal(undefined);
      }
    }
  });
});

describe("two processes that ask each other", () => {
  let pair: Pair;
  before(async () => {
    pair = await openPair();
    const { mandates } = pair.workspace.services;
    const rules = [actionRule(Decision.BLOCK, "delete.*"), actionRule(Decision.ESCALATE, "review.*")];
    await mandates.createMandate({ name: "rules", rules });
  });
  after(async () => {
    assertIntact(await readLog(pair.workspace.url));
    await pair.close();
  });

  async function bodyOf(decisionId: string): Promise<object> {
    const body = decisionsOf(await readLog(pair.workspace.url)).find((each) => each.decision_id === decisionId);
    return Object.fromEntries(Object.entries(body ?? {}).filter(([name]) => !OWN.includes(name)));
  }

  async function logged({ decisionId }: Pick<Action, "decisionId">): Promise<SealedDecision | undefined> {
    const { database, workspaceId } = pair.workspace;
    const receipt = (await readReceipts(database.pool, workspaceId, [decisionId])).get(decisionId);
    return receipt && sealedDecisionFromReceipt(receipt);
  }

  it("have each workspace decided by the one that the other asks.", async () => {
    const { near, far } = pair;
    for (const workspaceId of WORKSPACES) {
      const calls = [near, far].map(({ peers }) => peers.decide(workspaceId, pair.action()));
      const asked = calls.filter((call) => call !== undefined);
      expect(asked, workspaceId).to.have.length(1);
      expect(await reasonOf(asked[0] as Promise<unknown>)).to.equal("WORKSPACE_NOT_FOUND");
    }
  });

  for (const [what, more] of Object.entries(CASES)) {
    it(`seal an action with ${what} as if it were decided where it arrived.`, async () => {
      const [there, here] = [pair.action(more), pair.action(more)];
      const answer = await pair.ask(there);
      await pair.workspace.log.decideHere(here, wanted);
      expect(answer).to.deep.equal(await logged(there));
      expect(await bodyOf(there.decisionId)).to.deep.equal(await bodyOf(here.decisionId));
    });
  }

  it("answer many at once, each with its own.", async () => {
    const actions = Array.from({ length: 300 }, (_, index) => pair.action({ actionContent: `action ${index}` }));
    const answers = await Promise.all(actions.map((action) => pair.ask(action)));
    expect(answers.map((answer) => answer?.decisionId)).to.deep.equal(actions.map(({ decisionId }) => decisionId));
    for (const [index, action] of actions.entries()) {
      if (index % 50 === 0) expect(answers[index]).to.deep.equal(await logged(action));
    }
  });

  it("tell the one that asked of all that is appended, so that it reads none of it.", async () => {
    const { near, far } = pair;
    const { pool } = near.database;
    await pair.ask();
    await near.log.caughtUp();
    const heard: string[] = [];
    const unsubscribe = near.log.subscribe((events) => {
      for (const event of events) if (event.kind === "decision") heard.push(event.decisionId);
    });
    const query = pool.query.bind(pool) as (...args: unknown[]) => Promise<{ rows: unknown[] }>;
    let read = 0;
    Object.assign(pool, {
      query: async (...args: unknown[]) => {
        const result = await query(...args);
        read += (args[0] as { name?: string }).name === "read-entries-from" ? result.rows.length : 0;
        return result;
      },
    });
    const actions = Array.from({ length: 20 }, () => pair.action());
    try {
      await Promise.all(actions.map((action) => far.log.decideHere(action, wanted)));
      await until("all are heard of", () => heard.length === actions.length);
    } finally {
      Object.assign(pool, { query });
      unsubscribe();
    }
    expect(heard).to.deep.equal(actions.map(({ decisionId }) => decisionId));
    expect(read).to.equal(0);
  });

  it("tell nobody of a workspace that nobody asked for, and a peer that does not listen only so much.", async () => {
    const { far } = pair;
    let told = 0;
    const columns = { ids: ["x".repeat(100_000)], agents: [], types: [], decisions: [], used: [] };
    const batch = () => {
      told += 1;
      return { seq: 1e9, atMs: 0, columns, frontier: "" };
    };
    far.peers.tell("workspace-nobody-asked-for", batch);
    expect(told).to.equal(0);
    const deaf = connect(far.peer.path).pause();
    createLineWriter(deaf)(lineFromQuestion({ id: 1, workspaceId: "workspace-deaf", action: pair.action() }));
    await until("the question has come", () => {
      far.peers.tell("workspace-deaf", batch);
      return told > 0;
    });
    for (let count = 0; count < 1_000; count++) {
      far.peers.tell("workspace-deaf", batch);
      await new Promise((resolve) => setImmediate(resolve));
    }
    // 4 MiB that wait, and what the system takes off the process before that.
    expect(told).to.be.within(40, 200);
    deaf.destroy();
    expect((await pair.ask())?.agentId).to.equal(pair.agentId);
  });

  it("fail as the one that decides fails.", async () => {
    const { near, workspace } = pair;
    const unknown = pair.action({ agentId: "agt_unknown" });
    const there = await failureOf(pair.ask(unknown) as Promise<unknown>);
    const here = await failureOf(near.log.decideHere(unknown, wanted));
    for (const failure of [there, here]) expect(failure.metadata).to.deep.equal({ agent_id: "agt_unknown" });
    expect([there.reason, there.message]).to.deep.equal([here.reason, here.message]);
    expect(await logged(unknown)).to.equal(undefined);
    expect(decisionsOf(await readLog(workspace.url)).length).to.be.above(0);
  });

  it("decide for an agent that was registered elsewhere a moment ago.", async () => {
    const { agent } = await pair.near.services.agents.registerAgent({ name: "new" });
    expect(await pair.ask(pair.action({ agentId: agent?.agentId ?? "" }))).to.include({ decision: "allow" });
  });

  it("obey what was changed elsewhere a moment ago.", async () => {
    const agentId = (await pair.near.services.agents.registerAgent({ name: "old" })).agent?.agentId ?? "";
    await pair.ask(pair.action({ agentId }));
    await pair.near.services.agents.deactivateAgent({ agentId });
    expect(await pair.ask(pair.action({ agentId }))).to.include({ decision: "block", path: "revoked" });
  });

  it("give a repeated request its first decision, whichever was asked first and last.", async () => {
    const { near, far, workspace } = pair;
    const ways: ((action: Action) => ReturnType<Pair["ask"]>)[] = [
      (action) => pair.ask(action),
      (action) => near.log.decideHere(action, wanted),
      (action) => far.log.decide(action, wanted),
      (action) => workspace.log.decide(action, wanted),
    ];
    for (const first of ways) {
      const action = pair.action({ isRetryable: true, ...metadataOf({ b: 1, a: [] }) });
      const sealed = await first(action);
      await pair.ask();
      for (const again of ways) expect(await again(action)).to.deep.equal(sealed);
      const other = pair.action({ ...action, actionContent: "another" });
      expect(await reasonOf(pair.ask(other) as Promise<unknown>)).to.equal("REQUEST_ID_REUSED");
    }
  });

  it("give a request that comes to both at once one decision.", async () => {
    await pair.contend();
    const actions = Array.from({ length: 100 }, () => pair.action({ isRetryable: true }));
    const both = [pair.near, pair.far, pair.workspace].map(({ log }) =>
      Promise.all(actions.map((action) => log.decide(action, wanted))),
    );
    const [first, ...others] = await Promise.all(both);
    for (const other of others) expect(other).to.deep.equal(first);
  });
});
