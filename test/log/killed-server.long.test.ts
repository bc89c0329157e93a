import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionRule, openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";
import type { TestServer } from "../support/server.ts";
import { until } from "./gate.ts";
import { interceptOver, type RestOutcome, saidOf, startServers } from "./rest.ts";
import { assertIntact, readLog } from "./stored-log.ts";

const CALLERS = 40;
const AGENTS = 5;
const BEFORE_THE_KILL = 250;
const ACTION_TYPES = ["pay", "read", "ask"];

interface Asked {
  readonly action: { readonly agent_id: string; readonly action_type: string; readonly request_id: string };
  readonly outcome: RestOutcome;
}

describe("a server that is killed under load", () => {
  let workspace: TestWorkspace;
  let agentIds: string[];
  before(async () => {
    workspace = await openWorkspace();
    agentIds = [];
    while (agentIds.length < AGENTS) agentIds.push(await workspace.agent());
    await workspace.mandate([velocityRule(100, { scope: Scope.WORKSPACE })]);
    await workspace.mandate([actionRule(Decision.ESCALATE, "ask")]);
  });
  after(() => workspace.close());

  /** Callers that each ask again as soon as they are answered, until the server is gone. */
  async function load(server: TestServer, asked: Asked[]): Promise<void> {
    const caller = async (number: number): Promise<void> => {
      for (let turn = number; ; turn++) {
        const action_type = ACTION_TYPES[turn % ACTION_TYPES.length] as string;
        const action = { agent_id: agentIds[number % AGENTS] as string, action_type, request_id: randomUUID() };
        const outcome = await interceptOver(server, action);
        asked.push({ action, outcome });
        if (outcome.kind === "unanswered") return;
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, (_, number) => caller(number)));
  }

  it("has lost no decision that a caller received, and answers every retry with the first decision.", async () => {
    const adminKey = randomBytes(24).toString("base64url");
    const [server] = (await startServers(workspace.url, 1, adminKey)) as [TestServer];
    const asked: Asked[] = [];
    const loaded = load(server, asked);
    await until(() => asked.length >= BEFORE_THE_KILL);
    await server.kill();
    await loaded;

    const [next] = (await startServers(workspace.url, 1, adminKey)) as [TestServer];
    const log = await readLog(workspace.url);
    assertIntact(log);
    const times = Map.groupBy(log.entries, ({ entryId }) => entryId);
    const received = asked.flatMap(({ outcome }) => (outcome.kind === "decided" ? [outcome.reply] : []));
    expect(received.length + CALLERS).to.equal(asked.length);
    for (const { decision_id, decision } of received) {
      const [entry] = times.get(decision_id) ?? [];
      expect(JSON.parse(entry?.body ?? "{}")).to.include({ decision_id, decision });
    }

    const retried = await Promise.all(asked.map(async ({ action }) => interceptOver(next, action)));
    retried.forEach((outcome, index) => {
      const first = asked[index]?.outcome as RestOutcome;
      expect(outcome.kind).to.equal("decided");
      if (outcome.kind !== "decided" || first.kind !== "decided") return;
      expect(saidOf(outcome.reply)).to.deep.equal(saidOf(first.reply));
    });
    const after = await readLog(workspace.url);
    assertIntact(after);
    const decisions = after.entries.filter(({ kind }) => kind === 0);
    expect(decisions).to.have.length(asked.length);
    await next.stop();
  });
});
