import { readdir, readFile } from "node:fs/promises";
import { expect } from "chai";
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { asking, connectStateful, startGatewayProcess } from "./harness.ts";
import { startToolsServer, tool } from "./tools-server.ts";

const SESSIONS = 200;
const SECONDS = 30;

/** Open file handles and resident memory of a process, in MiB. */
async function usage(pid: number): Promise<{ readonly handles: number; readonly mebibytes: number }> {
  const handles = (await readdir(`/proc/${pid}/fd`)).length;
  const [, pages = "0"] = (await readFile(`/proc/${pid}/statm`, "utf8")).split(" ");
  return { handles, mebibytes: (Number(pages) * 4096) / 1_048_576 };
}

describe("many MCP sessions at once", () => {
  it("are served without an error, and leave nothing behind.", async () => {
    await using cleanup = new AsyncDisposableStack();
    // Connections that the clients keep are handles of the service as well.
    const dispatcher = getGlobalDispatcher();
    setGlobalDispatcher(new Agent({ keepAliveTimeout: 500, keepAliveMaxTimeout: 500 }));
    cleanup.defer(() => setGlobalDispatcher(dispatcher));
    const upstream = await startToolsServer([tool("pay")]);
    cleanup.defer(() => upstream.close());
    const gateway = await startGatewayProcess({
      // A small heap is collected often, so that what grows is what is kept.
      env: { ACP_LOG_LEVEL: "error", NODE_OPTIONS: "--max-old-space-size=256" },
    });
    cleanup.defer(async () => void (await gateway.stop()));
    await gateway.add("bank", { url: upstream.url });
    const round = async (seconds: number): Promise<{ calls: number; errors: string[] }> => {
      const errors: string[] = [];
      let calls = 0;
      const until = Date.now() + seconds * 1000;
      const one = async (index: number): Promise<void> => {
        try {
          const client = await connectStateful(gateway.urlOf("bank"), gateway.headers);
          while (Date.now() < until) {
            const params = { name: "pay", arguments: { index } };
            const result = (await asking(client).request({ method: "tools/call", params })) as { isError?: boolean };
            if (result.isError) errors.push(JSON.stringify(result));
            calls += 1;
          }
          await (client.transport as unknown as { terminateSession(): Promise<void> }).terminateSession();
          await client.close();
        } catch (error) {
          errors.push(String(error));
        }
      };
      await Promise.all(Array.from({ length: SESSIONS }, (_, index) => one(index)));
      return { calls, errors };
    };
    // What is allocated once, by the first calls.
    await round(10);
    const settle = () => new Promise((resolve) => setTimeout(resolve, 5_000));
    await settle();
    const before = await usage(gateway.pid);
    const { calls, errors } = await round(SECONDS);
    await settle();
    const after = await usage(gateway.pid);
    console.log(
      `      ${calls} calls; handles ${before.handles} → ${after.handles}, MiB ${Math.round(before.mebibytes)} → ${Math.round(after.mebibytes)}`,
    );
    expect(errors).to.deep.equal([]);
    expect(calls).to.be.above(SESSIONS);
    expect(after.handles).to.be.at.most(before.handles + 50);
    expect(after.mebibytes).to.be.at.most(before.mebibytes * 1.25);
    const text = await (await fetch(`${gateway.http}/metrics`)).text();
    expect(text).to.contain("acp_mcp_sessions 0");
  });
});
