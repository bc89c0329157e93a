import { chmod, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import {
  asking,
  connectStateful,
  connectStateless,
  type GatewayServiceProcess,
  startGatewayProcess,
} from "./harness.ts";
import { decisionsOf, settledOutcome } from "./outcomes.ts";
import { until } from "./until.ts";

/** An MCP server over standard streams that says what it sees, and ends when it is told to. */
const PROGRAM = `
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
const tools = ["env", "end", "crash", "chatter"].map((name) => ({ name, inputSchema: { type: "object" } }));
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
const text = (value) => ({ content: [{ type: "text", text: value }] });
createInterface(process.stdin).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") {
    const serverInfo = { name: "own", version: String(process.pid) };
    send({ id, result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") send({ id, result: { tools } });
  else if (params?.name === "env") send({ id, result: text(JSON.stringify({ ...process.env, pid: process.pid })) });
  else if (params?.name === "end") {
    send({ id, result: text("ends") });
    setTimeout(() => process.exit(0), 20);
  } else if (params?.name === "chatter") {
    // Blocks once the pipe is full and nobody reads.
    writeSync(2, "x".repeat(1_000_000));
    send({ id, result: text("said it") });
  } else if (params?.name === "crash") {
    process.stderr.write("crashed with " + process.env.TOKEN + "\\n", () => process.exit(1));
  } else if (id !== undefined) send({ id, result: {} });
});
`;

type Result = { content: { text: string }[] };

describe("an MCP server that is a command", () => {
  let gateway: GatewayServiceProcess;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-stdio-"));
    // Readable for the accounts and in the sandboxes of commands.
    await chmod(folder, 0o755);
    await writeFile(join(folder, "own.mjs"), PROGRAM);
    gateway = await startGatewayProcess({
      env: { SECRET_OF_THE_TEST: "must not be inherited", ACP_MCP_FOLDERS: folder },
    });
    const env = [{ name: "TOKEN", value: "sesame-4711" }];
    await gateway.add("own", { command: process.execPath, args: [join(folder, "own.mjs")] }, { env });
  });
  after(async () => {
    await gateway?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  for (const connect of [connectStateful, connectStateless]) {
    const generation = connect === connectStateful ? "with a session" : "stateless";
    it(`has its calls reported, and those that it does not live to answer left open (${generation}).`, async () => {
      const agentId = await gateway.agent();
      const client = asking(await connect(gateway.urlOf("own"), { ...gateway.headers, "x-agent-id": agentId }));
      const ask = (name: string) => client.request({ method: "tools/call", params: { name, arguments: {} } });
      await ask("env");
      expect((await settledOutcome(gateway, agentId))?.status).to.equal("succeeded");
      const fault = await ask("crash").catch((error: unknown) => error);
      expect(String(fault)).to.contain("`own`");
      const [, crashed] = await decisionsOf(gateway, agentId);
      expect(crashed?.outcome?.status).to.equal("pending");
      await client.close();
    });

    it(`inherits nothing, and gets its own environment (${generation}).`, async () => {
      const client = asking(await connect(gateway.urlOf("own"), gateway.headers));
      const result = await client.request({ method: "tools/call", params: { name: "env", arguments: {} } });
      const env = JSON.parse((result as Result).content[0]?.text ?? "{}") as Record<string, string>;
      expect(env.TOKEN).to.equal("sesame-4711");
      const inherited = ["HOME", "LANG", "PATH", "PWD", "TOKEN", "pid"];
      expect(Object.keys(env).filter((name) => !inherited.includes(name))).to.deep.equal([]);
      expect(env.HOME).to.match(/\/default\.own$/);
      expect(env.PWD).to.equal(env.HOME);
      await client.close();
    });
  }

  for (const connect of [connectStateful, connectStateless]) {
    const generation = connect === connectStateful ? "with a session" : "stateless";
    it(`may write as much to its standard error as it likes (${generation}).`, async () => {
      const client = asking(await connect(gateway.urlOf("own"), gateway.headers));
      const params = { name: "chatter", arguments: {} };
      for (let round = 0; round < 3; round++) {
        const result = await client.request({ method: "tools/call", params });
        expect((result as Result).content[0]?.text).to.equal("said it");
      }
      await client.close();
    });

    it(`is started again after it ended, with back-off (${generation}).`, async () => {
      const headers = { ...gateway.headers, "x-agent-id": await gateway.agent() };
      const client = asking(await connect(gateway.urlOf("own"), headers));
      const call = (name: string) =>
        client
          .request({ method: "tools/call", params: { name, arguments: {} } })
          .catch((error: Error) => error.message);
      const pidOf = (result: unknown) => JSON.parse((result as Result).content[0]?.text ?? "{}").pid as number;
      const ends = () => gateway.output().split("mcp server process ended").length;
      let isHeldBack = false;
      // A busy machine may ask again after the pause, which is twice as long each time.
      for (let round = 0; round < 2 || !isHeldBack; round++) {
        const first = pidOf(await call("env"));
        const before = ends();
        expect(await call("crash")).to.match(/ended before it answered|closed/i);
        await until(() => ends() > before);
        let result = await call("env");
        if (typeof result === "string") {
          expect(result).to.match(/ended unexpectedly and starts again in \d+ s at the earliest/);
          isHeldBack = true;
        }
        await until(async () => {
          if (typeof result === "string") result = await call("env");
          return typeof result === "object";
        });
        expect(pidOf(result)).not.to.equal(first);
      }
      expect(gateway.output()).to.contain("crashed with ***").and.not.to.contain("sesame-4711");
      await client.close();
    });
  }

  it("ends with its client's session, and all end with the service.", async () => {
    const headers = { ...gateway.headers, "x-agent-id": await gateway.agent() };
    const client = await connectStateful(gateway.urlOf("own"), headers);
    const result = await asking(client).request({ method: "tools/call", params: { name: "env", arguments: {} } });
    const { pid } = JSON.parse((result as Result).content[0]?.text ?? "{}") as { pid: number };
    expect(await isRunning(pid)).to.equal(true);
    await (client.transport as unknown as { terminateSession(): Promise<void> }).terminateSession();
    await until(async () => !(await isRunning(pid)));
    const other = await connectStateful(gateway.urlOf("own"), gateway.headers);
    const second = await asking(other).request({ method: "tools/call", params: { name: "env", arguments: {} } });
    const { pid: last } = JSON.parse((second as Result).content[0]?.text ?? "{}") as { pid: number };
    await gateway.stop();
    await until(async () => !(await isRunning(last)));
    await other.close();
  });
});

async function isRunning(pid: number): Promise<boolean> {
  return (await readdir("/proc")).includes(String(pid));
}
