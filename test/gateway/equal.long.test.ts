import { type ChildProcess, spawn } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client as StatelessClient } from "@modelcontextprotocol/client";
import { Client as StatefulClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as StatefulTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { expect } from "chai";
import { freePort } from "../support/free-port.ts";
import { type AbleClient, connectAble, connectAbleStateless, STATELESS_CAPABILITIES } from "./able-client.ts";
import {
  type AnyClient,
  asking,
  connectStateful,
  connectStateless,
  type GatewayService,
  programOf,
  startGateway,
} from "./harness.ts";
import { until } from "./until.ts";

const EVERYTHING = programOf("@modelcontextprotocol/server-everything");
const FILESYSTEM = programOf("@modelcontextprotocol/server-filesystem");

/** Arguments that fit each tool. Tools that are not named are called without any. */
const EVERYTHING_CALLS: Readonly<Record<string, object>> = {
  echo: { message: "hi" },
  "get-sum": { a: 2, b: 3 },
  "get-annotated-message": { messageType: "success", includeImage: true },
  "get-resource-links": { count: 3 },
  "get-resource-reference": { resourceType: "Text", resourceId: 1 },
  "get-structured-content": { location: "New York" },
  "trigger-long-running-operation": { duration: 1, steps: 2 },
  "gzip-file-as-resource": { name: "a.txt.gz", data: "data:text/plain,hello", outputType: "resource" },
  "simulate-research-query": { topic: "tides", ambiguous: false },
};
/** Arguments beside these for a client with every ability. */
const ABLE_CALLS: Readonly<Record<string, object>> = {
  ...EVERYTHING_CALLS,
  "simulate-research-query": { topic: "tides", ambiguous: true },
  "trigger-sampling-request": { prompt: "When does the tide turn?", maxTokens: 20 },
  "trigger-sampling-request-async": { prompt: "When does the tide turn?", maxTokens: 20 },
  "trigger-url-elicitation": { url: "https://example.com/sign", elicitationId: "e-1" },
};
/** Tools that turn something on at the first call and off at the second: they are called twice, which leaves it off. */
const TOGGLES = ["toggle-simulated-logging", "toggle-subscriber-updates"];
/** Tools that fail when they are called without a task. */
const NEED_TASKS = ["simulate-research-query"];
/** Tools that server-everything shows every client. */
const SHOWN_TO_ALL = [
  "echo",
  "get-annotated-message",
  "get-env",
  "get-resource-links",
  "get-resource-reference",
  "get-structured-content",
  "get-sum",
  "get-tiny-image",
  "gzip-file-as-resource",
  "simulate-research-query",
  ...TOGGLES,
  "trigger-long-running-operation",
];
/** Tools that it shows clients with the abilities that they need. */
const SHOWN_TO_ABLE = [
  "get-roots-list",
  "trigger-elicitation-request",
  "trigger-elicitation-request-async",
  "trigger-sampling-request",
  "trigger-sampling-request-async",
  "trigger-url-elicitation",
];

/** The ways to server-everything, and its names at the gateway. */
const SERVED = [
  ["stdio", "everything"],
  ["HTTP", "remote"],
] as const;

/**
 * Replaces what differs between two runs by nature: times, the home of a command, and the random names of sessions, of tasks and of an elicitation that
 * the server makes up itself (UUIDs; 32 hexadecimal digits for a task).
 */
const normal = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value)
      .replace(/\d\d?:\d\d:\d\d ?[AP]M/g, "<time>")
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
      .replace(/((?:HOME|PWD)\\*": \\*")[^\\"]*/g, "$1<home>")
      .replace(/(modified|created|accessed): [^\\"]+/g, "$1: <time>")
      .replace(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b/g, "<random>"),
  );

/** Leaves out what the gateway and the SDK add to every answer of the stateless generation. */
function withoutGeneration(value: unknown): unknown {
  const {
    _meta,
    resultType: _resultType,
    ttlMs: _ttlMs,
    cacheScope: _cacheScope,
    ...rest
  } = value as Record<string, unknown>;
  return rest;
}

/** Asks a client for something. `isExact`: the answer is compared with its metadata. */
async function ask(client: AnyClient, method: string, params: object, isExact: boolean): Promise<unknown> {
  try {
    const result = await client.request({ method, params });
    return normal(isExact ? result : withoutGeneration(result));
  } catch (error) {
    const { code, message, data } = error as { code?: number; message: string; data?: unknown };
    // One of the official clients puts the code before the server's message.
    return normal({ error: { code, message: message.replace(/^MCP error -\d+: /, ""), data } });
  }
}

/** Has a tool called as a task. Resolves with the answers to the call, to the request for its result, and to the one for its state. */
async function askTask(client: AnyClient, name: string, args: object): Promise<unknown> {
  const created = await client.request({
    method: "tools/call",
    params: { name, arguments: args, task: { ttl: 60_000 } },
  });
  const { taskId } = created.task as { taskId: string };
  // Also carries what the server asks of the client meanwhile.
  const result = await client.request({ method: "tasks/result", params: { taskId } });
  const state = await client.request({ method: "tasks/get", params: { taskId } });
  return normal({ created, result, state });
}

/** Tools that were compared, and those of them that answered with an error. */
interface Compared {
  readonly names: readonly string[];
  readonly failed: readonly string[];
}

const isFailure = (answer: unknown): boolean => {
  const { error, isError } = answer as { error?: unknown; isError?: boolean };
  return error !== undefined || isError === true;
};

/** Compares what two clients get: lists, then every tool that is listed. `isExact`: both speak the generation of the server. */
async function compare(
  direct: AnyClient,
  through: AnyClient,
  calls: Readonly<Record<string, object>>,
  isExact: boolean,
): Promise<Compared> {
  const both = async (method: string, params: object) => {
    const [want, got] = [await ask(direct, method, params, isExact), await ask(through, method, params, isExact)];
    return { want, got, what: `${method} ${JSON.stringify(params)}` };
  };
  const { tools } = (await direct.request({ method: "tools/list" })) as { tools: { name: string }[] };
  const listed = (await through.request({ method: "tools/list" })) as { tools: { name: string }[] };
  const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
  // `execution` is a member of the generation with sessions alone.
  const shown = (all: { name: string; execution?: unknown }[]) =>
    all.map(({ execution, ...rest }) => (isExact ? { execution, ...rest } : rest)).sort(byName);
  expect(shown(listed.tools)).to.deep.equal(shown(tools));
  // Before the calls, some of which add resources to every session.
  for (const method of ["prompts/list", "resources/list", "resources/templates/list", "ping"]) {
    const { want, got, what } = await both(method, {});
    if (method !== "ping") expect(got, what).to.deep.equal(want);
  }
  const names = tools.map(({ name }) => name).sort();
  const failed = new Set<string>();
  for (const name of [...names, ...names.filter((each) => TOGGLES.includes(each))]) {
    const { want, got, what } = await both("tools/call", { name, arguments: calls[name] ?? {} });
    expect(got, what).to.deep.equal(want);
    if (isFailure(want)) failed.add(name);
  }
  return { names, failed: [...failed] };
}

describe("what real MCP servers answer", () => {
  let gateway: GatewayService;
  let folder: string;
  let http: { url: string; child: ChildProcess };
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-equal-"));
    await writeFile(join(folder, "note.txt"), "one\ntwo\n");
    // A command of the gateway has an account of its own.
    await chmod(folder, 0o777);
    gateway = await startGateway();
    const command = process.execPath;
    const env = [{ name: "PATH", value: process.env.PATH ?? "" }];
    await gateway.add("everything", { command, args: [EVERYTHING, "stdio"] }, { env });
    await gateway.add("filesystem", { command, args: [FILESYSTEM, folder] });
    const port = String(await freePort());
    const child = spawn(command, [EVERYTHING, "streamableHttp"], {
      env: { ...process.env, PORT: port },
      stdio: "ignore",
    });
    http = { url: `http://127.0.0.1:${port}/mcp`, child };
    await until(() =>
      fetch(http.url).then(
        () => true,
        () => false,
      ),
    );
    await gateway.add("remote", { url: http.url });
  });
  after(async () => {
    http?.child.kill("SIGKILL");
    await gateway?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** Starts a server as the gateway does: with its own environment alone, to which the SDK would add. */
  function stdioTransport(args: readonly string[]): StdioClientTransport {
    const environment = ["HOME=/nonexistent", `PATH=${process.env.PATH}`, "LANG=C.UTF-8", "PWD=/nonexistent"];
    const started = ["-i", ...environment, process.execPath, ...args];
    return new StdioClientTransport({ command: "/usr/bin/env", args: started, stderr: "ignore" });
  }

  async function stdioClient(args: readonly string[]): Promise<AnyClient> {
    const client = new StatefulClient({ name: "test", version: "1" });
    await client.connect(stdioTransport(args));
    return asking(client);
  }

  const FILES = () => ({
    read_file: { path: join(folder, "note.txt") },
    read_text_file: { path: join(folder, "note.txt"), head: 1 },
    read_media_file: { path: join(folder, "note.txt") },
    read_multiple_files: { paths: [join(folder, "note.txt"), join(folder, "none.txt")] },
    write_file: { path: join(folder, "new.txt"), content: "three" },
    edit_file: { path: join(folder, "note.txt"), edits: [{ oldText: "one", newText: "1" }], dryRun: true },
    create_directory: { path: join(folder, "sub") },
    list_directory: { path: folder },
    list_directory_with_sizes: { path: folder },
    directory_tree: { path: folder },
    move_file: { source: join(folder, "none.txt"), destination: join(folder, "nowhere.txt") },
    search_files: { path: folder, pattern: "*.txt" },
    get_file_info: { path: join(folder, "note.txt") },
  });

  for (const connect of [connectStateful, connectStateless]) {
    const isExact = connect === connectStateful;
    const generation = isExact ? "with sessions" : "stateless";

    it(`is the same through the gateway from server-everything over stdio (client ${generation}).`, async () => {
      const direct = await stdioClient([EVERYTHING, "stdio"]);
      const through = asking(await connect(gateway.urlOf("everything"), gateway.headers));
      const compared = await compare(direct, through, EVERYTHING_CALLS, isExact);
      expect(compared).to.deep.equal({ names: SHOWN_TO_ALL.toSorted(), failed: NEED_TASKS });
      await direct.close();
      await through.close();
    });

    it(`is the same through the gateway from server-everything over HTTP (client ${generation}).`, async () => {
      const direct = asking(await connectStateful(new URL(http.url)));
      const through = asking(await connect(gateway.urlOf("remote"), gateway.headers));
      const compared = await compare(direct, through, EVERYTHING_CALLS, isExact);
      expect(compared).to.deep.equal({ names: SHOWN_TO_ALL.toSorted(), failed: NEED_TASKS });
      await direct.close();
      await through.close();
    });

    it(`is the same through the gateway from server-filesystem (client ${generation}).`, async () => {
      const direct = await stdioClient([FILESYSTEM, folder]);
      const through = asking(await connect(gateway.urlOf("filesystem"), gateway.headers));
      const { names, failed } = await compare(direct, through, FILES(), isExact);
      expect(names).to.include.members(Object.keys(FILES()));
      // It moves a file that is not there.
      expect(failed).to.deep.equal(["move_file"]);
      await direct.close();
      await through.close();
    });
  }

  for (const [kind, server] of SERVED) {
    describe(`for a client with every ability, over ${kind}`, () => {
      let direct: AbleClient;
      let through: AbleClient;
      before(async () => {
        const url = gateway.urlOf(server);
        const own = kind === "stdio" ? stdioTransport([EVERYTHING, "stdio"]) : new StatefulTransport(new URL(http.url));
        direct = await connectAble(own as Transport);
        const requestInit = { headers: { ...gateway.headers } };
        through = await connectAble(new StatefulTransport(url, { requestInit }) as Transport);
      });
      after(async () => {
        await direct?.close();
        await through?.close();
      });

      /** The sampling and elicitation that both were asked for. */
      const expectAskedAlike = (): number => {
        expect(normal(through.asked)).to.deep.equal(normal(direct.asked));
        return direct.asked.length;
      };

      it("is the same of every tool, and asks the client for the same.", async () => {
        const { names, failed } = await compare(direct, through, ABLE_CALLS, true);
        expect(names).to.deep.equal([...SHOWN_TO_ALL, ...SHOWN_TO_ABLE].sort());
        expect(failed).to.deep.equal(NEED_TASKS);
        // Two samplings and three elicitations.
        expect(expectAskedAlike()).to.equal(5);
      });

      it("is the same of a tool that runs as a task and asks the client meanwhile.", async () => {
        const before = direct.asked.length;
        const args = ABLE_CALLS["simulate-research-query"] ?? {};
        const want = await askTask(direct, "simulate-research-query", args);
        expect(await askTask(through, "simulate-research-query", args)).to.deep.equal(want);
        expect(JSON.stringify(want)).to.contain("tides (historical)");
        expect(expectAskedAlike()).to.equal(before + 1);
      });

      it("is the same where the server demands a page to be opened first, and where the call is repeated.", async () => {
        const args = { url: "https://example.com/sign", elicitationId: "e-2", errorPath: true };
        const params = { name: "trigger-url-elicitation", arguments: args };
        const [want, then] = [
          await ask(direct, "tools/call", params, true),
          await ask(direct, "tools/call", params, true),
        ];
        expect(await ask(through, "tools/call", params, true)).to.deep.equal(want);
        expect(await ask(through, "tools/call", params, true)).to.deep.equal(then);
        expect(want).to.have.nested.property("error.code", -32_042);
        expect(JSON.stringify(then)).to.contain("e-2");
        expectAskedAlike();
      });
    });
  }

  for (const [kind, server] of SERVED) {
    it(`is the same for a stateless client that gives input as for one with a session, over ${kind}.`, async () => {
      const own = kind === "stdio" ? stdioTransport([EVERYTHING, "stdio"]) : new StatefulTransport(new URL(http.url));
      const direct = await connectAble(own as Transport, STATELESS_CAPABILITIES);
      const through = await connectAbleStateless(gateway.urlOf(server), gateway.headers);
      const { names, failed } = await compare(direct, through, ABLE_CALLS, false);
      expect(names).to.deep.equal(
        [...SHOWN_TO_ALL, ...SHOWN_TO_ABLE.filter((each) => !each.endsWith("-async"))].sort(),
      );
      expect(failed).to.deep.equal(NEED_TASKS);
      // The newer generation names no elicitation: its rounds tell which is meant.
      const wanted = JSON.parse(JSON.stringify(direct.asked).replace('"elicitationId":"e-1",', ""));
      expect(normal(through.asked)).to.deep.equal(normal(wanted));
      // A sampling and two elicitations.
      expect(direct.asked.length).to.equal(3);
      await direct.close();
      await through.close();
    });
  }

  it("is found by the client that asks for either generation.", async () => {
    const client = new StatelessClient({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const transport = new StreamableHTTPClientTransport(gateway.urlOf("everything"), {
      requestInit: { headers: { ...gateway.headers } },
    });
    await client.connect(transport);
    expect(client.getProtocolEra()).to.equal("modern");
    const result = await client.callTool({ name: "get-sum", arguments: { a: 2, b: 3 } });
    expect(JSON.stringify(result.content)).to.contain("5");
    await client.close();
  });
});
