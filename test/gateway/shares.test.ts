import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import "../support/scratch.ts";
import { startService, type TestService } from "../support/service.ts";
import { openRawSession, type RawAnswer, type RawSession } from "./raw-session.ts";
import { type Body, send, type Task, textOf } from "./task-client.ts";
import { startToolsServer, type ToolsServer, tool } from "./tools-server.ts";
import { until } from "./until.ts";
import { startWaitingServer, type WaitingServer } from "./waiting-server.ts";

/** Bytes of each message, event and result, and those that it counts with what belongs to it. */
const SIZE = 40_000;
const COUNTED = SIZE + 4_700;
/** Portions that fit. An agent holds at most a quarter of what is free then. */
const PORTIONS = 26.4;
const BYTES = PORTIONS * COUNTED;
/** Portions of agents of three workspaces, one after the other. */
const HELD = [5, 4, 3] as const;
const NAMES = ["first", "second", "third"] as const;

/** An MCP server that answers, floods its client after `flood`, and begins an endless line after `line`. */
const PROGRAM = `
import { createInterface } from "node:readline";
const write = (text) => new Promise((resolve) => process.stdout.write(text, resolve));
const send = (message) => write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
const about = { protocolVersion: "2025-11-25", capabilities: { prompts: {} }, serverInfo: { name: "sh", version: "1" } };
createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params } = JSON.parse(line);
  const { flood, line: endless, answer } = params?.arguments ?? {};
  if (endless) for (;;) await write("x".repeat(65536));
  for (let sent = 0; sent < (flood ?? 0); sent++) {
    await send({ method: "notifications/message", params: { level: "info", data: sent + "x".repeat(100000) } });
  }
  const results = { initialize: about, "prompts/list": { prompts: [{ name: "any" }] } };
  if (id !== undefined) await send({ id, result: results[method] ?? { answer: "x".repeat(answer ?? 0) } });
});
`;

interface Member {
  readonly key: string;
  readonly agentId: string;
}

