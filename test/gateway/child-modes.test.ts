import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { chmod, chown, link, lstat, mkdir, mkdtemp, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { closeHome, giveHome } from "../../src/gateway/child-homes.ts";
import { asking, connectStateful, type GatewayService, startGateway, startGatewayProcess } from "./harness.ts";
import { writeShellProgram } from "./shell-server.ts";
import { until } from "./until.ts";

const isRoot = process.geteuid?.() === 0;
/** Five accounts outside the default range: the host may be running other services, and these tests from another checkout. */
const FIRST = 62_000 + 5 * randomInt(500);
const LAST = FIRST + 4;
const ISOLATION = join(import.meta.dirname, "../../src/gateway/child-isolation.ts");

/** Prints the protections of a process, and what becomes of a command. */
const probe = (allowSameUser: boolean, folder: string): string => `
import { ChildIsolation } from ${JSON.stringify(ISOLATION)};
const isolation = new ChildIsolation({ uids: { from: 61000, to: 61511 }, allowSameUser: ${allowSameUser}, path: "/usr/bin:/bin",
  homes: ${JSON.stringify(join(folder, "homes"))}, folders: [], maxProcesses: 64, maxMemoryBytes: 2 ** 30,
  dataDir: ${JSON.stringify(join(folder, "data"))}, secretFiles: [] });
const server = { workspaceId: "default", name: "any", command: "true", args: [], env: {} };
const entered = await isolation.enter(server).then(() => "runs", (error) => error.message);
console.log(JSON.stringify({ entered, isolation: (await isolation.protections())[0] }));
`;

interface Probed {
  readonly entered: string;
  readonly isolation: { readonly holds: boolean; readonly detail: string };
}

/** Runs the probe as an account that is not root, with another file in the place of bubblewrap. */
async function withoutSandbox(instead: string, allowSameUser: boolean): Promise<Probed> {
  const folder = await mkdtemp(join(tmpdir(), "acp-modes-"));
  try {
    await chown(folder, 60_991, 60_991);
    const drop = "setpriv --reuid 60991 --regid 60991 --clear-groups";
    const script = `mount --bind ${instead} /usr/bin/bwrap && exec ${drop} "$@"`;
    const node = [process.execPath, "--input-type=module", "-e", probe(allowSameUser, folder)];
    const { stdout } = await promisify(execFile)("unshare", ["-m", "sh", "-c", script, "sh", ...node], { cwd: "/" });
    return JSON.parse(stdout) as Probed;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe("commands of a service that cannot isolate them", () => {
  before(function () {
    if (!isRoot) this.skip();
  });

  it("are refused without bubblewrap, by an error that names both ways.", async () => {
    const { entered, isolation } = await withoutSandbox("/dev/null", false);
    expect(entered).to.contain("install bubblewrap").and.to.contain("ACP_MCP_ALLOW_SAME_USER=true");
    expect(isolation.holds).to.equal(false);
  });

  it("are refused in words of its own when the kernel forbids the sandbox.", async () => {
    const { entered } = await withoutSandbox("/bin/false", false);
    expect(entered)
      .to.contain("`bwrap` is installed but cannot isolate it")
      .and.to.contain("ACP_MCP_ALLOW_SAME_USER=true");
  });

  it("run as its own user if that is allowed, and the status says that nothing isolates them.", async () => {
    const { entered, isolation } = await withoutSandbox("/dev/null", true);
    expect(entered).to.equal("runs");
    expect(isolation.holds).to.equal(false);
    expect(isolation.detail).to.contain("the service's own user");
  });
});

describe("accounts of running servers", () => {
  before(function () {
    if (!isRoot) this.skip();
  });

  it("differ between two services on one host, and from every account that the host names.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const program = await writeShellProgram();
    cleanup.defer(() => program.remove());
    const uidIn = async (gateway: GatewayService): Promise<number> => {
      await gateway.add("same", program.command);
      const client = await connectStateful(gateway.urlOf("same"), gateway.headers);
      const params = { name: "sh", arguments: { text: "id -u" } };
      const result = (await asking(client).request({ method: "tools/call", params })) as {
        content: { text: string }[];
      };
      return Number(result.content[0]?.text);
    };
    const env = { ACP_MCP_UIDS: `${FIRST}-${LAST - 1}` };
    const uids: number[] = [];
    for (const start of [startGateway, startGatewayProcess]) {
      const gateway = await start({ env });
      cleanup.defer(async () => void (await gateway.stop()));
      uids.push(await uidIn(gateway));
      const { server } = (await gateway.rest("GET /v1/enforce/mcp-servers/same")) as unknown as {
        server: { protections: { kind: string; holds: boolean }[] };
      };
      const held = new Map(server.protections.map(({ kind, holds }) => [kind, holds]));
      expect([...held.keys()]).to.deep.equal(["isolation", "privileges", "processes", "memory"]);
      expect(held.get("isolation")).to.equal(true);
    }
    expect(new Set(uids).size).to.equal(2);
    for (const uid of uids) expect(uid).to.be.within(FIRST, LAST - 1);
  });

  it("are taken back from a service that was killed: what it left behind ends, and its home closes.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const program = await writeShellProgram();
    cleanup.defer(() => program.remove());
    const homes = await mkdtemp(join(tmpdir(), "acp-homes-"));
    cleanup.defer(() => rm(homes, { recursive: true, force: true }));
    await chmod(homes, 0o711);
    const env = { ACP_MCP_UIDS: `${LAST}-${LAST}`, ACP_MCP_HOMES: homes };
    const shellOf = async (gateway: GatewayService, server: string) => {
      const client = asking(await connectStateful(gateway.urlOf(server), gateway.headers));
      return async (text: string): Promise<string> => {
        const params = { name: "sh", arguments: { text } };
        const { content } = (await client.request({ method: "tools/call", params })) as { content: { text: string }[] };
        return content[0]?.text ?? "";
      };
    };
    const killed = await startGatewayProcess({ env });
    await killed.add("left", program.command);
    const left = await shellOf(killed, "left");
    const daemon = await left("setsid sleep 4711 >/dev/null 2>&1 </dev/null & echo $!; echo secret > $HOME/secret");
    const isRunning = () =>
      stat(`/proc/${daemon.trim()}`).then(
        ({ uid }) => uid === LAST,
        () => false,
      );
    expect([await left("id -u"), await isRunning()]).to.deep.equal([`${LAST}\n`, true]);
    await killed.kill();
    expect(await isRunning(), "the daemon outlives the service").to.equal(true);
    const next = await startGateway({ env });
    cleanup.defer(async () => void (await next.stop()));
    await next.add("next", program.command);
    // The only account is free again, as soon as the host has counted off its processes.
    let shell: Awaited<ReturnType<typeof shellOf>> | undefined;
    await until(async () => {
      shell = await shellOf(next, "next").catch(() => undefined);
      return shell !== undefined;
    });
    expect(await isRunning()).to.equal(false);
    expect(await shell?.("id -u")).to.equal(`${LAST}\n`);
    expect(await shell?.(`cat ${homes}/default.left/secret`)).to.contain("Permission denied");
    expect(await stat(join(homes, "default.left"))).to.include({ uid: 0, gid: LAST });
    await killed.database.drop();
  });

  it("get what the last account of a home owned there, and nothing that links lead to.", async () => {
    const folder = await mkdtemp(join(tmpdir(), "acp-home-"));
    try {
      await chmod(folder, 0o755);
      const [home, outside] = [join(folder, "home"), join(folder, "outside")];
      await writeFile(outside, "root's");
      await giveHome(home, 61_500);
      await mkdir(join(home, "d"));
      await writeFile(join(home, "d/own"), "");
      for (const path of ["d", "d/own"]) await chown(join(home, path), 61_500, 61_500);
      await symlink(outside, join(home, "d/link"));
      await symlink(folder, join(home, "up"));
      await link(outside, join(home, "d/hard"));
      await closeHome(home);
      expect(await stat(home)).to.include({ uid: 0 });
      await giveHome(home, 61_501);
      for (const path of ["", "d", "d/own"]) expect((await lstat(join(home, path))).uid, path).to.equal(61_501);
      for (const path of [outside, folder]) expect((await stat(path)).uid).to.equal(0);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
