import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import {
  answerFrom,
  appendedFrom,
  createLineWriter,
  lineFromQuestion,
  readLines,
} from "../../src/cluster/peer-lines.ts";
import { createPeers } from "../../src/cluster/peers.ts";
import type { Action, SealedDecision } from "../../src/state/types.ts";
import { assertIntact, decisionsOf, readLog } from "../log/stored-log.ts";
import { until } from "./harness.ts";
import {
  allAsked,
  appendWaits,
  forwarding,
  openPair,
  type Pair,
  type StandIn,
  standIn,
  wanted,
  whileHeld,
} from "./peer-pair.ts";

const CALLS = 20;
/** Milliseconds after which a peer that was lost is asked again. */
const PAUSE_MS = 1_000;

describe("a peer that is lost", () => {
  let pair: Pair;
  const standIns: StandIn[] = [];
  beforeEach(async () => {
    pair = await openPair();
  });
  afterEach(async () => {
    assertIntact(await readLog(pair.workspace.url));
    for (const each of standIns.splice(0)) each.close();
    await pair.close();
  });

  const actions = (): Action[] => Array.from({ length: CALLS }, () => pair.action());
  const askAll = (): ReturnType<typeof allAsked> => allAsked(actions().map((action) => pair.ask(action)));
  const nobody = Array.from({ length: CALLS }, () => undefined);

  async function sealedIds(): Promise<string[]> {
    return decisionsOf(await readLog(pair.workspace.url)).map(({ decision_id }) => decision_id);
  }

  /** Puts something in the place of the far process, as the near one knows it. */
  async function replaceFar(onSocket: Parameters<typeof standIn>[1]): Promise<StandIn> {
    const path = pair.pathOf("stand-in");
    const stand = await standIn(path, onSocket);
    standIns.push(stand);
    pair.redirect(path);
    return stand;
  }

  /** Lets questions through and cuts the connection instead of the first answer. */
  const cutAnswers = (): Promise<StandIn> =>
    replaceFar(forwarding(pair.far.peer.path, (_, asker) => void asker.destroy()));

  it("after it decided and before it answered leaves whoever asked without an answer.", async () => {
    await cutAnswers();
    const action = pair.action();
    expect(await allAsked([pair.ask(action)])).to.deep.equal([undefined]);
    expect(await sealedIds()).to.deep.equal([action.decisionId]);
  });

  it("after it decided and before it answered does not change the decision.", async () => {
    await pair.contend();
    const stand = await cutAnswers();
    const asked = actions();
    const sealed = await Promise.all(asked.map((action) => pair.near.log.decide(action, wanted)));
    expect(stand.connections).to.equal(1);
    const ids = (await sealedIds()).slice(2);
    expect(ids).to.have.members(asked.map(({ decisionId }) => decisionId));
    // Whoever was asked first decided: in the order of the calls, which is also that of the log.
    expect(sealed.map(({ decisionId }) => decisionId)).to.deep.equal(ids);
    expect(sealed.map(({ seq }) => seq)).to.deep.equal(
      ids.map((_, index) => (sealed[0] as SealedDecision).seq + index),
    );
  });

  it("before it heard the question has the action decided by whoever asked.", async () => {
    await pair.contend();
    await replaceFar((socket) => void socket.once("data", () => socket.destroy()));
    const asked = actions();
    const sealed = await Promise.all(asked.map((action) => pair.near.log.decide(action, wanted)));
    expect((await sealedIds()).slice(2)).to.deep.equal(sealed.map(({ decisionId }) => decisionId));
  });

  it("and hears a question late finds it decided, which harms nobody.", async () => {
    const { near, far, workspace } = pair;
    await workspace.log.caughtUp();
    const action = pair.action();
    const first = await near.log.decideHere({ ...action, isRetryable: true }, wanted);
    const late = connect(far.peer.path);
    const answers: unknown[] = [];
    readLines(late, (line) => void (appendedFrom(line) === undefined && answers.push(answerFrom(line))));
    const others = await whileHeld(pair, async (release) => {
      const running = far.log.decideHere(pair.action(), wanted);
      await appendWaits(pair);
      createLineWriter(late)(lineFromQuestion({ id: 5, workspaceId: workspace.workspaceId, action }));
      await until("the question waits", () => far.log.waiting === 1);
      const waiting = actions().map((other) => far.log.decideHere(other, wanted));
      await release();
      return Promise.all([running, ...waiting]);
    });
    await until("the question is answered", () => answers.length > 0);
    const { decisionId: _, agentId: __, actionType: ___, ...sealed } = first;
    expect(answers).to.deep.equal([{ id: 5, sealed }]);
    expect(new Set([first, ...others].map(({ seq }) => seq)).size).to.equal(CALLS + 2);
    late.destroy();
  });

  it("is given up when it answers nobody, with all who wait.", async () => {
    const stand = await replaceFar((socket) => void socket.resume());
    expect(await askAll()).to.deep.equal(nobody);
    expect(stand.connections).to.equal(1);
    expect(pair.ask()).to.equal(undefined);
  });

  it("is given up when it answers only some.", async () => {
    let passed = 0;
    const stand = await replaceFar(
      forwarding(pair.far.peer.path, (bytes, asker) => void (++passed <= 2 && asker.write(bytes))),
    );
    const first = [await allAsked([pair.ask()]), await allAsked([pair.ask()])].flat();
    expect(first.map((sealed) => sealed?.decision)).to.deep.equal(["allow", "allow"]);
    expect(await askAll()).to.deep.equal(nobody);
    expect(stand.connections).to.equal(1);
  });

  for (const [what, line] of Object.entries({
    "what is no JSON": "no JSON",
    "what is no answer": "null",
    "what nobody asked": '[77,{"reason":0,"message":"","metadata":{}}]',
  })) {
    it(`is given up when it answers ${what}.`, async () => {
      await replaceFar((socket) => void socket.once("data", () => socket.write(`${line}\n`)));
      expect(await askAll()).to.deep.equal(nobody);
    });
  }

  it("is not asked again at once, while decisions go on, and is asked again later.", async () => {
    await pair.contend();
    const path = pair.pathOf("stand-in");
    pair.redirect(path);
    expect(await allAsked([pair.ask()])).to.deep.equal([undefined]);
    expect(pair.ask()).to.equal(undefined);
    await Promise.all(actions().map((action) => pair.near.log.decide(action, wanted)));
    expect(await sealedIds()).to.have.length(CALLS + 2);
    standIns.push(
      await standIn(
        path,
        forwarding(pair.far.peer.path, (bytes, asker) => void asker.write(bytes)),
      ),
    );
    await until("the peer is asked again", async () => (await pair.ask()) !== undefined);
  });

  it("and is known again is connected to once.", async () => {
    const answering = forwarding(pair.far.peer.path, (bytes, asker) => void asker.write(bytes));
    const stand = await replaceFar(answering);
    await allAsked([pair.ask()]);
    pair.near.peers.know([]);
    await until("the first connection is closed", () => stand.open === 0);
    pair.redirect(pair.pathOf("stand-in"));
    await allAsked([pair.ask()]);
    // The first connection is forgotten by then, and only that one.
    await delay(PAUSE_MS * 1.2);
    await allAsked([pair.ask()]);
    expect(stand.connections).to.equal(2);
  });
});

