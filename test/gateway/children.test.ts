import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { type GatewayService, startGateway } from "./harness.ts";
import { until } from "./until.ts";

/** An MCP server over standard streams that writes down what it receives and does what its tool is told. */
const PROGRAM = `
import { randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
// Ids of processes may be those of a namespace, in which each server is the same one.
const mark = "acp-" + randomBytes(8).toString("hex");
process.title = mark;
const tools = [{ name: "do", inputSchema: { type: "object" } }];
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
const say = (id, value) => send({ id, result: { content: [{ type: "text", text: JSON.stringify(value) }] } });
const subscribed = [];
let level = "";
const { FAULT, GARBAGE } = process.env;
if (FAULT === "garbage") setInterval(() => process.stdout.write("noise ".repeat(20_000) + "\\n"), 5);
if (FAULT === "deaf") process.on("SIGTERM", () => undefined);
createInterface(process.stdin).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  appendFileSync(process.env.HOME + "/received", JSON.stringify({ method, id, params }) + "\\n");
  if (method === "initialize") {
    const capabilities = { tools: { listChanged: true }, resources: { subscribe: true }, logging: {} };
    send({ id, result: { protocolVersion: "2025-11-25", capabilities, serverInfo: { name: "do", version: "1" } } });
  } else if (method === "notifications/initialized") {
    send({ method: "notifications/tools/list_changed" });
  } else if (method === "tools/list") send({ id, result: { tools } });
  else if (method === "resources/list") send({ id, result: { resources: [] } });
  else if (method === "resources/templates/list") send({ id, result: { resourceTemplates: [] } });
  else if (method === "resources/subscribe") { subscribed.push(params.uri); send({ id, result: {} }); }
  else if (method === "resources/unsubscribe") { subscribed.splice(subscribed.indexOf(params.uri), 1); send({ id, result: {} }); }
  else if (method === "logging/setLevel") { level = params.level; send({ id, result: {} }); }
  else if (method === "tools/call") act(id, params);
  else if (id !== undefined && method !== undefined) send({ id, result: {} });
});
function act(id, { arguments: args, _meta }) {
  const progressToken = _meta?.progressToken;
  if (args.what === "mark") say(id, { mark, subscribed, level });
  if (args.what === "progress") {
    send({ method: "notifications/progress", params: { progressToken, progress: 1, message: args.text } });
    setTimeout(() => say(id, args.text), 300);
  }
  if (args.what === "wait") setTimeout(() => say(id, args.text), args.ms);
  if (args.what === "notify") { for (const each of args.send) send(each); say(id, "notified"); }
  if (args.what === "later") {
    say(id, "soon");
    setTimeout(() => args.send.forEach(send), 200);
  }
  if (args.what === "exit") setTimeout(() => process.exit(3), 50);
  if (args.what === "close") process.stdout.end();
  if (args.what === "ping") send({ id: "from-server", method: args.method });
  if (args.what === "ping") setTimeout(() => say(id, "asked"), 100);
}
`;

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: {
    readonly content?: { readonly text: string }[];
    readonly serverInfo?: { readonly version: string };
  };
  readonly error?: { readonly message: string };
}

/** A client that shows every message, on the stream on which it came. */
class RawClient {
  readonly #url: URL;
  readonly #headers: Record<string, string>;
  readonly #ending = new AbortController();
  /** Messages of the stream of the server's own messages. */
  readonly heard: Message[] = [];
  #next = 1;

