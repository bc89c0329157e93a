import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client as StatelessClient } from "@modelcontextprotocol/client";
import { Client as StatefulClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { expect } from "chai";
import { freePort } from "../support/free-port.ts";
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
/** Differ from one start of the server to the next, and so between two of them: the environment, and the time. */
const DIFFER = new Set(["get-env", "toggle-simulated-logging", "toggle-subscriber-updates"]);

/** Replaces what is random by nature: times. */
const normal = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value)
      .replace(/\d\d?:\d\d:\d\d ?[AP]M/g, "<time>")
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
      .replace(/(modified|created|accessed): [^\\"]+/g, "$1: <time>"),
  );

/** What the gateway and the SDK add to every answer of the stateless generation. */
function comparable(value: unknown): unknown {
  const {
    _meta,
    resultType: _resultType,
    ttlMs: _ttlMs,
    cacheScope: _cacheScope,
    ...rest
  } = value as Record<string, unknown>;
  return normal(rest);
}

async function ask(client: AnyClient, method: string, params: object = {}): Promise<unknown> {
  try {
    return comparable(await client.request({ method, params }));
  } catch (error) {
    return { error: (error as { code?: number }).code };
  }
}

async function compare(
  direct: AnyClient,
  through: AnyClient,
  calls: Readonly<Record<string, object>>,
): Promise<number> {
  const both = async (method: string, params: object) => {
    const [want, got] = [await ask(direct, method, params), await ask(through, method, params)];
    return { want, got, what: `${method} ${JSON.stringify(params)}` };
  };
  const { tools } = (await direct.request({ method: "tools/list" })) as { tools: { name: string }[] };
  const listed = (await through.request({ method: "tools/list" })) as { tools: { name: string }[] };
  const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
  // `execution` is a member of the generation with sessions alone.
  const shown = (all: { name: string; execution?: unknown }[]) =>
    all.map(({ execution: _, ...rest }) => rest).sort(byName);
  expect(shown(listed.tools)).to.deep.equal(shown(tools));
  let compared = 0;
  // Before the calls, some of which add resources to every session.
  for (const method of ["prompts/list", "resources/list", "resources/templates/list", "ping"]) {
    const { want, got, what } = await both(method, {});
    if (method !== "ping") expect(got, what).to.deep.equal(want);
    compared += 1;
  }
  for (const { name } of tools.filter((each) => !DIFFER.has(each.name))) {
    const { want, got, what } = await both("tools/call", { name, arguments: calls[name] ?? {} });
    expect(got, what).to.deep.equal(want);
    compared += 1;
  }
  return compared;
}

describe("what real MCP servers answer", function () {
  this.timeout(120_000);
  let gateway: GatewayService;
  let folder: string;
  let http: { url: string; child: ChildProcess };
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-equal-"));
    await writeFile(join(folder, "note.txt"), "one\ntwo\n");
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

  async function stdioClient(args: readonly string[]): Promise<AnyClient> {
    const client = new StatefulClient({ name: "test", version: "1" });
    await client.connect(new StdioClientTransport({ command: process.execPath, args: [...args], stderr: "ignore" }));
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
    const generation = connect === connectStateful ? "with sessions" : "stateless";

    it(`is the same through the gateway from server-everything over stdio (client ${generation}).`, async () => {
      const direct = await stdioClient([EVERYTHING, "stdio"]);
      const through = asking(await connect(gateway.urlOf("everything"), gateway.headers));
      expect(await compare(direct, through, EVERYTHING_CALLS)).to.be.above(10);
      await direct.close();
      await through.close();
    });

    it(`is the same through the gateway from server-everything over HTTP (client ${generation}).`, async () => {
      const direct = asking(await connectStateful(new URL(http.url)));
      const through = asking(await connect(gateway.urlOf("remote"), gateway.headers));
      expect(await compare(direct, through, EVERYTHING_CALLS)).to.be.above(10);
      await direct.close();
      await through.close();
    });

    it(`is the same through the gateway from server-filesystem (client ${generation}).`, async () => {
      const direct = await stdioClient([FILESYSTEM, folder]);
      const through = asking(await connect(gateway.urlOf("filesystem"), gateway.headers));
      expect(await compare(direct, through, FILES())).to.be.above(10);
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
