import { execFile } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { agentctl } from "../cli/harness.ts";
import { asking, connectStateful, type GatewayServiceProcess, startGatewayProcess } from "./harness.ts";
import { type ShellProgram, writeShellProgram } from "./shell-server.ts";
import { until } from "./until.ts";

const isRoot = process.geteuid?.() === 0;
const SECRET = "token-of-the-sibling-8153";
/** Account of a service that is not root, whose processes count against its limit: another run of these tests has another. */
const ID = randomInt(60_000, 60_990);
const PLAIN = { uid: ID, gid: ID };

/** Says whether bubblewrap works for an account that is not root. */
async function sandboxWorks(): Promise<boolean> {
  const args = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"];
  return promisify(execFile)("bwrap", args, { ...(isRoot ? PLAIN : {}), cwd: "/" }).then(
    () => true,
    () => false,
  );
}

/** Limit of one server: some times what its Node.js needs. */
const MEMORY_BYTES = 134_217_728;

/** Installs the program of a folder in a home, as npm does for a package with a command. */
async function installPackage(home: string, folder: string): Promise<void> {
  const modules = join(home, "node_modules");
  await mkdir(join(modules, "acp-shell"), { recursive: true });
  await mkdir(join(modules, ".bin"));
  const manifest = { name: "acp-shell", version: "1.0.0", type: "module", bin: { "acp-shell": "shell.mjs" } };
  await writeFile(join(modules, "acp-shell/package.json"), JSON.stringify(manifest));
  const text = await readFile(join(folder, "shell.mjs"), "utf8");
  await writeFile(join(modules, "acp-shell/shell.mjs"), `#!/usr/bin/env node\n${text}`, { mode: 0o755 });
  await symlink("../acp-shell/shell.mjs", join(modules, ".bin/acp-shell"));
}

interface Way {
  readonly name: string;
  readonly account: typeof PLAIN | undefined;
  readonly isPossible: () => Promise<boolean>;
}

const WAYS: readonly Way[] = [
  { name: "accounts of a service that is root", account: undefined, isPossible: async () => isRoot },
  { name: "sandboxes of a service that is not root", account: isRoot ? PLAIN : undefined, isPossible: sandboxWorks },
];

/** Runs a shell command in a server, and gives what it prints. */
type Shell = (text: string) => Promise<string>;

async function shellOf(
  gateway: GatewayServiceProcess,
  server: string,
): Promise<{ shell: Shell; close(): Promise<void> }> {
  const client = await connectStateful(gateway.urlOf(server), gateway.headers);
  const asked = asking(client);
  return {
    shell: async (text) => {
      const params = { name: "sh", arguments: { text } };
      const result = (await asked.request({ method: "tools/call", params })) as { content: { text: string }[] };
      return result.content[0]?.text ?? "";
    },
    close: async () => {
      await (client.transport as unknown as { terminateSession(): Promise<void> }).terminateSession();
      await client.close();
    },
  };
}