describe("a peer that leaves", () => {
  let pair: Pair;
  beforeEach(async () => {
    pair = await openPair();
  });
  afterEach(() => pair.close());

  it("is not asked any more, and answers what it was asked before.", async () => {
    const sealed = await whileHeld(pair, async (release) => {
      const asked = pair.ask();
      await appendWaits(pair);
      pair.near.peers.know([]);
      expect(pair.ask()).to.equal(undefined);
      await release();
      return asked;
    });
    expect(sealed?.decision).to.equal("allow");
    expect(pair.ask()).to.equal(undefined);
  });

  it("answers what it took before it stops to serve.", async () => {
    const sealed = await whileHeld(pair, async (release) => {
      const asked = Array.from({ length: CALLS }, () => pair.ask());
      await appendWaits(pair);
      const stopped = pair.far.peers.stopServing();
      await release();
      await stopped;
      return allAsked(asked);
    });
    expect(sealed.map((each) => each?.decision)).to.deep.equal(sealed.map(() => "allow"));
    await until("the connection is closed", async () => (await pair.ask()) === undefined);
    expect(decisionsOf(await readLog(pair.workspace.url)).length).to.be.at.least(CALLS);
  });

  it("stops at once when nobody asked it anything.", async () => {
    const peers = createPeers(3);
    await peers.stopServing();
    await peers.serve(pair.workspace.logs, pair.pathOf("3"));
    await peers.stopServing();
    const refused = connect(pair.pathOf("3"));
    expect(await once(refused, "connect").catch((error: NodeJS.ErrnoException) => error.code)).to.equal("ENOENT");
  });

  it("cannot listen where another one does.", async () => {
    const failure = await createPeers(3)
      .serve(pair.workspace.logs, pair.far.peer.path)
      .catch((error: NodeJS.ErrnoException) => error.code);
    expect(failure).to.equal("EADDRINUSE");
    expect((await pair.ask())?.decision).to.equal("allow");
  });

  it("lets go of the others: whoever waits for them hears nothing, and nobody is asked any more.", async () => {
    await whileHeld(pair, async () => {
      const asked = pair.ask();
      await appendWaits(pair);
      pair.near.peers.close();
      expect(await asked).to.equal(undefined);
      expect(pair.ask()).to.equal(undefined);
    });
  });
});
