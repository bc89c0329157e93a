import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import "../support/scratch.ts";
import { startService, type TestService } from "../support/service.ts";
import { openRawSession } from "./raw-session.ts";

/** More than all workspaces together could have before. */
const SESSIONS = 264;
/** A divisor of the share: a session that has just begun is idle, and would make room for one that begins beside it. */
const AT_ONCE = 6;

/** An MCP server that costs little: it answers `initialize` alone. */
const PROGRAM = `
while IFS= read -r line; do
  id=\${line##*'"id":'}
  id=\${id%%,*}
  id=\${id%%"}"*}
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}\\n' "$id" ;;
  esac
done
`;

describe("the child processes of MCP servers", function () {
  this.timeout(300_000);
  let service: TestService;
  let folder: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-many-"));
    await chmod(folder, 0o755);
    await writeFile(join(folder, "server.sh"), PROGRAM);
    service = await startService({ env: { ACP_MCP_FOLDERS: folder } });
  });
  after(async () => {
    await service?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it("of one agent end at its share, and other agents start theirs.", async () => {
    const own = await service.agent();
    const others = [await service.agent(), await service.agent(), await service.agent()];
    const server = { name: "sh", command: "/bin/sh", args: [join(folder, "server.sh")] };
    await service.rest("POST /v1/enforce/mcp-servers", server);
    type Refusal = { message: string; data: { reason: string; metadata: Record<string, string> } };
    /** Opens a session whose child is its own, and uses it. Returns the error. */
    const open = async (agentId: string): Promise<Refusal | undefined> => {
      const who = { "x-api-key": service.adminKey, "x-agent-id": agentId };
      const { opened, listen } = await openRawSession(new URL(`${service.http}/mcp/sh`), who);
      const [message] = opened.messages as unknown as { error?: Refusal; result?: object }[];
      if (message?.result === undefined && message?.error === undefined) throw new Error(opened.text);
      if (message.error === undefined) await listen();
      return message.error;
    };
    const outcomes: (Refusal | undefined)[] = [];
    while (outcomes.length < SESSIONS) {
      outcomes.push(...(await Promise.all(Array.from({ length: AT_ONCE }, () => open(own)))));
    }
    const refusals = outcomes.filter((each) => each !== undefined);
    expect(outcomes.length - refusals.length).to.equal(102);
    for (const { message, data } of refusals) {
      expect(message).to.equal(
        "the agent holds 102 child processes of MCP servers in this process, and its share is 102 at the moment; end MCP sessions with DELETE, or retry in 30 s",
      );
      expect(data.reason).to.equal("OVERLOADED");
      expect(data.metadata).to.include({ pot: "mcp_children", party: "agent", retry_after_seconds: "30" });
    }
    for (const each of others) expect(await open(each)).to.equal(undefined);
  });
});
