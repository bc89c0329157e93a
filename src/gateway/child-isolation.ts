import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import type { McpServer } from "../registry/mcp-servers.ts";
import { type AccountLease, ChildAccounts, ownerOf, type UidRange } from "./child-account.ts";
import { closeHome, giveHome, impassableFolder, lastAccount, makeHomesFolder, makeOwnHome } from "./child-homes.ts";
import { type MemoryGroup, MemoryGroups } from "./child-limits.ts";
import type { ChildLaunch } from "./child-process.ts";
import {
  countsSandboxProcesses,
  findProgram,
  programFolders,
  type SandboxFolder,
  SHARED_FOLDERS,
  sandboxFault,
  sandboxSetup,
} from "./child-sandbox.ts";
import { upstreamUnavailable } from "./endpoint.ts";

/** Settings of the processes that serve MCP as commands. */
export interface ChildSettings {
  /** Accounts for running servers, if this process is root. */
  readonly uids: UidRange;
  /** Runs commands as this process's own account where nothing isolates them. */
  readonly allowSameUser: boolean;
  /** Folder of the servers' homes, outside of the data directory. */
  readonly homes: string;
  /** Search path of commands. */
  readonly path: string;
  /** Folders that commands in a sandbox may read although they lie in hidden ones, or may write. */
  readonly folders: readonly SandboxFolder[];
  readonly maxProcesses: number;
  readonly maxMemoryBytes: number;
  readonly dataDir: string;
  /** Files with secrets of the service outside of `dataDir`. */
  readonly secretFiles: readonly string[];
}

/** Kinds of protection of a command. */
export type ProtectionKind = "isolation" | "privileges" | "processes" | "memory";

/** State of a protection of the commands of this process. */
export interface Protection {
  readonly kind: ProtectionKind;
  readonly holds: boolean;
  /** One sentence without its full stop. */
  readonly detail: string;
}

/** A running server's place: the account, the home and the limits that its processes share. */
export interface ChildPlace {
  /** Returns what starts another process of the server. */
  launch(): Promise<ChildLaunch>;
  /** Leaves the place. After the last process has left, every process of its account is killed. MUST NOT reject. */
  leave(): Promise<void>;
}

/** How commands are kept apart here. */
type Mode =
  | { readonly kind: "account"; readonly range: UidRange }
  | { readonly kind: "sandbox"; readonly bwrap: string }
  | { readonly kind: "same user" }
  /** `why` completes "is a command, and …". */
  | { readonly kind: "refused"; readonly why: string };

/** A place that is in use. */
interface Place {
  readonly opened: Promise<OpenPlace>;
  users: number;
}

interface OpenPlace {
  readonly home: string;
  readonly lease: AccountLease | undefined;
  readonly memory: MemoryGroup | undefined;
}

const LEASES = "/run/agent-control-plane/mcp-uids";
/** Homes of one server that processes of the service on one host use at once. */
const MAX_HOMES = 128;
const CAP_CHOWN = 0;
const CAP_KILL = 5;
const CAP_SETGID = 6;
const CAP_SETUID = 7;
/** Reads the command's environment from descriptor 3 and becomes the command. */
const BEGIN = 'eval "$(/bin/cat <&3)"; exec 3<&-; exec "$@"';
const ALLOW = "ACP_MCP_ALLOW_SAME_USER=true";

/** Isolates the processes of commands from the service and from each other. */
export class ChildIsolation {
  readonly #settings: ChildSettings;
  readonly #memory: MemoryGroups;
  readonly #accounts: ChildAccounts;
  readonly #homes: string;
  readonly #places = new Map<string, Place>();
  #found: Promise<Mode> | undefined;
  #recovered: Promise<void> | undefined;

