import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { McpCaller } from "../../src/gateway/caller.ts";
import type { Endpoint } from "../../src/gateway/endpoint.ts";
import { createSessionPot } from "../../src/gateway/pots.ts";
import { OpenCall, Sessions } from "../../src/gateway/sessions.ts";
import type { McpServer } from "../../src/registry/mcp-servers.ts";
import { failureOf, openWorkspace, type TestWorkspace } from "../support/harness.ts";

/** One agent alone may have ten sessions, one workspace alone 25. */
const SIZE = 50;
const SERVER = { workspaceId: "default", name: "bank", revision: 1 } as unknown as McpServer;

describe("the sessions of MCP clients", () => {
  let workspace: TestWorkspace;
  let sessions: Sessions;
  let closed: number;

  before(async () => {
    workspace = await openWorkspace();
  });
  after(() => workspace?.close());

  const start = (idleMsForRoom?: number) => {
    const { logs } = workspace;
    const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
    closed = 0;
    sessions = new Sessions({ logs, log, sessionPot: createSessionPot(SIZE), idleMsForRoom });
  };
  afterEach(() => sessions.closeAll(new Error("the test is over")));

  const endpoint: Endpoint = {
    fetch: async () => new Response(),
    close: async () => {
      closed += 1;
    },
  };
  const callerOf = (agentId: string, workspaceId = "default"): McpCaller => ({
    workspaceId,
    keyId: workspace.adminCaller.keyId,
    role: Role.ADMIN,
    agentId,
    isKeyBound: false,
    isEnded: false,
    expiresAtMs: null,
  });
  const open = (agentId: string) => sessions.open(callerOf(agentId), SERVER, async () => endpoint);

  it("are bounded for an agent that takes all it can; the other agents of its workspace go on.", async () => {
    start();
    const [greedy, modest] = await workspace.newAgents(2);
    for (let n = 0; n < 10; n++) await open(greedy ?? "");
    const refusal = await failureOf(open(greedy ?? ""));
    expect(refusal.message).to.equal(
      "the agent holds 10 MCP sessions in this process, and its share is 10 at the moment; end some with DELETE, or retry in 60 s",
    );
    expect(refusal.metadata).to.deep.equal({
      pot: "mcp_sessions",
      unit: "MCP sessions",
      party: "agent",
      held: "10",
      most: "10",
      retry_after_seconds: "60",
    });
    for (let n = 0; n < 8; n++) await open(modest ?? "");
    expect(sessions.size).to.equal(18);
    expect(closed).to.equal(0);
  });

  it("are bounded for a workspace whose agents fill them; another still opens one.", async () => {
    start();
    const agents = await workspace.newAgents(25);
    for (const agentId of agents) await open(agentId);
    expect((await failureOf(open(agents[0] ?? ""))).metadata).to.include({ pot: "mcp_sessions", party: "workspace" });
    // The place is taken before the agent is looked up, and given back when it is not found.
    for (let n = 0; n < 20; n++) {
      const other = sessions.open(callerOf("agt_none", "other"), SERVER, async () => endpoint);
      expect((await failureOf(other)).metadata).to.not.have.property("pot");
    }
  });

  it("give their places back when they end, or when their server cannot be reached.", async () => {
    start();
    const [agentId = ""] = await workspace.newAgents(1);
    for (let round = 0; round < 3; round++) {
      const all = [];
      for (let n = 0; n < 10; n++) all.push(await open(agentId));
      for (const each of all) await sessions.close(each, new Error("ended"));
      for (const each of all) await sessions.close(each, new Error("ended again"));
      for (let n = 0; n < 20; n++) {
        const unreachable = sessions.open(callerOf(agentId), SERVER, () => Promise.reject(new Error("down")));
        await unreachable.catch(() => undefined);
      }
    }
    expect(sessions.size).to.equal(0);
  });

  it("that are idle end to make room, the longest idle first, and none with a call or a stream.", async () => {
    start(0);
    const [agentId = ""] = await workspace.newAgents(1);
    const all = [];
    for (let n = 0; n < 10; n++) all.push(await open(agentId));
    const ids = all.map(({ id }) => id);
    const [calling, streaming, idle, ...rest] = all;
    calling?.open.set(1, new OpenCall({ jsonrpc: "2.0", id: 1, method: "ping" }, new AbortController()));
    streaming?.streams.add(new AbortController());
    await open(agentId);
    const isOpen = (id = "") => {
      try {
        return sessions.get(id, callerOf(agentId), SERVER).id === id;
      } catch {
        return false;
      }
    };
    expect(ids.filter((id) => !isOpen(id))).to.deep.equal([idle?.id]);
    for (const each of rest) each.streams.add(new AbortController());
    await open(agentId);
    expect((await failureOf(Promise.all([open(agentId), open(agentId), open(agentId)]))).metadata).to.include({
      party: "agent",
    });
    expect([calling, streaming, ...rest].filter((each) => !isOpen(each?.id))).to.deep.equal([]);
  });
});
