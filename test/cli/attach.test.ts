import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { settledOutcome } from "../gateway/outcomes.ts";
import { until } from "../gateway/until.ts";
import { freePort } from "../support/free-port.ts";
import { startService, type TestService } from "../support/service.ts";
import { agentctl, createFolder, type Folder } from "./harness.ts";
import { blockReason, EVENT, HOOK, type HookRun, runCommandLine, serve } from "./hook/hook-run.ts";

interface Hook {
  readonly type: string;
  readonly timeout: number;
  readonly onFailure?: string;
  readonly command: string;
}

const CLIENTS = ["claude-code", "codex"] as const;
type Client = (typeof CLIENTS)[number];
const SETTINGS = { "claude-code": ".claude/settings.json", codex: ".codex/hooks.json" } as const;

describe("agentctl attach", () => {
  let service: TestService;
  let folder: Folder;
  let agentId: string;
  before(async () => {
    folder = await createFolder();
    service = await startService();
    agentId = await service.agent();
    const block = {
      type: "action",
      decision: "block",
      conditions: { match_action_types: ["codex.rm", "claude-code.rm"] },
    };
    const escalate = {
      ...block,
      decision: "escalate",
      conditions: { match_action_types: ["codex.write", "claude-code.write"] },
    };
    await service.rest("POST /v1/enforce/mandates", { name: "no rm", rules: [block, escalate] });
  });
  after(async () => {
    await service?.stop();
    await folder?.remove();
  });

  let count = 0;
  /** A user's home and project, each with a name that a shell would read otherwise. */
  async function createPlace(): Promise<{ home: string; project: string; env: Record<string, string> }> {
    count += 1;
    const [home, project] = [folder.path(`home it's ${count}`), folder.path(`project "$x" ${count}`)];
    await Promise.all([mkdir(home), mkdir(project)]);
    return { home, project, env: { HOME: home, INIT_CWD: project, ACP_AGENT_KEY: service.adminKey } };
  }

  const attach = (client: string, env: Record<string, string>, ...more: readonly string[]) =>
    agentctl(["attach", client, "--url", service.http, "--agent", agentId, ...more], env);

  async function hooksIn(path: string): Promise<Hook[]> {
    const { hooks } = JSON.parse(await readFile(path, "utf8")) as { hooks: { PreToolUse: { hooks: Hook[] }[] } };
    return hooks.PreToolUse.flatMap((group) => group.hooks);
  }

  /** Runs the installed hook as its client does. */
  async function call(client: Client, project: string, tool: string, event: object = EVENT): Promise<HookRun> {
    const [hook] = await hooksIn(join(project, SETTINGS[client]));
    return runCommandLine(hook?.command ?? "", { ...event, tool_name: tool });
  }

  for (const client of CLIENTS) {
    it(`${client} installs a hook that asks the control plane, tries it, and says what it saw.`, async () => {
      const { project, env } = await createPlace();
      const run = await attach(client, env, "--hold", "20");
      expect(run.code, run.stderr).to.equal(0);
      const path = join(project, SETTINGS[client]);
      expect(run.stdout).to.contain(`attached: ${path} asks ${service.http}/v1/hooks/${client}`);
      const [decisionId] = await service.decisionIdsOf(agentId);
      const seen = `\`Bash\` with \`true\` as ${agentId}: allow (${decisionId}), since no mandate matched`;
      expect(run.stdout).to.contain(seen);
      const [hook] = await hooksIn(path);
      expect(hook).to.include({ type: "command", timeout: 80 });
      expect(hook?.onFailure).to.equal(client === "codex" ? undefined : "block");
      expect(await call(client, project, "Bash")).to.deep.include({ code: 0, stdout: "", stderr: "" });
      const denied = await call(client, project, "rm");
      expect(denied.code).to.equal(client === "codex" ? 2 : 0);
      expect(client === "codex" ? denied.stderr : denied.stdout).to.contain("blocked this call of `rm`");
    });

    it(`${client} keeps the key in one file, for the user alone, and outside of the project.`, async () => {
      const { home, project, env } = await createPlace();
      const run = await attach(client, env);
      const texts = [run.stdout, run.stderr, await readFile(join(project, SETTINGS[client]), "utf8")];
      expect(texts.join("\n")).not.to.contain(service.adminKey);
      const user = join(home, ".config/agent-control-plane");
      const files = (await readdir(user, { recursive: true, withFileTypes: true })).filter((each) => each.isFile());
      const paths = files.map((each) => join(each.parentPath, each.name));
      expect(paths).to.have.length(2).and.to.include(join(user, "hook.cjs"));
      for (const path of paths) {
        expect((await stat(path)).mode & 0o777, path).to.equal(0o600);
        expect((await stat(dirname(path))).mode & 0o777, path).to.equal(0o700);
      }
      expect(await readFile(join(user, "hook.cjs"), "utf8")).to.equal(await readFile(HOOK, "utf8"));
    });
  }

  for (const client of CLIENTS) {
    it(`${client} installs hooks that tell what a person asks, how a tool ended, and what it answered.`, async () => {
      const { project, env } = await createPlace();
      const run = await attach(client, env);
      const events = client === "codex" ? ["PostToolUse"] : ["PostToolUse", "PostToolUseFailure"];
      expect(run.stdout).to.contain(`reported   how a tool ended, by ${events.join(" and ")}`);
      const path = join(project, SETTINGS[client]);
      const { hooks } = JSON.parse(await readFile(path, "utf8")) as { hooks: Record<string, { hooks: Hook[] }[]> };
      expect(run.stdout).to.contain("observed   what a person asks, by UserPromptSubmit, and what tools answer");
      expect(Object.keys(hooks)).to.deep.equal(["PreToolUse", ...events, "UserPromptSubmit"]);
      const session = `s-${client}`;
      const prompt = hooks.UserPromptSubmit?.[0]?.hooks[0];
      expect(prompt).to.include({ type: "command", timeout: 40 });
      const asked = { hook_event_name: "UserPromptSubmit", session_id: session, prompt: "mail ann@home.example" };
      expect(await runCommandLine(prompt?.command ?? "", asked)).to.deep.include({ code: 0, stdout: "", stderr: "" });
      for (const event of events) {
        const [after, ...others] = hooks[event]?.flatMap((group) => group.hooks) ?? [];
        expect(others).to.deep.equal([]);
        expect(after).to.include({ type: "command", timeout: 40 }).and.not.to.have.property("onFailure");
        const named = { ...EVENT, session_id: session, tool_use_id: `toolu_${client}_${event}` };
        expect(await call(client, project, "Bash", named)).to.deep.include({ code: 0, stdout: "", stderr: "" });
        const ended = { ...named, hook_event_name: event, tool_response: "é\u0001x".repeat(1_000_000) };
        const reported = await runCommandLine(after?.command ?? "", ended);
        expect(reported).to.deep.include({ code: 0, stdout: "", stderr: "" });
        const outcome = await settledOutcome(service, agentId);
        expect(outcome?.status).to.equal(event === "PostToolUse" ? "succeeded" : "failed");
      }
      // Another run replaces the hooks.
      await attach(client, env);
      const again = JSON.parse(await readFile(path, "utf8")) as { hooks: Record<string, { hooks: Hook[] }[]> };
      expect(again.hooks).to.deep.equal(hooks);
    });
  }

  it("installs a hook after a tool that stops the agent when it cannot tell what the tool answered.", async () => {
    const { project, env } = await createPlace();
    await attach("claude-code", env);
    const path = join(project, SETTINGS["claude-code"]);
    const { hooks } = JSON.parse(await readFile(path, "utf8")) as { hooks: Record<string, { hooks: Hook[] }[]> };
    const command = hooks.PostToolUse?.[0]?.hooks[0]?.command ?? "";
    const lost = command.replace("hook.cjs", "no-hook.cjs");
    for (const [line, event] of [
      [command, { hook_event_name: "PostToolUse" }],
      [command, "[]"],
      [command, "{"],
      [lost, { hook_event_name: "PostToolUse" }],
    ] as const) {
      const { code, stdout } = await runCommandLine(line, event);
      expect(code).to.equal(0);
      const { continue: goesOn, stopReason } = JSON.parse(stdout);
      expect(goesOn).to.equal(false);
      expect(stopReason).to.match(/^Agent Control Plane: .*The tool ran/);
    }
  });

  it("installs a hook before a prompt that keeps it from the model when it cannot be told.", async () => {
    for (const client of CLIENTS) {
      const { project, env } = await createPlace();
      await attach(client, env);
      const path = join(project, SETTINGS[client]);
      const { hooks } = JSON.parse(await readFile(path, "utf8")) as { hooks: Record<string, { hooks: Hook[] }[]> };
      const command = hooks.UserPromptSubmit?.[0]?.hooks[0]?.command ?? "";
      const event = { hook_event_name: "UserPromptSubmit", prompt: "mail ann@home.example" };
      for (const [line, given] of [
        [command, event],
        [command, { ...event, session_id: "s", prompt: 1 }],
        [command, "{"],
        [command.replace("hook.cjs", "no-hook.cjs"), event],
      ] as const) {
        const { code, stdout, stderr } = await runCommandLine(line, given);
        const reason = code === 2 ? stderr : JSON.parse(stdout).reason;
        if (code !== 2) expect(JSON.parse(stdout).decision).to.equal("block");
        expect(reason, JSON.stringify(given)).to.contain("The model did not get");
      }
    }
  });

  it("installs a hook that waits for a person, and runs the tool with the input that they put in its place.", async () => {
    for (const client of CLIENTS) {
      const { project, env } = await createPlace();
      await attach(client, env);
      const held = call(client, project, "write");
      const path = `GET /v1/enforce/escalations?status=pending&agent_id=${agentId}`;
      let id: string | undefined;
      await until(async () => {
        const { escalations } = (await service.rest(path)) as unknown as { escalations: { escalation_id: string }[] };
        id = escalations[0]?.escalation_id;
        return id !== undefined;
      });
      await service.rest(`POST /v1/enforce/escalations/${id}/edit`, { arguments: { path: "/tmp/x" } });
      const { code, stdout } = await held;
      expect(code).to.equal(0);
      expect(JSON.parse(stdout).hookSpecificOutput).to.deep.equal({
        hookEventName: "PreToolUse",
        permissionDecision: "allow",
        updatedInput: { path: "/tmp/x" },
      });
    }
  });

  it("installs a hook that blocks what the control plane cannot read.", async () => {
    for (const client of CLIENTS) {
      const { project, env } = await createPlace();
      await attach(client, env);
      const [hook] = await hooksIn(join(project, SETTINGS[client]));
      const events = [
        { ...EVENT, tool_input: { text: "x".repeat(10_000_000) } },
        { ...EVENT, tool_name: "Ba\u200bsh" },
        { ...EVENT, tool_name: "Ba\ud800sh" },
        JSON.stringify(EVENT).replace("ls", "\u0000"),
        "",
        "[".repeat(100_000),
        JSON.stringify(EVENT).replace("{", '{"tool_name":"Read",'),
      ];
      for (const event of events) {
        const run = await runCommandLine(hook?.command ?? "", event);
        expect(blockReason(run), `${JSON.stringify(event).slice(0, 200)}: ${JSON.stringify(run)}`).to.be.a("string");
      }
    }
  });

  it("writes below the folder that npm was called from, or into --settings from there, and prints the whole path.", async () => {
    const { project, env } = await createPlace();
    const run = await attach("codex", env, "--settings", "sub/hooks.json");
    expect(run.stdout).to.contain(`attached: ${project}/sub/hooks.json asks`);
    expect(await hooksIn(`${project}/sub/hooks.json`)).to.have.length(1);
    const absolute = folder.path("elsewhere/hooks.json");
    expect((await attach("codex", env, "--settings", absolute)).stdout).to.contain(`attached: ${absolute} asks`);
    expect(existsSync(join(project, ".codex"))).to.equal(false);
  });

  it("tells for Codex when its hooks are skipped, and how they are not.", async () => {
    const { env } = await createPlace();
    const { stdout } = await attach("codex", env);
    for (const words of [
      "not trusted",
      "`codex exec`",
      "`/hooks`",
      "features.hooks = false",
      "attach codex --managed",
    ]) {
      expect(stdout).to.contain(words);
    }
  });

  it("keeps the other settings, and replaces its own hook in each of its forms, not another program's.", async () => {
    const { project, env } = await createPlace();
    const others = [
      { type: "command", command: "true" },
      { type: "http", url: "http://localhost:8100/v1/hooks/claude-code" },
    ];
    const http = {
      type: "http",
      url: "http://one.example/v1/hooks/claude-code?hold_seconds=540",
      headers: { "X-API-Key": "$ACP_AGENT_KEY" },
      allowedEnvVars: ["ACP_AGENT_KEY"],
    };
    const path = join(project, SETTINGS["claude-code"]);
    await mkdir(dirname(path));
    const before = {
      model: "x",
      hooks: { Stop: [], PreToolUse: [{ matcher: "Bash", hooks: others }, { hooks: [http] }] },
    };
    await writeFile(path, JSON.stringify(before));
    await chmod(path, 0o600);
    for (const hold of ["1", "2"]) await attach("claude-code", env, "--hold", hold);
    const settings = JSON.parse(await readFile(path, "utf8"));
    expect(settings).to.deep.include({ model: "x" });
    expect(settings.hooks.Stop).to.deep.equal([]);
    expect(settings.hooks.PreToolUse[0]).to.deep.equal({ matcher: "Bash", hooks: others });
    expect((await hooksIn(path)).map(({ timeout }) => timeout)).to.deep.equal([undefined, undefined, 62]);
    expect((await stat(path)).mode & 0o777).to.equal(0o600);
    const curl = 'curl -H "X-API-Key: $ACP_AGENT_KEY" http://one.example/v1/hooks/codex || { echo no >&2; exit 2; }';
    const hooks = join(project, SETTINGS.codex);
    await mkdir(dirname(hooks));
    await writeFile(
      hooks,
      JSON.stringify({ hooks: { PreToolUse: [{ hooks: [{ type: "command", command: curl }] }] } }),
    );
    await attach("codex", env);
    expect((await hooksIn(hooks)).map(({ command }) => command.includes("curl"))).to.deep.equal([false]);
  });

  it("changes nothing in a file that it does not understand.", async () => {
    const { env } = await createPlace();
    for (const content of ["{", "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": 1}}']) {
      const path = await folder.file("odd.json", content);
      const run = await attach("claude-code", env, "--settings", path);
      expect([run.code, run.stderr].join()).to.contain("2,").and.to.contain("nothing was changed");
      expect(await readFile(path, "utf8")).to.equal(content);
    }
  });

  it("says what is wrong with its options.", async () => {
    const { env } = await createPlace();
    const cases: readonly [readonly string[], string][] = [
      [["--hold", "4000"], "0 to 3540"],
      [["--url", "ftp://x"], "--url"],
      [["--agent", "bob"], "--agent bob"],
      [["--root", "/x"], "only with --managed"],
      [["--managed", "--settings", "x"], "not with --managed"],
    ];
    for (const [options, text] of cases) {
      const run = await attach("codex", env, ...options);
      expect([run.code, run.stderr].join()).to.contain("2,").and.to.contain(text);
    }
  });

  it("asks for a key that neither the environment nor an earlier run gives, and takes no odd one.", async () => {
    const { env } = await createPlace();
    const { ACP_AGENT_KEY: key = "", ...without } = env;
    const missing = await attach("codex", without);
    expect([missing.code, missing.stderr].join()).to.contain("2,").and.to.contain("ACP_AGENT_KEY");
    const odd = await attach("codex", { ...without, ACP_AGENT_KEY: "two words" });
    expect(odd.stderr).to.contain("the key alone").and.not.to.contain("two words");
    const argv = ["attach", "codex", "--url", service.http, "--agent", agentId];
    const asked = await agentctl(argv, without, undefined, false, async () => ` ${key}\n`);
    expect(asked.code, asked.stderr).to.equal(0);
    expect((await attach("codex", without)).code).to.equal(0);
  });

  it("refuses a key that other users could read, and a folder that they could change.", async () => {
    const { home, env } = await createPlace();
    await attach("codex", env);
    const { ACP_AGENT_KEY: _, ...without } = env;
    const user = join(home, ".config/agent-control-plane");
    const [name = ""] = await readdir(join(user, "connections"));
    const connection = join(user, "connections", name);
    await chmod(connection, 0o644);
    const readable = await attach("codex", without);
    expect([readable.code, readable.stderr].join()).to.contain("2,agentctl: other users can read");
    // A new key replaces the file.
    await attach("codex", env);
    expect((await stat(connection)).mode & 0o777).to.equal(0o600);
    await rm(connection);
    await symlink("/etc/hostname", connection);
    expect((await attach("codex", without)).stderr).to.contain("cannot be read (ELOOP)");
    await attach("codex", env);
    expect((await stat(connection)).mode & 0o777).to.equal(0o600);
    await chmod(user, 0o777);
    expect((await attach("codex", env)).stderr).to.contain("other users can change");
  });

  it("says why its trial failed, and leaves a hook that blocks.", async () => {
    const foreign = await serve(({ response }) => response.end("{}"));
    const cases: readonly [readonly string[], Record<string, string>, string][] = [
      [["--url", `http://127.0.0.1:${await freePort()}/it's`], {}, "gave no answer (ECONNREFUSED)"],
      [["--url", foreign.url], {}, "not signed with the agent's key"],
      [[], { ACP_AGENT_KEY: "acp_wrong" }, "refuses the key"],
      [["--agent", `agt_${"a".repeat(26)}`], {}, `agt_${"a".repeat(26)}`],
    ];
    for (const client of CLIENTS) {
      for (const [options, more, why] of cases) {
        const { project, env } = await createPlace();
        const run = await attach(client, { ...env, ...more }, ...options);
        expect(run.code, run.stdout).to.equal(1);
        expect(run.stdout).to.contain("FAILED").and.to.contain(why);
        expect(blockReason(await call(client, project, "Bash"))).to.be.a("string");
      }
    }
    await foreign.close();
  });

  it("tells as JSON what it did and saw.", async () => {
    const { home, project, env } = await createPlace();
    const json = (await attach("codex", env, "--json")).json();
    expect(json).to.deep.include({
      settings: join(project, SETTINGS.codex),
      url: `${service.http}/v1/hooks/codex`,
      hook: join(home, ".config/agent-control-plane/hook.cjs"),
      hold_seconds: 540,
    });
    expect(json.trial).to.deep.include({ decision: "allow", agent_id: agentId });
  });

  it("finds the user's own Node.js, not the one that npm puts first.", async () => {
    const { env } = await createPlace();
    const [ofNpm, own] = [folder.path("node_modules/.bin"), folder.path("own bin")];
    const old = folder.path("old");
    for (const each of [ofNpm, own, old]) await mkdir(each, { recursive: true });
    await symlink(process.execPath, join(ofNpm, "node"));
    await writeFile(join(old, "node"), `#!/bin/sh\necho '["/old/node","18.19.0"]'\n`, { mode: 0o755 });
    await writeFile(join(own, "node"), `#!/bin/sh\nexec '${process.execPath}' "$@"\n`, { mode: 0o755 });
    const PATH = [ofNpm, "relative", join(folder.path("missing")), old, own].join(":");
    expect((await attach("codex", { ...env, PATH }, "--json")).json().node).to.equal(process.execPath);
    await writeFile(join(old, "node"), `#!/bin/sh\necho '["${own}/node","20.19.0"]'\n`, { mode: 0o755 });
    expect((await attach("codex", { ...env, PATH }, "--json")).json().node).to.equal(join(own, "node"));
  });

  it("is an agentctl of its own when npm runs it: the folder is the caller's.", async () => {
    const { home, project } = await createPlace();
    const root = join(import.meta.dirname, "../..");
    const argv = ["--prefix", root, "run", "--silent", "agentctl", "--", "attach", "codex", "--json"];
    const { INIT_CWD: _, ...env } = process.env;
    const { stdout } = await promisify(execFile)("npm", [...argv, "--url", service.http, "--agent", agentId], {
      cwd: project,
      env: { ...env, HOME: home, ACP_AGENT_KEY: service.adminKey },
    });
    const json = JSON.parse(stdout);
    expect(json.settings).to.equal(join(project, SETTINGS.codex));
    expect(json.trial).to.include({ decision: "allow" });
    expect(json.node).not.to.contain("node_modules/.bin");
  });

  describe("--managed", () => {
    const managed = (client: string, root: string, ...more: readonly string[]) =>
      attach(client, {}, "--managed", "--root", root, ...more);

    it("writes requirements of Codex that no user can skip, with the hook in a folder of root.", async () => {
      const root = folder.path("codex root");
      const run = await managed("codex", root, "--hold", "30");
      expect(run.code, run.stderr).to.equal(0);
      const path = join(root, "etc/codex/requirements.toml");
      expect(run.stdout).to.contain(path).and.to.contain("owned by root");
      const text = await readFile(path, "utf8");
      expect(text)
        .to.match(/^allow_managed_hooks_only = true$/m)
        .and.to.match(/^\[features\]\nhooks = true$/m);
      expect(text)
        .to.match(/^managed_dir = "\/usr\/local\/lib\/agent-control-plane"$/m)
        .and.to.match(/^timeout = 90$/m)
        .and.to.match(/^\[\[hooks\.PostToolUse\.hooks\]\]\n.+\n.+\ntimeout = 40$/m);
      const [, command = ""] = /^command = (".*")$/m.exec(text) ?? [];
      const hook = "/usr/local/lib/agent-control-plane/hook.cjs";
      expect(JSON.parse(command)).to.contain(`'${hook}'`).and.to.contain("'~/.config/agent-control-plane/connections/");
      expect(await readFile(join(root, hook), "utf8")).to.equal(await readFile(HOOK, "utf8"));
      for (const each of [path, join(root, hook)]) expect((await stat(each)).mode & 0o777).to.equal(0o644);
      expect((await stat(dirname(path))).mode & 0o777).to.equal(0o755);
      // Its own file is replaced; another's is not.
      await managed("codex", root, "--hold", "40");
      expect(await readFile(path, "utf8")).to.match(/^timeout = 100$/m);
      await writeFile(path, 'allowed_sandbox_modes = ["read-only"]\n');
      const refused = await managed("codex", root);
      expect(refused.code).to.equal(2);
      expect(refused.stderr).to.contain("nothing was changed").and.to.contain("[[hooks.PreToolUse]]");
      expect(await readFile(path, "utf8")).to.equal('allowed_sandbox_modes = ["read-only"]\n');
    });

    it("writes managed settings of Claude Code with no hook beside it.", async () => {
      const root = folder.path("claude root");
      const run = await managed("claude-code", root);
      expect(run.code, run.stderr).to.equal(0);
      const path = (run.stdout.match(/^written: (.+?\.json) /) ?? [])[1] ?? "";
      expect(path).to.contain("managed-settings.d/agent-control-plane.json");
      expect(JSON.parse(await readFile(path, "utf8"))).to.include({ allowManagedHooksOnly: true });
      const [hook] = await hooksIn(path);
      expect(hook).to.include({ type: "command", timeout: 600, onFailure: "block" });
      expect(hook?.command).to.contain("/v1/hooks/claude-code");
      const { hooks } = JSON.parse(await readFile(path, "utf8")) as { hooks: Record<string, [{ hooks: Hook[] }]> };
      for (const event of ["PostToolUse", "PostToolUseFailure"])
        expect(hooks[event]?.[0].hooks).to.have.nested.property("[0].timeout", 40);
    });

    it("names the same connection file as a user's own run.", async () => {
      const { home, env } = await createPlace();
      const root = folder.path("same root");
      await managed("codex", root);
      await attach("codex", env);
      const [name = ""] = await readdir(join(home, ".config/agent-control-plane/connections"));
      expect(await readFile(join(root, "etc/codex/requirements.toml"), "utf8")).to.contain(`/connections/${name}'`);
    });
  });
});
