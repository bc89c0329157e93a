import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import type { TestServer } from "../support/server.ts";
import { replayNaively } from "./naive-log.ts";
import { decided, interceptOver, type RestDecision, startServers } from "./rest.ts";
import { assertIntact, readLog } from "./stored-log.ts";

const SERVERS = 3;
/** Callers that act all the time, and rounds of changes under them. */
const CALLERS = 12;
const ROUNDS = 6;
/** Random moves, and the actions after each, in the test of counts. */
const MOVES = 30;

interface Limit {
  readonly group: string;
  readonly members: number;
  readonly count: number;
}

describe("membership and mandates, changed on one of three processes", () => {
  let workspace: TestWorkspace;
  let servers: TestServer[] = [];
  before("starts three processes on one database", async () => {
    workspace = await openWorkspace();
    servers = await startServers(workspace.url, SERVERS, randomBytes(24).toString("base64url"));
  });
  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await workspace.close();
  });

  const serverAt = (index: number): TestServer => servers[index % SERVERS] as TestServer;

  /** Calls one process and gives the reply. Throws what it answers when it refuses. */
  async function call<T>(index: number, method: string, path: string, body?: object): Promise<T> {
    const { http, adminKey } = serverAt(index);
    const response = await fetch(`${http}/v1/enforce/${path}`, {
      method,
      headers: { "x-api-key": adminKey, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
    return (await response.json()) as T;
  }

  const join = (index: number, departmentId: string, agentId: string) =>
    call(index, "PUT", `departments/${departmentId}/members/${agentId}`, {});
  const leave = (index: number, departmentId: string, agentId: string) =>
    call(index, "DELETE", `departments/${departmentId}/members/${agentId}`);
  const close = (index: number, departmentId: string) => call(index, "DELETE", `departments/${departmentId}`);

  let mandates = 0;
  const draft = (rule: object, init: object = {}) => ({ name: `live mandate ${++mandates}`, rules: [rule], ...init });
  async function publish(index: number, rule: object, init?: object): Promise<string> {
    type Reply = { readonly mandate: { readonly mandate_id: string } };
    return (await call<Reply>(index, "POST", "mandates", draft(rule, init))).mandate.mandate_id;
  }
  const replace = (index: number, mandateId: string, rule: object) =>
    call(index, "PUT", `mandates/${mandateId}`, draft(rule));
  const archive = (index: number, mandateId: string) => call(index, "DELETE", `mandates/${mandateId}`);

  const onAction = (decision: string, type: string) => ({
    type: "action",
    decision,
    conditions: { match_action_types: [type] },
  });
  const onCount = (maxCount: number, type: string, conditions: object = {}) => ({
    type: "sequence",
    decision: "block",
    conditions: {
      mode: "velocity",
      match_action_types: [type],
      max_count: maxCount,
      window_seconds: 3600,
      scope: "department",
      ...conditions,
    },
  });
  const inDepartment = (departmentId: string) => ({ scope: "department", department_id: departmentId });

  /** Asks all processes at the same moment to decide an action of an agent. */
  function everywhere(agentId: string, actionType: string): Promise<RestDecision[]> {
    const action = { agent_id: agentId, action_type: actionType };
    return Promise.all(servers.map(async (server) => decided(await interceptOver(server, action))));
  }

  async function expectEverywhere(agentId: string, actionType: string, want: string): Promise<void> {
    const decisions = (await everywhere(agentId, actionType)).map(({ decision }) => decision);
    expect(decisions).to.deep.equal(Array(SERVERS).fill(want));
  }

  async function limitOf({ decision_id: id }: RestDecision, index: number): Promise<Limit> {
    type Reply = { readonly receipt: { readonly authorisation: { readonly collective_limits: readonly Limit[] } } };
    const { receipt } = await call<Reply>(index, "GET", `decisions/${id}`);
    return receipt.authorisation.collective_limits[0] as Limit;
  }

  it("a move into a department and out of it is obeyed by the next action on each.", async () => {
    const agentId = await workspace.agent();
    const [blocked, escalated] = [await workspace.department(), await workspace.department()];
    await publish(0, onAction("block", "move.act"), inDepartment(blocked));
    await publish(1, onAction("escalate", "move.act"), inDepartment(escalated));
    await expectEverywhere(agentId, "move.act", "allow");
    for (let index = 0; index < SERVERS; index++) {
      await join(index, escalated, agentId);
      await expectEverywhere(agentId, "move.act", "escalate");
      await join(index + 1, blocked, agentId);
      await expectEverywhere(agentId, "move.act", "block");
      await leave(index + 2, blocked, agentId);
      await expectEverywhere(agentId, "move.act", "escalate");
      await leave(index, escalated, agentId);
      await expectEverywhere(agentId, "move.act", "allow");
    }
  });

  it("a new mandate, its next version and its end are obeyed by the next action on each.", async () => {
    const agentId = await workspace.agent();
    for (let index = 0; index < SERVERS; index++) {
      const mandateId = await publish(index, onAction("block", "mandate.act"));
      await expectEverywhere(agentId, "mandate.act", "block");
      await replace(index + 1, mandateId, onAction("escalate", "mandate.act"));
      await expectEverywhere(agentId, "mandate.act", "escalate");
      await archive(index + 2, mandateId);
      await expectEverywhere(agentId, "mandate.act", "allow");
    }
  });

  it("a deleted department no longer counts its members together.", async () => {
    const limit = 9;
    await publish(0, onCount(limit, "delete.act"));
    for (let index = 0; index < SERVERS; index++) {
      const [busy, quiet] = [await workspace.agent(), await workspace.agent()];
      const departmentId = await workspace.department(busy, quiet);
      while ((await everywhere(busy, "delete.act")).every(({ decision }) => decision === "allow"));
      await expectEverywhere(quiet, "delete.act", "block");
      await close(index, departmentId);
      await expectEverywhere(quiet, "delete.act", "allow");
      await expectEverywhere(busy, "delete.act", "block");
    }
  });

  it("counts include the past actions of current members, and none of former ones.", async () => {
    await publish(0, onCount(1_000_000, "count.act"));
    const below = seededBelow(7);
    const agents = await Promise.all(Array.from({ length: 6 }, () => workspace.agent()));
    const departments = await Promise.all(Array.from({ length: 3 }, () => workspace.department()));
    const members = new Map(departments.map((id) => [id, new Set<string>()]));
    const acted = new Map(agents.map((id) => [id, 0]));
    for (let move = 0; move < MOVES; move++) {
      const agentId = agents[below(agents.length)] as string;
      const departmentId = departments[below(departments.length)] as string;
      const isMember = members.get(departmentId)?.delete(agentId);
      if (!isMember) members.get(departmentId)?.add(agentId);
      await (isMember ? leave : join)(move, departmentId, agentId);
      const actor = agents[below(agents.length)] as string;
      const own = departments.filter((id) => members.get(id)?.has(actor)).sort();
      const group = new Set(own.length === 0 ? [actor] : own.flatMap((id) => [...(members.get(id) ?? [])]));
      const before = [...group].reduce((sum, id) => sum + (acted.get(id) ?? 0), 0);
      const limits = await Promise.all((await everywhere(actor, "count.act")).map(limitOf));
      expect(new Set(limits.map(({ group }) => group))).to.deep.equal(new Set([own.join("+") || actor]));
      expect(new Set(limits.map(({ members }) => members))).to.deep.equal(new Set([group.size]));
      const counts = limits.map(({ count }) => count).sort((a, b) => a - b);
      expect(counts).to.deep.equal(servers.map((_, index) => before + index + 1));
      acted.set(actor, (acted.get(actor) ?? 0) + SERVERS);
    }
  });

  it(`all of it holds while ${CALLERS} callers act, and a naive model replays every decision.`, async () => {
    const crowd = await Promise.all(Array.from({ length: 8 }, () => workspace.agent()));
    const [agentId, blocked, escalated] = [
      await workspace.agent(),
      await workspace.department(),
      await workspace.department(),
    ];
    await publish(0, onAction("block", "load.move"), inDepartment(blocked));
    await publish(1, onAction("escalate", "load.move"), inDepartment(escalated));
    await publish(2, onCount(200, "load.*", { window_seconds: 2 }));
    let isOver = false;
    let answered = 0;
    const callers = Array.from({ length: CALLERS }, async (_, caller) => {
      const action = { agent_id: crowd[caller % crowd.length], action_type: "load.act" };
      while (!isOver) {
        decided(await interceptOver(serverAt(caller), action));
        answered += 1;
      }
    });
    const rounds = async (): Promise<void> => {
      for (let round = 0; round < ROUNDS; round++) {
        const team = await workspace.department(...crowd.slice(0, 1 + (round % crowd.length)));
        const mandateId = await publish(round, onAction("escalate", "load.mandate"));
        await expectEverywhere(agentId, "load.mandate", "escalate");
        await join(round + 1, escalated, agentId);
        await expectEverywhere(agentId, "load.move", "escalate");
        // Two changes at once, on different processes; each holds once its own reply is there.
        await Promise.all([join(round, blocked, agentId), archive(round + 2, mandateId)]);
        await Promise.all([
          expectEverywhere(agentId, "load.move", "block"),
          expectEverywhere(agentId, "load.mandate", "allow"),
        ]);
        await Promise.all([leave(round, blocked, agentId), leave(round + 1, escalated, agentId)]);
        await Promise.all([expectEverywhere(agentId, "load.move", "allow"), close(round + 2, team)]);
      }
    };
    await rounds().finally(() => {
      isOver = true;
    });
    await Promise.all(callers);
    expect(answered).to.be.above(CALLERS * ROUNDS);
    const log = await readLog(workspace.url);
    assertIntact(log);
    const replayed = replayNaively(log.entries.map(({ body }) => body));
    expect(replayed.length).to.be.above(answered);
    for (const { want, got } of replayed) expect(got).to.deep.equal(want);
  });
});
