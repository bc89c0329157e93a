import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { freePort } from "../support/free-port.ts";
import { startService, type TestService } from "../support/service.ts";
import { agentctl, createFolder, type Folder } from "./harness.ts";

interface Hook {
  readonly type: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly allowedEnvVars: readonly string[];
  readonly timeout: number;
  readonly onFailure: string;
  readonly command: string;
}

const EVENT = { hook_event_name: "PreToolUse", tool_name: "Bash", tool_input: { command: "ls" } };

describe("agentctl attach", () => {
  let service: TestService;
  let folder: Folder;
  let agentId: string;
  before(async () => {
    folder = await createFolder();
    service = await startService();
    agentId = await service.agent();
    const rule = { type: "action", decision: "block", conditions: { match_action_types: ["codex.rm"] } };
    await service.rest("POST /v1/enforce/mandates", { name: "no rm", rules: [rule] });
  });
  after(async () => {
    await service?.stop();
    await folder?.remove();
  });

  const attach = (client: string, url: string, path: string, ...more: readonly string[]) =>
    agentctl(["attach", client, "--url", url, "--settings", path, "--agent", agentId, ...more]);

  async function hooksIn(path: string): Promise<Hook[]> {
    const { hooks } = JSON.parse(await readFile(path, "utf8")) as { hooks: { PreToolUse: { hooks: Hook[] }[] } };
    return hooks.PreToolUse.flatMap((group) => group.hooks);
  }

  it("claude-code writes a hook that blocks when it cannot be reached, and no key.", async () => {
    const path = folder.path("claude/settings.json");
    const run = await attach("claude-code", service.http, path, "--hold", "20");
    expect(run.code, run.stderr).to.equal(0);
    const [hook] = await hooksIn(path);
    expect(hook).to.include({ type: "http", timeout: 80, onFailure: "block" });
    expect(hook?.allowedEnvVars).to.deep.equal(["ACP_AGENT_KEY"]);
    // As the client calls it, with the variable in the header replaced.
    const headers = { ...hook?.headers, "X-API-Key": service.adminKey, "content-type": "application/json" };
    const response = await fetch(hook?.url ?? "", { method: "POST", headers, body: JSON.stringify(EVENT) });
    expect(await response.json()).to.have.nested.property("hookSpecificOutput.permissionDecision", "allow");
  });

  it("keeps the other settings, and replaces its own hook.", async () => {
    const other = { matcher: "Bash", hooks: [{ type: "command", command: "true" }] };
    const path = await folder.file(
      "kept.json",
      JSON.stringify({ model: "x", hooks: { Stop: [], PreToolUse: [other] } }),
    );
    for (const url of ["http://one.example", "http://two.example/base/"]) await attach("claude-code", url, path);
    const settings = JSON.parse(await readFile(path, "utf8"));
    expect(settings).to.deep.include({ model: "x" });
    expect(settings.hooks.Stop).to.deep.equal([]);
    expect(settings.hooks.PreToolUse[0]).to.deep.equal(other);
    expect((await hooksIn(path)).map(({ url }) => url)).to.deep.equal([
      undefined,
      "http://two.example/base/v1/hooks/claude-code?hold_seconds=540",
    ]);
  });

  it("changes nothing in a file that it does not understand.", async () => {
    for (const content of ["{", "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": 1}}']) {
      const path = await folder.file("odd.json", content);
      const run = await attach("claude-code", service.http, path);
      expect([run.code, run.stderr].join()).to.contain("2,").and.to.contain("nothing was changed");
      expect(await readFile(path, "utf8")).to.equal(content);
    }
  });

  it("says what is wrong with its options.", async () => {
    expect((await attach("claude-code", service.http, "x", "--hold", "4000")).stderr).to.contain("0 to 3540");
    expect((await attach("claude-code", "ftp://x", "x")).stderr).to.contain("--url");
    expect((await agentctl(["attach", "codex", "--url", service.http, "--agent", "bob"])).stderr).to.contain(
      "--agent bob",
    );
  });

  /** Runs the command of a hook as Codex does: the event on standard input. */
  async function runHook(command: string, event: object): Promise<{ code: number; stdout: string; stderr: string }> {
    const child = spawn("sh", ["-c", command], { env: { ...process.env, ACP_AGENT_KEY: service.adminKey } });
    child.stdin.on("error", () => undefined).end(JSON.stringify(event));
    const [[code], stdout, stderr] = await Promise.all([once(child, "exit"), text(child.stdout), text(child.stderr)]);
    return { code: code as number, stdout, stderr };
  }

  it("codex writes a command whose answers Codex takes, and that blocks when nobody answers.", async () => {
    const path = folder.path("codex/hooks.json");
    await attach("codex", service.http, path);
    const [hook] = await hooksIn(path);
    expect(await runHook(hook?.command ?? "", EVENT)).to.deep.include({ code: 0, stdout: "{}" });
    const denied = await runHook(hook?.command ?? "", { ...EVENT, tool_name: "rm" });
    expect(denied.code).to.equal(0);
    expect(JSON.parse(denied.stdout)).to.have.nested.property("hookSpecificOutput.permissionDecision", "deny");
    await attach("codex", `http://127.0.0.1:${await freePort()}/it's`, path);
    const [unreachable] = await hooksIn(path);
    const blocked = await runHook(unreachable?.command ?? "", EVENT);
    expect(blocked.code).to.equal(2);
    expect(blocked.stderr).to.contain("the control plane gave no answer");
  });
});
