import { expect } from "chai";
import { startToolsServer, type ToolsServer, tool } from "../gateway/tools-server.ts";
import { startService, type TestService } from "../support/service.ts";
import { agentctl, type Run } from "./harness.ts";

describe("agentctl mcp", () => {
  let service: TestService;
  let upstream: ToolsServer;
  before(async () => {
    upstream = await startToolsServer([tool("pay"), tool("b\u200bad")]);
    service = await startService({ env: { ACP_MCP_ALLOW: "127.0.0.0/8" } });
  });
  after(async () => {
    await service?.stop();
    await upstream?.close();
  });
  const mcp = (...more: readonly string[]): Promise<Run> =>
    agentctl(["mcp", ...more], {
      AGENTCTL_URL: service.http,
      AGENTCTL_KEY: service.adminKey,
      BANK_TOKEN: "Bearer sesame",
    });

  it("registers a server with secrets from the environment, lists it and removes it.", async () => {
    const added = await mcp("add", "bank", upstream.url, "--header", "authorization=BANK_TOKEN");
    expect(added.code, added.stderr).to.equal(0);
    expect(added.stdout).to.contain("registered bank").and.to.contain("1 tools in force, 0 to accept");
    expect(added.stdout).to.contain("unusable   b\\u{200b}ad: its name must not hold U+200B");
    expect(added.stdout + added.stderr).not.to.contain("sesame");
    expect(upstream.headers.at(-1)?.get("authorization")).to.equal("Bearer sesame");
    expect((await mcp("list")).stdout).to.contain(upstream.url);
    expect((await mcp("list", "--json")).json()).to.have.nested.property("servers[0].header_names[0]", "authorization");
    expect((await mcp("remove", "bank", "--yes")).code).to.equal(0);
    expect((await mcp("list")).stdout).to.equal("no MCP servers\n");
  });

  it("shows what changed, and accepts what was looked at.", async () => {
    await mcp("add", "vault", upstream.url, "--quarantine");
    expect((await mcp("tools", "vault")).stdout).to.contain("pay  quarantined, version 1 waits");
    expect((await mcp("accept", "vault", "pay", "1")).stdout).to.equal("accepted version 1 of pay\n");
    upstream.tools = [tool("pay", { description: "pays twice" })];
    const { stdout } = await mcp("tools", "vault");
    expect(stdout)
      .to.contain("pay  version 1, version 2 waits")
      .and.to.contain('description: "does pay" → "pays twice"');
    const stale = await mcp("accept", "vault", "pay", "1");
    expect([stale.code, stale.stderr].join()).to.contain("2").and.to.contain("version 2 waits to be accepted");
    expect((await mcp("accept", "vault", "pay", "2")).code).to.equal(0);
  });

  it("says what is missing.", async () => {
    expect((await mcp("add", "x")).stderr).to.contain("give either a URL or --command");
    expect((await mcp("add", "x", upstream.url, "--header", "authorization=NONE")).stderr).to.contain(
      "`NONE` is not set",
    );
    expect((await mcp("tools", "none")).stderr).to.contain("no MCP server `none`");
    expect((await mcp("accept", "vault", "pay", "latest")).stderr).to.contain("<version> is a number");
    expect((await mcp("remove", "vault")).code).to.equal(2);
  });

  it("registers a command for an admin of the workspace `default`.", async () => {
    const added = await mcp("add", "own", "--command", process.execPath, "--arg=--version", "--json");
    // A program that speaks no MCP is registered, and cannot be reached.
    expect(added.code).to.equal(2);
    expect(added.stdout + added.stderr).to.contain("MCP server `own`");
    expect((await mcp("list")).stdout).to.contain(`${process.execPath} --version`);
  });
});