  constructor(settings: ChildSettings) {
    const { uids, dataDir, maxMemoryBytes } = settings;
    this.#settings = settings;
    this.#memory = new MemoryGroups(maxMemoryBytes);
    this.#homes = resolve(settings.homes);
    this.#accounts = new ChildAccounts({
      range: uids,
      leases: LEASES,
      // The embedded database runs as the owner of its directory.
      except: async () => (await Promise.all([dataDir, join(dataDir, "postgres/data")].map(ownerOf))).flat(),
      closeHome: (home) => closeHome(home).catch(() => undefined),
    });
  }

  /** Says which protections hold for commands. */
  async protections(): Promise<readonly Protection[]> {
    const mode = await this.#mode();
    const memory = await this.#memory.status();
    const limits = { privileges: await this.#privileges(mode), processes: await this.#processes(mode), memory };
    const isolation = isolationOf(mode);
    return [
      { kind: "isolation", ...isolation },
      ...(["privileges", "processes", "memory"] as const).map((kind) => ({ kind, ...limits[kind] })),
    ];
  }

  /** Enters the place of a server, which is made ready for the first of its processes. Rejects with MCP_UPSTREAM_UNAVAILABLE. */
  async enter(server: McpServer): Promise<ChildPlace> {
    const key = `${server.workspaceId}.${server.name}`;
    const place = this.#places.get(key) ?? { opened: this.#open(server, key), users: 0 };
    this.#places.set(key, place);
    place.users += 1;
    let hasLeft = false;
    const leave = async (): Promise<void> => {
      if (hasLeft) return;
      hasLeft = true;
      place.users -= 1;
      if (place.users > 0) return;
      if (this.#places.get(key) === place) this.#places.delete(key);
      const opened = await place.opened.catch(() => undefined);
      await opened?.lease?.release();
      await opened?.memory?.remove();
    };
    try {
      const opened = await place.opened;
      return { launch: () => this.#launch(server, opened), leave };
    } catch (error) {
      await leave();
      throw error;
    }
  }

  async #open({ name }: McpServer, key: string): Promise<OpenPlace> {
    const mode = await this.#mode();
    if (mode.kind === "refused") throw upstreamUnavailable(name, `is a command, and ${mode.why}`);
    const home = join(this.#homes, key);
    try {
      await makeHomesFolder(this.#homes);
      const memory = await this.#memory.create();
      if (mode.kind !== "account") {
        await makeOwnHome(home);
        return { home, lease: undefined, memory };
      }
      const impassable = await impassableFolder(this.#homes);
      if (impassable !== undefined)
        throw upstreamUnavailable(
          name,
          `has no home: let other accounts pass \`${impassable}\` (chmod o+x), or set ACP_MCP_HOMES`,
        );
      this.#recovered ??= this.#accounts.recover();
      await this.#recovered;
      const lease = await this.#accounts.lease(homesOf(home), await lastAccount(home));
      if (lease === undefined)
        throw upstreamUnavailable(name, "cannot start: every account of `ACP_MCP_UIDS` is in use");
      await giveHome(lease.home, lease.uid).catch(async (error: unknown) => {
        await lease.release();
        throw error;
      });
      return { home: lease.home, lease, memory };
    } catch (error) {
      if (error instanceof Error && error.name === "ControlPlaneError") throw error;
      throw upstreamUnavailable(name, `has no home in \`${this.#homes}\`; check ACP_MCP_HOMES`, error);
    }
  }

  async #launch({ command, args, env }: McpServer, { home, lease, memory }: OpenPlace): Promise<ChildLaunch> {
    const { path, maxProcesses, dataDir, secretFiles, folders } = this.#settings;
    const mode = await this.#mode();
    const environment = { PATH: path, HOME: home, LANG: "C.UTF-8", ...env };
    const target = [command ?? "", ...args];
    const limit = (await this.#processes(mode)).holds
      ? [await prlimit(), `--nproc=${maxProcesses}:${maxProcesses}`]
      : [];
    const rest = { cwd: home, onSpawned: (pid: number) => memory?.add(pid) };
    if (mode.kind === "sandbox") {
      const programs = (await programFolders(path)).map((each) => ({ path: each, isWritable: false }));
      const setup = await sandboxSetup({
        home,
        hidden: [...SHARED_FOLDERS, homedir()],
        closed: [dataDir, this.#homes, ...secretFiles],
        folders: [...programs, ...folders],
        environment,
      });
      return {
        program: mode.bwrap,
        args: ["--args", "3", "--", ...limit, ...target],
        account: undefined,
        setup,
        ...rest,
      };
    }
    const setpriv = await findProgram("setpriv");
    const guard = setpriv === undefined ? [] : [setpriv, "--no-new-privs", "--pdeathsig", "KILL"];
    const [program = "", ...more] = [...guard, ...limit, "/bin/sh", "-c", BEGIN, "sh", ...target];
    const account = lease === undefined ? undefined : { uid: lease.uid, gid: lease.uid };
    return { program, args: more, account, setup: exports(environment), ...rest };
  }

  #mode(): Promise<Mode> {
    this.#found ??= this.#findMode();
    return this.#found;
  }

  async #findMode(): Promise<Mode> {
    const { uids, allowSameUser } = this.#settings;
    let root = "";
    if (process.geteuid?.() === 0) {
      const range = await usableRange(uids);
      if (typeof range !== "string") return { kind: "account", range };
      root = `${range}; `;
    }
    const bwrap = await findProgram("bwrap");
    const fault = bwrap === undefined ? undefined : await sandboxFault(bwrap);
    if (bwrap !== undefined && fault === undefined) return { kind: "sandbox", bwrap };
    if (allowSameUser) return { kind: "same user" };
    const missing =
      bwrap === undefined
        ? `nothing here isolates it from the service: install bubblewrap (the program \`bwrap\`), or set ${ALLOW}`
        : `\`bwrap\` is installed but cannot isolate it (${fault}): allow user namespaces to this account, or set ${ALLOW}`;
    return { kind: "refused", why: `${root}${missing} to run commands as the service's own user` };
  }

  async #privileges(mode: Mode) {
    if (mode.kind === "refused") return refused;
    if (mode.kind === "sandbox" || (await findProgram("setpriv")) !== undefined)
      return { holds: true, detail: "a setuid program gains nothing (no_new_privs)" };
    return { holds: false, detail: "`setpriv` of util-linux is not installed" };
  }

  async #processes(mode: Mode) {
    if (mode.kind === "refused") return refused;
    if ((await findProgram("prlimit")) === undefined)
      return { holds: false, detail: "`prlimit` of util-linux is not installed" };
    if (mode.kind === "same user")
      return { holds: false, detail: "a limit would count the service's own processes (RLIMIT_NPROC)" };
    if (mode.kind === "sandbox" && !countsSandboxProcesses())
      return { holds: false, detail: "this kernel counts the service's own processes too; it needs Linux 5.14" };
    const per = mode.kind === "account" ? "server" : "process of a server";
    return { holds: true, detail: `a ${per} has at most ${this.#settings.maxProcesses} processes and threads` };
  }
}

const refused = { holds: false, detail: "no command runs here" };

function isolationOf(mode: Mode) {
  if (mode.kind === "account") {
    const { from, to } = mode.range;
    return { holds: true, detail: `each running server has an account of its own out of ${from}-${to}` };
  }
  if (mode.kind === "sandbox")
    return { holds: true, detail: "each process of a server is in a sandbox of its own (bwrap)" };
  if (mode.kind === "refused") return { holds: false, detail: `commands are refused: ${mode.why}` };
  return { holds: false, detail: `commands run as the service's own user and can read all that it can (${ALLOW})` };
}

/** Returns the part of a range to which this process may change; the reason if it may not. */
async function usableRange({ from, to }: UidRange): Promise<UidRange | string> {
  const status = await readFile("/proc/self/status", "utf8").catch(() => "");
  const [, capabilities = "0"] = /^CapEff:\s+([0-9a-f]+)$/m.exec(status) ?? [];
  const held = BigInt(`0x${capabilities}`);
  const needed = [CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID];
  if (needed.some((capability) => ((held >> BigInt(capability)) & 1n) === 0n))
    return "root lacks one of CAP_CHOWN, CAP_KILL, CAP_SETGID and CAP_SETUID here";
  const maps = await Promise.all(["uid_map", "gid_map"].map((file) => readFile(`/proc/self/${file}`, "utf8")));
  const areMapped = maps.every((map) =>
    map
      .trim()
      .split("\n")
      .some((line) => covers(line, from, to)),
  );
  return areMapped ? { from, to } : `the accounts ${from}-${to} of ACP_MCP_UIDS do not exist in this container`;
}

/** Tests whether a line of a map of ids has a whole range. */
function covers(line: string, from: number, to: number): boolean {
  const [first = 0, , count = 0] = line.trim().split(/\s+/).map(Number);
  return first <= from && to < first + count;
}

/** Returns the homes of a server: the first, and those for further processes of the service on this host. */
function* homesOf(home: string): Iterable<string> {
  yield home;
  for (let next = 2; next <= MAX_HOMES; next++) yield `${home}.${next}`;
}

const prlimit = async (): Promise<string> => (await findProgram("prlimit")) ?? "prlimit";

/** Writes variables as commands of a shell. */
function exports(environment: Readonly<Record<string, string>>): string {
  return Object.entries(environment)
    .map(([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'\n`)
    .join("");
}
