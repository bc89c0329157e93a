import { setTimeout as delay } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { expect } from "chai";
import { SharedPot } from "../../src/async/shared-pot.ts";
import { type ControlPlaneError, overShare } from "../../src/errors.ts";
import { StatelessBridge } from "../../src/gateway/bridges.ts";
import { StatelessBridges } from "../../src/gateway/stateless-bridges.ts";
import { startWaitingServer, type WaitingServer } from "./waiting-server.ts";

/** One workspace alone may have six. */
const SIZE = 12;

/** Waits for a condition; the time limit of the test is the only bound. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await delay(5);
}

describe("the sessions for stateless clients", () => {
  let upstream: WaitingServer;
  let pot: SharedPot;
  let bridges: StatelessBridges;

  beforeEach(async () => {
    upstream = await startWaitingServer();
    pot = new SharedPot({
      name: "mcp_bridges",
      size: SIZE,
      unit: "bridges",
      advice: "wait",
      retryAfterSeconds: 5,
      refuse: overShare,
    });
    bridges = new StatelessBridges(pot);
  });
  afterEach(async () => {
    upstream.release();
    await bridges.close();
    await upstream.close();
  });

  async function open(): Promise<StatelessBridge> {
    const client = new Client({ name: "test", version: "1" }, { capabilities: {} });
    const bridge = new StatelessBridge(client, {});
    await client.connect(new StreamableHTTPClientTransport(new URL(upstream.url)));
    return bridge;
  }

  /** Makes a call for a workspace, in a session of the given name. Resolves with the text of the response. */
  async function call(workspaceId: string, name: string, tool: string, signal = new AbortController().signal) {
    const wanted = { key: `${workspaceId} ${name}`, holder: { workspaceId, agentId: null }, open };
    const endpoint = await bridges.endpoint(wanted);
    const response = await endpoint.fetch({
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": tool,
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: {
          name: tool,
          arguments: {},
          _meta: {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
          },
        },
      }),
      signal,
    });
    return response.text();
  }

  it("are kept while their calls run, whatever others open; idle ones of the same workspace end to make room.", async () => {
    const inMidCall = call("b", "one", "wait");
    await until(() => upstream.waiting.length === 1);
    const [session] = upstream.waiting;
    for (let n = 0; n < 20; n++) expect(await call("a", `${n}`, "hello")).to.contain("hello");
    expect(pot.heldBy({ workspaceId: "a" })).to.equal(5);
    await until(() => upstream.ended.length === 15);
    expect(upstream.ended).to.deep.equal(upstream.opened.filter((each) => each !== session).slice(0, 15));
    upstream.release();
    expect(await inMidCall).to.contain("waited");
  });

  it("refuse one workspace that uses its share, and none of another; a third still gets one.", async () => {
    const calls = Array.from({ length: 8 }, (_, n) =>
      call("a", `${n}`, "wait").catch(({ message, metadata }: ControlPlaneError) => ({ message, metadata })),
    );
    await until(() => upstream.waiting.length === 6);
    const others = Array.from({ length: 2 }, (_, n) => call("b", `${n}`, "wait"));
    await until(() => upstream.waiting.length === 8);
    expect(await call("c", "one", "hello")).to.contain("hello");
    upstream.release();
    const answers = await Promise.all(calls);
    expect(answers.filter((each) => typeof each === "string" && each.includes("waited"))).to.have.length(6);
    for (const refusal of answers.filter((each) => typeof each !== "string")) {
      expect(refusal).to.deep.include({
        message:
          "the workspace holds 6 bridges in this process, and its share is 6 at the moment; wait, or retry in 5 s",
      });
      expect(refusal).to.have.property("metadata").that.includes({ pot: "mcp_bridges", retry_after_seconds: "5" });
    }
    for (const each of await Promise.all(others)) expect(each).to.contain("waited");
  });

  it("are free again once the client of a call has left in the middle.", async () => {
    for (let round = 0; round < 3; round++) {
      const leaving = new AbortController();
      const calls = Array.from({ length: 6 }, (_, n) =>
        call("a", `${round} ${n}`, "wait", leaving.signal).catch(() => undefined),
      );
      await until(() => upstream.waiting.length === 6 * (round + 1));
      leaving.abort();
      await Promise.all(calls);
    }
    expect(pot.heldBy({ workspaceId: "a" })).to.equal(6);
  });

  it("take no place when the server cannot be reached, and one place for calls at the same time.", async () => {
    const failing = { key: "a down", holder: { workspaceId: "a" }, open: () => Promise.reject(new Error("down")) };
    for (let n = 0; n < 20; n++) {
      const error = await bridges.endpoint(failing).catch((thrown: Error) => thrown);
      expect(error).to.include({ message: "down" });
    }
    await Promise.all(Array.from({ length: 20 }, () => call("a", "same", "hello")));
    expect(upstream.opened).to.have.length(1);
    expect(pot.held).to.equal(1);
    await bridges.close();
    expect(upstream.ended).to.deep.equal(upstream.opened);
    expect(pot.held).to.equal(0);
  });
});