for (const { name, account, isPossible } of WAYS) {
  describe(`a malicious command among ${name}`, () => {
    let program: ShellProgram;
    let gateway: GatewayServiceProcess;
    let evil: Awaited<ReturnType<typeof shellOf>>;
    let victim: Awaited<ReturnType<typeof shellOf>>;
    let shell: Shell;
    /** Folder that commands may write. */
    let shared: string;

    before(async function () {
      if (!(await isPossible())) {
        console.log(`      skipped: ${isRoot ? "bubblewrap does not work here" : "this is not root"}`);
        return this.skip();
      }
      program = await writeShellProgram();
      shared = await mkdtemp(join(tmpdir(), "acp-shared-"));
      // Accounts of their own are kept out by permissions alone.
      await chmod(shared, 0o777);
      const env = {
        ACP_MCP_FOLDERS: `${program.folder},${shared}:rw`,
        ACP_MCP_MAX_PROCESSES: "64",
        ACP_MCP_MAX_MEMORY_BYTES: String(MEMORY_BYTES),
        HOME: "/tmp",
      };
      gateway = await startGatewayProcess({ env, ...(account && { account }) });
      await gateway.add("victim", program.command, { env: [{ name: "TOKEN", value: SECRET }] });
      await gateway.add("evil", program.command);
      victim = await shellOf(gateway, "victim");
      evil = await shellOf(gateway, "evil");
      shell = evil.shell;
      await victim.shell("echo own-secret > $HOME/secret; mkdir -p $HOME/d; echo x > $HOME/d/f");
    });
    after(async () => {
      await gateway?.stop();
      await program?.remove();
      if (shared !== undefined) await rm(shared, { recursive: true, force: true });
    });

    it("sees PATH, HOME and LANG in its environment, and what is configured.", async () => {
      const names = (await shell("env -0 | tr '\\0' '\\n' | cut -d= -f1")).trim().split("\n").sort();
      expect(names.filter((each) => each !== "_")).to.deep.equal(["HOME", "LANG", "PATH", "PWD"]);
      expect(await victim.shell("echo $TOKEN")).to.equal(`${SECRET}\n`);
    });

    it("reads no other process's environment.", async () => {
      const found = await shell("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'");
      expect(found)
        .to.contain("HOME=")
        .and.not.to.contain(SECRET)
        .and.not.to.contain("ACP_")
        .and.not.to.contain("DATABASE_URL");
      expect(found).not.to.contain(gateway.adminKey);
    });

    it("reads neither the data directory nor another server's home.", async () => {
      const key = `${gateway.dataDir}/encryption-key`;
      // A start on the embedded database keeps its keys here. Readable by its mode, so that the isolation alone protects it.
      await writeFile(key, randomBytes(32).toString("base64url"), { mode: 0o644 });
      expect(await shell(`cat ${key}`)).to.match(/denied|No such file/);
      const text = await readFile(key, "utf8");
      expect(await shell(`cat ${gateway.dataDir}/* 2>&1`)).not.to.contain(text.trim());
      expect(await shell(`ls ${gateway.homes}/default.victim; cat ${gateway.homes}/default.victim/secret`)).to.match(
        /^(.*(denied|No such file).*\n)+$/,
      );
      expect(await victim.shell("cat $HOME/secret")).to.equal("own-secret\n");
    });

    it("neither signals nor traces the service and other servers.", async () => {
      const victims = await processesWith(`${gateway.homes}/default.victim`);
      expect(victims).not.to.deep.equal([]);
      for (const pid of [gateway.pid, ...victims]) {
        await shell(`kill -9 ${pid}; cat /proc/${pid}/mem; ls -l /proc/${pid}/fd /proc/${pid}/cwd/`);
        expect(await shell(`cat /proc/${pid}/maps /proc/${pid}/environ`)).to.match(/^(.*(denied|No such file).*\n)+$/);
      }
      expect(await victim.shell("echo alive")).to.equal("alive\n");
    });

    it("writes in its home, and not beside it.", async () => {
      expect(await shell("pwd; echo x > $HOME/file && cat $HOME/file")).to.equal(`${gateway.homes}/default.evil\nx\n`);
      for (const path of [
        `${gateway.homes}/default.victim/x`,
        `${gateway.homes}/x`,
        "/etc/x",
        "/usr/x",
        `${gateway.dataDir}/x`,
      ]) {
        await shell(`echo planted > ${path}`);
        expect(await victim.shell(`cat ${path}`)).to.match(/denied|No such file/);
        expect(await stat(path).catch(() => undefined), path).to.equal(undefined);
      }
    });

    it("writes in a folder that is shared for writing, and not in one for reading.", async () => {
      await shell(`echo shared > ${shared}/file; echo planted > ${program.folder}/x`);
      expect(await readFile(join(shared, "file"), "utf8")).to.equal("shared\n");
      expect(await stat(join(program.folder, "x")).catch(() => undefined)).to.equal(undefined);
    });

    it("gains nothing from a setuid program.", async () => {
      expect(await shell("grep NoNewPrivs /proc/self/status")).to.match(/NoNewPrivs:\s+1/);
      expect(await shell("grep CapEff /proc/self/status")).to.match(/CapEff:\s+0+\n/);
      const uid = (await shell("id -u")).trim();
      expect(
        await shell("cp /bin/id $HOME/id && chmod 6755 $HOME/id && $HOME/id -u; su -c id root </dev/null 2>&1"),
      ).not.to.match(/^0$/m);
      expect(uid).not.to.equal("0");
      expect(await shell("id -G")).to.equal(`${uid}\n`);
    });

    it("is stopped by its limit of processes.", async () => {
      const bomb = "i=0; while [ $i -lt 200 ]; do sleep 2 & i=$((i+1)); done; echo all";
      expect(await shell(bomb)).to.match(/fork|Resource temporarily unavailable/i);
      expect(await victim.shell("echo alive")).to.equal("alive\n");
      await until(async () => (await processesWith(`${gateway.homes}/default.evil`)).length < 8);
    });

    it("is stopped by its limit of memory, and other servers go on.", async function () {
      const { server } = (await gateway.rest("GET /v1/enforce/mcp-servers/evil")) as unknown as {
        server: { protections: { kind: string; holds: boolean; detail: string }[] };
      };
      const memory = server.protections.find(({ kind }) => kind === "memory");
      if (memory?.holds !== true) {
        console.log(`      skipped: ${memory?.detail}`);
        return this.skip();
      }
      const own = await shellOf(gateway, "evil");
      // `tail` keeps what it will print.
      const filled = own.shell(`head -c ${4 * MEMORY_BYTES} /dev/zero | tail -c ${3 * MEMORY_BYTES} | wc -c`);
      expect(await filled.catch(String)).not.to.contain(String(3 * MEMORY_BYTES));
      expect(await victim.shell("echo alive")).to.equal("alive\n");
      await own.close().catch(() => undefined);
      await evil.close().catch(() => undefined);
      evil = await shellOf(gateway, "evil");
      shell = evil.shell;
      expect(await shell("head -c 1000000 /dev/zero | tail -c 900000 | wc -c")).to.equal("900000\n");
    });

    it("is a package that npx finds in its home, registered by `agentctl mcp add`.", async () => {
      const home = join(gateway.homes, "default.packaged");
      await installPackage(home, program.folder);
      if (account !== undefined) await promisify(execFile)("chown", ["-R", `${account.uid}:${account.gid}`, home]);
      const words = ["mcp", "add", "packaged", "--env", "npm_config_offline=OFFLINE", "--", "npx", "-y", "acp-shell"];
      const run = await agentctl(words, {
        AGENTCTL_URL: gateway.http,
        AGENTCTL_KEY: gateway.adminKey,
        OFFLINE: "true",
      });
      expect(run.stdout + run.stderr)
        .to.match(/^registered packaged +open +npx -y acp-shell\n/)
        .and.to.match(/tools +1 tool/);
      const packaged = await shellOf(gateway, "packaged");
      expect(await packaged.shell("echo from $HOME")).to.equal(`from ${home}\n`);
      await packaged.close();
    });

    it("does not outlive its session with a daemon.", async () => {
      const mark = `daemon-${Date.now()}`;
      const own = await shellOf(gateway, "evil");
      const daemon = `setsid $HOME/${mark} -c 'while :; do sleep 1; done' >/dev/null 2>&1 </dev/null &`;
      // The processes that its limit stopped may not be reaped yet.
      await until(async () => {
        await own.shell(`cp /bin/sh $HOME/${mark}; (${daemon})`);
        return (await commands()).some((each) => each.includes(mark));
      });
      await own.close();
      await evil.close();
      await until(async () => !(await commands()).some((each) => each.includes(mark)));
      evil = await shellOf(gateway, "evil");
      shell = evil.shell;
    });
  });
}

async function pidsOf(): Promise<readonly string[]> {
  return (await readdir("/proc")).filter((each) => /^\d+$/.test(each));
}

/** The command lines of all processes. */
async function commands(): Promise<string[]> {
  return Promise.all((await pidsOf()).map((pid) => readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "")));
}

/** The processes that work in a folder. */
async function processesWith(folder: string): Promise<readonly string[]> {
  const found = await Promise.all(
    (await pidsOf()).map(async (pid) => [pid, await readlink(`/proc/${pid}/cwd`).catch(() => "")] as const),
  );
  return found.filter(([, cwd]) => cwd === folder).map(([pid]) => pid);
}
