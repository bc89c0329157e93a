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

  it("sets what passes and what is replaced, and leaves what is not named.", async () => {
    const limits = [
      "--pass-method",
      "acme/status",
      "--pass-meta",
      "acme.com/tenant",
      "--drift",
      "60",
      "--scrub",
      "email",
    ];
    expect((await mcp("add", "able", upstream.url, "--quarantine", ...limits)).code).to.equal(0);
    const [able] = (await mcp("list", "--json")).json().servers as Record<string, unknown>[];
    expect(able).to.deep.include({ drift: "60", idle_seconds: null, mode: "quarantine" });
    expect(able).to.deep.include({ pass_methods: ["acme/status"], pass_meta: ["acme.com/tenant"], scrub: ["email"] });
    const changed = await mcp("update", "able", "--scrub=", "--drift=", "--open", "--json");
    expect(changed.json().server).to.deep.include({
      scrub: [],
      drift: "5",
      mode: "open",
      pass_methods: ["acme/status"],
    });
    const replaced = await mcp("update", "able", "--header", "x-key=BANK_TOKEN", "--pass-method", "acme/b", "--json");
    expect(replaced.json().server).to.deep.include({ header_names: ["x-key"], pass_methods: ["acme/b"] });
    const removed = await mcp("update", "able", "--remove-header", "X-Key", "--json");
    expect(removed.json().server).to.deep.include({ header_names: [] });
    await mcp("remove", "able", "--yes");
  });

  it("says which setting is wrong, and how it must be.", async () => {
    await mcp("add", "able", upstream.url);
    const faults = [
      [["--pass-method", "Tools/Call"], "pass_methods[0]", "is settled by the gateway's own table"],
      [["--pass-meta", "agentcontrol.v1/decision"], "pass_meta[0]", "never reaches a server"],
      [["--scrub", "shoe_size"], "scrub[0]", "must be one of `email`, `phone`"],
      [["--drift", "86401"], "drift", "seconds from 0 to 86400"],
      [["--idle", "60"], "idle_seconds", "goes with a `command` only"],
      [["--idle", "soon"], "--idle", "is a number of seconds"],
      [["--open", "--quarantine"], "--open", "give either"],
      [[], "something to change", "--help"],
    ] as const;
    for (const [options, field, reason] of faults) {
      const { code, stderr } = await mcp("update", "able", ...options);
      // The command itself refuses options; the service refuses members.
      expect(code, stderr).to.equal(field.startsWith("--") || field === "something to change" ? 2 : 1);
      expect(stderr).to.contain(field).and.to.contain(reason);
    }
    await mcp("remove", "able", "--yes");
  });

  it("shows what changed, and accepts what was looked at.", async () => {
    await mcp("add", "vault", upstream.url, "--quarantine");
    expect((await mcp("tools", "vault")).stdout).to.contain("pay  quarantined, version 1 waits");
    expect((await mcp("list")).stdout).to.contain("\n  waits      1 new to accept\n");
    expect((await mcp("accept", "vault", "pay", "1")).stdout).to.equal("accepted version 1 of pay\n");
    upstream.tools = [tool("pay", { description: "pays twice" })];
    const { stdout } = await mcp("tools", "vault");
    expect(stdout)
      .to.contain("pay  version 1, version 2 waits")
      .and.to.contain('description: "does pay" → "pays twice"');
    expect((await mcp("list")).stdout).to.contain("\n  waits      1 changed to accept\n");
    const stale = await mcp("accept", "vault", "pay", "1");
    expect([stale.code, stale.stderr].join()).to.match(/^1,/).and.to.contain("version 2 waits to be accepted");
    expect((await mcp("accept", "vault", "pay", "2")).code).to.equal(0);
  });

  it("says which server is away, and why.", async () => {
    const gone = await startToolsServer([tool("pay")]);
    await mcp("add", "gone", gone.url);
    await gone.close();
    await service.rest("POST /v1/enforce/mcp-servers/gone:refresh", {}).catch(() => undefined);
    expect((await mcp("list")).stdout).to.match(/(^|\n)gone .*\n {2}away {7}since \d{4}-\S+ \S+Z: cannot be reached\n/);
    await mcp("remove", "gone", "--yes");
  });

  it("says what is missing.", async () => {
    expect((await mcp("add", "x")).stderr).to.contain("give either a URL, or a program");
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
    expect(added.code).to.equal(1);
    expect(added.stderr).to.contain("MCP server `own`");
    expect((await mcp("list")).stdout).to.contain(`${process.execPath} --version`);
  });
});