  constructor(gateway: GatewayService, server: string, agent: string) {
    this.#url = gateway.urlOf(server);
    this.#headers = {
      ...gateway.headers,
      "x-agent-id": agent,
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
    };
  }

  async post(message: object, signal?: AbortSignal): Promise<Message[]> {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    const init = { method: "POST", headers: this.#headers, body, ...(signal && { signal }) };
    const response = await fetch(this.#url, init);
    const session = response.headers.get("mcp-session-id");
    if (session !== null) this.#headers["mcp-session-id"] = session;
    const text = await response.text();
    if (!text.startsWith("event:") && !text.includes("data: ")) return text === "" ? [] : [JSON.parse(text)];
    return messagesIn(text);
  }

  async request(method: string, params: object = {}, id: string | number = this.#next++): Promise<Message> {
    const messages = await this.post({ id, method, params });
    return messages.find((each) => each.id === id && each.method === undefined) ?? {};
  }

  async act(what: string, more: object = {}): Promise<unknown> {
    const answer = await this.request("tools/call", { name: "do", arguments: { what, ...more } });
    const text = answer.result?.content?.[0]?.text;
    return text === undefined ? (answer.error?.message ?? answer) : JSON.parse(text);
  }

  async initialize(capabilities: object = {}, name = "raw"): Promise<Message> {
    const params = { protocolVersion: "2025-11-25", capabilities, clientInfo: { name, version: "1" } };
    const answer = await this.request("initialize", params);
    this.#headers["mcp-protocol-version"] = "2025-11-25";
    return answer;
  }

  async initialized(): Promise<void> {
    await this.post({ method: "notifications/initialized" });
  }

  async listen(): Promise<void> {
    const response = await fetch(this.#url, { headers: this.#headers, signal: this.#ending.signal });
    expect(response.status).to.equal(200);
    void (async () => {
      let text = "";
      for await (const chunk of response.body ?? []) {
        text += Buffer.from(chunk).toString();
        const end = text.lastIndexOf("\n\n");
        if (end === -1) continue;
        this.heard.push(...messagesIn(text.slice(0, end)));
        text = text.slice(end + 2);
      }
    })().catch(() => undefined);
  }

  stopListening(): void {
    this.#ending.abort();
  }

  async delete(): Promise<void> {
    await fetch(this.#url, { method: "DELETE", headers: this.#headers });
  }
}

function messagesIn(text: string): Message[] {
  const lines = text.split("\n").filter((line) => line.startsWith("data: ") && line.length > 6);
  return lines.map((line) => JSON.parse(line.slice(6)) as Message);
}

const CHANGED = "notifications/tools/list_changed";

describe("children of MCP servers that are commands", () => {
  let gateway: GatewayService;
  let folder: string;
  let command: { readonly command: string; readonly args: readonly string[] };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-children-"));
    await chmod(folder, 0o755);
    await writeFile(join(folder, "do.mjs"), PROGRAM);
    command = { command: process.execPath, args: [join(folder, "do.mjs")] };
    gateway = await startGateway({ env: { ACP_MCP_FOLDERS: folder, ACP_MCP_ANSWER_MS: "20000" } });
    await gateway.add("do", command, { idle_seconds: 2 });
    await gateway.add("brief", command, { idle_seconds: 1 });
    await gateway.add("long", command);
  });
  after(async () => {
    await gateway?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** What a server has received, in order. */
  async function received(server: string): Promise<Message[]> {
    const lines = await readFile(`${gateway.homes}/default.${server}/received`, "utf8");
    return lines
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Message);
  }

  async function opened(server: string, agent: string, capabilities: object = {}, name = "raw"): Promise<RawClient> {
    const client = new RawClient(gateway, server, agent);
    expect((await client.initialize(capabilities, name)).error).to.equal(undefined);
    await client.initialized();
    return client;
  }

  const markOf = async (client: RawClient) => ((await client.act("mark")) as { mark: string }).mark;

  it("are shared by sessions of one agent whose initialize is equal.", async () => {
    const [agent, other] = [await gateway.agent(), await gateway.agent()];
    const [a, b] = [await opened("long", agent), await opened("long", agent)];
    expect(await markOf(a)).to.equal(await markOf(b));
    const different = await opened("long", agent, {}, "another client");
    const ofOther = await opened("long", other);
    const marks = [await markOf(a), await markOf(different), await markOf(ofOther)];
    expect(new Set(marks).size).to.equal(3);
    for (const client of [a, different, ofOther]) await client.delete();
    expect(await markOf(b)).to.equal(marks[0]);
    await b.delete();
  });

  for (const capability of ["sampling", "elicitation", "roots"]) {
    it(`are not shared by sessions that declare ${capability}.`, async () => {
      const agent = await gateway.agent();
      const [a, b] = [
        await opened("long", agent, { [capability]: {} }),
        await opened("long", agent, { [capability]: {} }),
      ];
      expect(await markOf(a)).not.to.equal(await markOf(b));
      await Promise.all([a.delete(), b.delete()]);
    });
  }

  it("give every session its own responses and progress under its own ids and tokens.", async () => {
    const agent = await gateway.agent();
    const clients = [await opened("long", agent), await opened("long", agent), await opened("long", agent)];
    const answers = await Promise.all(
      clients.map((client, index) => {
        const text = `answer ${index}`;
        const params = { name: "do", arguments: { what: "progress", text }, _meta: { progressToken: "same" } };
        return client.post({ id: "same", method: "tools/call", params });
      }),
    );
    answers.forEach((messages, index) => {
      const text = `answer ${index}`;
      const [progress, response] = messages;
      expect(messages).to.have.length(2);
      expect(progress?.params).to.deep.equal({ progressToken: "same", progress: 1, message: text });
      expect(response?.id).to.equal("same");
      expect(response?.result?.content?.[0]?.text).to.equal(JSON.stringify(text));
    });
    await Promise.all(clients.map((client) => client.delete()));
  });

  it("bring notifications to the streams of all sessions that share them, and answer pings themselves.", async () => {
    const agent = await gateway.agent();
    const [a, b] = [await opened("long", agent), await opened("long", agent)];
    await Promise.all([a.listen(), b.listen()]);
    await a.act("notify", { send: [{ method: "notifications/resources/list_changed" }] });
    for (const { heard } of [a, b]) {
      await until(() => heard.some(({ method }) => method === "notifications/resources/list_changed"));
    }
    expect(await a.act("ping", { method: "ping" })).to.equal("asked");
    await until(async () =>
      (await received("long")).some(({ id, method }) => id === "from-server" && method === undefined),
    );
    for (const { heard } of [a, b]) expect(heard.filter(({ method }) => method === "ping")).to.deep.equal([]);
    for (const client of [a, b]) client.stopListening();
    await Promise.all([a.delete(), b.delete()]);
  });

  it("keep subscriptions apart: one ends with its last session, and updates go to those that asked.", async () => {
    const agent = await gateway.agent();
    const [a, b] = [await opened("long", agent), await opened("long", agent)];
    await Promise.all([a.listen(), b.listen()]);
    const uri = "file:///x";
    const subscribed = async () => ((await a.act("mark")) as { subscribed: string[] }).subscribed;
    await a.request("resources/subscribe", { uri });
    await a.act("notify", { send: [{ method: "notifications/resources/updated", params: { uri } }] });
    await until(() => a.heard.some(({ method }) => method === "notifications/resources/updated"));
    await b.request("resources/subscribe", { uri });
    expect((await a.request("resources/unsubscribe", { uri })).result).to.deep.equal({});
    expect(await subscribed()).to.deep.equal([uri, uri]);
    expect(b.heard.filter(({ method }) => method === "notifications/resources/updated")).to.deep.equal([]);
    await b.request("resources/unsubscribe", { uri });
    expect(await subscribed()).to.deep.equal([uri]);
    for (const client of [a, b]) client.stopListening();
    await Promise.all([a.delete(), b.delete()]);
  });

  it("are told of a session's own cancellations alone.", async () => {
    const agent = await gateway.agent();
    const [a, b] = [await opened("long", agent), await opened("long", agent)];
    const wait = (client: RawClient, text: string) =>
      client.request("tools/call", { name: "do", arguments: { what: "wait", ms: 1_000, text } }, "mine");
    const before = (await received("long")).length;
    const calls = [wait(a, "of a"), wait(b, "of b")];
    const since = async () => (await received("long")).slice(before);
    await until(async () => (await since()).filter(({ method }) => method === "tools/call").length === 2);
    await a.post({ method: "notifications/cancelled", params: { requestId: "unknown" } });
    await a.post({ method: "notifications/cancelled", params: { requestId: "mine", reason: "enough" } });
    await until(async () => (await since()).some(({ method }) => method === "notifications/cancelled"));
    const ofA = (await since()).find(
      ({ method, params }) => method === "tools/call" && JSON.stringify(params).includes("of a"),
    );
    const cancelled = (await since()).filter(({ method }) => method === "notifications/cancelled");
    expect(cancelled.map(({ params }) => params)).to.deep.equal([{ requestId: ofA?.id, reason: "enough" }]);
    expect((await calls[1])?.result?.content?.[0]?.text).to.equal('"of b"');
    await Promise.all([a.delete(), b.delete()]);
  });

  it("are heard by a session that opens its stream later.", async () => {
    for (let round = 0; round < 5; round++) {
      const client = await opened("long", await gateway.agent());
      await until(async () => (await received("long")).some(({ method }) => method === "notifications/initialized"));
      await delay(100);
      await client.listen();
      await until(() => client.heard.some(({ method }) => method === CHANGED));
      client.stopListening();
      await client.delete();
    }
  });

  it("keep the last 256 messages for a stream that is not open yet.", async () => {
    const agent = await gateway.agent();
    const [client, listening] = [await opened("long", agent), await opened("long", agent)];
    await listening.listen();
    const send = Array.from({ length: 1_000 }, (_, data) => ({
      method: "notifications/message",
      params: { level: "info", data },
    }));
    await client.act("later", { send });
    await until(() => listening.heard.some(({ params }) => params?.data === 999));
    await client.listen();
    await until(() => client.heard.length >= 256);
    expect(client.heard.map(({ params }) => params?.data)).to.deep.equal(
      Array.from({ length: 256 }, (_, n) => 744 + n),
    );
    for (const each of [client, listening]) {
      each.stopListening();
      await each.delete();
    }
  });

  it("end when nobody uses them, and start again with the session's initialize.", async () => {
    const client = await opened("do", await gateway.agent());
    await client.request("resources/subscribe", { uri: "file:///kept" });
    await client.request("logging/setLevel", { level: "warning" });
    const first = await markOf(client);
    await until(async () => !(await isRunning(first)));
    const again = (await client.act("mark")) as { mark: string; subscribed: string[]; level: string };
    expect(again.mark).not.to.equal(first);
    expect(again).to.include({ level: "warning" });
    expect(again.subscribed).to.deep.equal(["file:///kept"]);
    const opened2 = (await received("do")).filter(({ method }) => method === "initialize");
    expect(opened2.at(-1)?.params).to.deep.equal(opened2.at(-2)?.params);
    expect(gateway.output()).not.to.contain("mcp server process ended");
    await client.delete();
  });

  it("do not end during a call, or while a stream is open.", async () => {
    const client = await opened("brief", await gateway.agent());
    const first = await markOf(client);
    expect(await client.act("wait", { ms: 2_000, text: "done" })).to.equal("done");
    expect(await markOf(client)).to.equal(first);
    await client.listen();
    await delay(2_000);
    expect(await isRunning(first)).to.equal(true);
    client.stopListening();
    await until(async () => !(await isRunning(first)));
    await client.delete();
  });

  it("leave at most one running after 30 sessions that nobody ends, and none after the idle time.", async () => {
    const agent = await gateway.agent();
    const marks = new Set<string>();
    for (let session = 0; session < 30; session++) {
      const client = await opened("do", agent);
      marks.add(await markOf(client));
    }
    const running = async () => (await Promise.all([...marks].map(isRunning))).filter(Boolean).length;
    expect(await running()).to.be.at.most(1);
    const clients = await Promise.all(Array.from({ length: 5 }, () => opened("do", agent, { roots: {} })));
    // An open stream keeps each running until all are counted.
    for (const client of clients) await client.listen();
    for (const client of clients) marks.add(await markOf(client));
    expect(await running()).to.be.at.least(5);
    for (const client of clients) client.stopListening();
    await until(async () => (await running()) === 0);
  });

  it("get a request once: one that was sent when they ended fails, and is not sent again.", async () => {
    const client = await opened("long", await gateway.agent());
    const before = (await received("long")).length;
    expect(await client.act("exit")).to.match(/ended before it answered \(code 3\)/);
    await until(async () => typeof (await client.act("mark")) === "object");
    const calls = (await received("long")).slice(before).filter(({ method }) => method === "tools/call");
    expect(calls.filter(({ params }) => JSON.stringify(params).includes("exit"))).to.have.length(1);
    await client.delete();
  });

  it("end within seconds when they close their output, print anything else, or ignore signals.", async () => {
    const client = await opened("long", await gateway.agent());
    expect(await client.act("close")).to.match(/closed its output/);
    await client.delete();
    await gateway.add("noisy", command, { env: [{ name: "FAULT", value: "garbage" }] });
    const noisy = new RawClient(gateway, "noisy", await gateway.agent());
    const answer = await noisy.initialize();
    if (answer.error === undefined) {
      await noisy.initialized();
      await until(async () =>
        /JSON-RPC|starts again/.test(JSON.stringify(await noisy.act("wait", { ms: 10_000, text: "x" }))),
      );
    }
    await until(async () => gateway.output().includes("prints text that is not JSON-RPC"));
    await noisy.delete();
    await gateway.add("deaf", command, { env: [{ name: "FAULT", value: "deaf" }] });
    const deaf = await opened("deaf", await gateway.agent());
    const mark = await markOf(deaf);
    await deaf.delete();
    await until(async () => !(await isRunning(mark)));
  });
});

/** Ids of processes by their titles; empty once ended. Reading those of every process takes a while. */
const pids = new Map<string, string>();

/** Tests for a process of this title, which has run. One that has ended and is still counted has none. */
async function isRunning(mark: string): Promise<boolean> {
  const hasTitle = async (pid: string): Promise<boolean> =>
    (await readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "")).startsWith(mark);
  const known = pids.get(mark);
  if (known !== undefined) return known !== "" && (await hasTitle(known));
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid) || !(await hasTitle(pid))) continue;
    pids.set(mark, pid);
    return true;
  }
  pids.set(mark, "");
  return false;
}