describe("what workspaces share in the gateway", () => {
  let service: TestService;
  let folder: string;
  let waiting: WaitingServer;
  let tools: ToolsServer;
  const members = new Map<string, Member>();

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-shares-"));
    await chmod(folder, 0o755);
    await writeFile(join(folder, "server.mjs"), PROGRAM);
    waiting = await startWaitingServer();
    tools = await startToolsServer([tool("pay")]);
    service = await startService({
      env: { ACP_MCP_ALLOW: "127.0.0.0/8", ACP_MCP_FOLDERS: folder, ACP_MCP_HOLD_MS: "100" },
      shares: { requestBytes: BYTES, mcpChildren: PORTIONS, taskBytes: BYTES, mcpAnswerBytes: 8_000_000 },
    });
    const escalate = {
      type: "action",
      decision: "escalate",
      conditions: { match_action_types: ["bank.*", "claude-code.write"] },
    };
    for (const name of NAMES) {
      const member = await service.workspace(name);
      members.set(name, member);
      for (const [server, { url }] of Object.entries({ waiting, bank: tools })) {
        await service.rest("POST /v1/enforce/mcp-servers", { name: server, url }, member.key);
      }
      await service.rest("POST /v1/enforce/mandates", { name: "people pay", rules: [escalate] }, member.key);
    }
    const child = { name: "child", command: process.execPath, args: [join(folder, "server.mjs")] };
    await service.rest("POST /v1/enforce/mcp-servers", child);
  });
  after(async () => {
    waiting?.release();
    await service?.stop();
    await waiting?.close();
    await tools?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const memberOf = (name: string): Member => members.get(name) as Member;
  const headersOf = ({ key, agentId }: Member) => ({ "x-api-key": key, "x-agent-id": agentId });
  const urlOf = (server: string): URL => new URL(`${service.http}/mcp/${server}`);

  /** Begins things of each party until one is refused. `begin` resolves with the refusal, or once the thing is in use. */
  async function fill(
    begin: (member: Member, number: number) => Promise<string | undefined>,
    parties = NAMES.map(memberOf),
  ): Promise<number[]> {
    const held: number[] = [];
    for (const member of parties) {
      let refusal: string | undefined;
      for (let number = 0; refusal === undefined; number++) {
        refusal = await begin(member, number);
        if (refusal !== undefined) held.push(number);
      }
      expect(refusal).to.match(/^.*the agent holds .* in this process, and its share is/);
    }
    return held;
  }

  it("are the bytes of messages: the calls of two workspaces wait, and a third's still goes through.", async () => {
    const leaving = new AbortController();
    waiting.hold();
    const held = await fill(async (member) => {
      const before = waiting.waiting.length;
      const params = { name: "wait", arguments: { text: "x".repeat(SIZE) } };
      let refused: Body | undefined;
      const calling = send(urlOf("waiting"), headersOf(member), "tools/call", params, {}, leaving.signal);
      void calling.then(
        (body) => {
          refused = body;
        },
        () => undefined,
      );
      await until(() => refused !== undefined || waiting.waiting.length > before);
      return refused?.error?.message;
    });
    expect(held).to.deep.equal(HELD);
    leaving.abort();
    waiting.release();
    await until(async () => {
      const params = { name: "hello", arguments: { text: "x".repeat(SIZE) } };
      const { result } = await send(urlOf("waiting"), headersOf(memberOf("first")), "tools/call", params, {});
      return result !== undefined;
    });
  });

  it("are the bytes of hooks: the hooks of two workspaces wait for people, and a third's still does.", async () => {
    const leaving = new AbortController();
    const hook = (member: Member, number: number): Promise<Response> => {
      const input = { path: `file ${number}`, content: "x".repeat(SIZE) };
      const event = { hook_event_name: "PreToolUse", tool_name: "Write", tool_input: input };
      return fetch(`${service.http}/v1/hooks/claude-code?hold_seconds=300`, {
        method: "POST",
        headers: { ...headersOf(member), "content-type": "application/json" },
        body: JSON.stringify(event),
        signal: leaving.signal,
      });
    };
    const pendingOf = async ({ key }: Member): Promise<number> => {
      const { escalations } = await service.rest("GET /v1/enforce/escalations?status=pending", undefined, key);
      return (escalations as unknown as unknown[]).length;
    };
    const held = await fill(async (member, number) => {
      const before = await pendingOf(member);
      let refused: string | undefined;
      void hook(member, number)
        .then((response) => response.text())
        .then(
          (text) => {
            refused = text;
          },
          () => undefined,
        );
      await until(async () => refused !== undefined || (await pendingOf(member)) > before);
      return refused;
    });
    expect(held).to.deep.equal(HELD);
    leaving.abort();
  });

  it("are results of tasks: those of two workspaces are kept, and a third's are; the longest idle go first.", async () => {
    tools.answer = () => ({ content: [{ type: "text", text: "x".repeat(SIZE) }] });
    const run = async (member: Member, number: number): Promise<Task> => {
      const params = { name: "pay", arguments: { number } };
      const ask = (method: string, asked: object) => send(urlOf("bank"), headersOf(member), method, asked as never);
      const { result } = await ask("tools/call", params);
      const task = result as unknown as Task;
      const id = task.taskId.slice(task.taskId.indexOf("esc_"));
      await service.rest(`POST /v1/enforce/escalations/${id}/resolve`, { resolution: "approved" }, member.key);
      return settled(member, task);
    };
    const settled = async (member: Member, { taskId }: Task): Promise<Task> => {
      let now: Task | undefined;
      await until(async () => {
        const { result } = await send(urlOf("bank"), headersOf(member), "tasks/get", { taskId });
        now = result as unknown as Task;
        return now.status !== "working";
      });
      return now as Task;
    };
    const tasks: { member: Member; task: Task }[] = [];
    for (const name of NAMES) {
      for (let number = 0; number < HELD[0] + 2; number++) {
        tasks.push({ member: memberOf(name), task: await run(memberOf(name), number) });
      }
    }
    for (const { task } of tasks) expect(textOf(task)).to.have.length(SIZE);
    const kept: number[] = [];
    for (const name of NAMES) {
      const own = tasks.filter(({ member }) => member === memberOf(name)).reverse();
      let newest = 0;
      for (const { member, task } of own) {
        if (textOf(await settled(member, task)).length !== SIZE) break;
        newest += 1;
      }
      kept.push(newest);
    }
    expect(kept).to.deep.equal(HELD);
    tools.answer = () => ({ content: [{ type: "text", text: "x".repeat(BYTES / 2) }] });
    const lost = await run(memberOf("third"), 100);
    expect(lost.status).to.equal("failed");
    expect(lost.error?.message).to.contain("the call was made, but its result is lost");
  });

  describe("of commands, which all belong to one workspace,", () => {
    const open = (member: Member): Promise<RawSession> => openRawSession(urlOf("child"), headersOf(member));
    const anAgent = async (): Promise<Member> => ({ key: service.adminKey, agentId: await service.agent() });
    const ask = (session: RawSession, options: object = {}): Promise<RawAnswer> =>
      session.ask("prompts/get", { name: "any", arguments: options });
    const refusalOf = ({ opened }: RawSession): string | undefined =>
      (opened.messages[0] as { error?: { message: string } } | undefined)?.error?.message;

    it("are processes: two agents use theirs, and a third starts its own.", async () => {
      const leaving: (() => void)[] = [];
      const use = async (member: Member): Promise<string | undefined> => {
        const session = await open(member);
        const refusal = refusalOf(session);
        if (refusal === undefined) leaving.push((await session.listen()).stop);
        return refusal;
      };
      expect(await fill(use, [await anAgent(), await anAgent(), await anAgent()])).to.deep.equal(HELD);
      for (const stop of leaving) stop();
    });

    it("end when they are idle, to make room for another agent's, and start again for the next request.", async () => {
      const idle: RawSession[] = [];
      for (let agents = 0; agents < 6; agents++) {
        const agent = await anAgent();
        for (let number = 0; number < 3; number++) idle.push(await open(agent));
      }
      expect(idle.map(refusalOf).filter((refusal) => refusal !== undefined)).to.deep.equal([]);
      const used: RawSession[] = [];
      const stops: (() => void)[] = [];
      let refusal: string | undefined;
      while (refusal === undefined) {
        const session = await open(await anAgent());
        refusal = refusalOf(session);
        if (refusal !== undefined) break;
        stops.push((await session.listen()).stop);
        used.push(session);
      }
      expect(used).to.have.length(Math.floor(PORTIONS / 2));
      expect(refusal).to.contain("the workspace holds 13 child processes of MCP servers");
      const answered = [{ jsonrpc: "2.0", id: 1, result: { answer: "" } }];
      for (const each of used) expect((await ask(each)).messages).to.deep.equal(answered);
      for (const stop of stops) stop();
      // The service learns a moment later that a stream was left.
      for (const each of idle) await until(async () => (await ask(each)).text.includes('"answer":""'));
    });

    it("say a bounded number of bytes to a client that does not read; other agents are answered.", async () => {
      const session = await open(await anAgent());
      const stream = await session.listen();
      stream.pause();
      // Before another agent takes room, which makes this one's share smaller.
      const flooded = await ask(session, { flood: 300, answer: 1 });
      expect(JSON.stringify(flooded.messages.at(-1))).to.contain('"answer":"x"');
      const other = await open(await anAgent());
      const [answer] = (await ask(other, { answer: 500_000 })).messages;
      expect(JSON.stringify(answer)).to.have.length.above(500_000);
      stream.resume();
      await until(() => stream.said().includes('"data":"0x'));
      const heard = () => stream.said().split("notifications/message").length - 1;
      let before = -1;
      await until(async () => {
        await delay(300);
        const isOver = heard() === before;
        before = heard();
        return isOver;
      });
      expect(heard()).to.be.within(10, 200);
      stream.stop();
    });

    it("end when they never end a line, and the caller is told why; other agents are answered.", async () => {
      const session = await open(await anAgent());
      const { messages } = await ask(session, { line: true });
      expect(JSON.stringify(messages)).to.contain(
        "sent more than its workspace or agent may let a server say at the moment",
      );
      const other = await open(await anAgent());
      const [answer] = (await ask(other, { answer: 500_000 })).messages;
      expect(JSON.stringify(answer)).to.have.length.above(500_000);
    });
  });
});
