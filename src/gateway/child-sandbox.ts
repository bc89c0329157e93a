import { execFile } from "node:child_process";
import { access, constants, readdir, realpath, stat } from "node:fs/promises";
import { release } from "node:os";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { promisify } from "node:util";

/** Settings of a sandbox. */
export interface SandboxOptions {
  readonly home: string;
  /** Files, and folders with everything in them, that the command must not see. */
  readonly hidden: readonly string[];
  /** Folders that it may read although they lie in hidden ones. */
  readonly readable: readonly string[];
  /** Variables of the command, which inherits no other. */
  readonly environment: Readonly<Record<string, string>>;
}

/** Folders for temporary files, and for sockets of programs that run commands for the same account: tmux, D-Bus, systemd. */
export const SHARED_FOLDERS = ["/tmp", "/var/tmp", "/run", "/var/run", "/home", "/root"];
const RESOLVER = "/etc/resolv.conf";
const PROBE_MS = 10_000;
/** First kernel that counts the processes of a user namespace by themselves. */
const COUNTED_SINCE = [5, 14] as const;

/** Options of every sandbox. */
const ISOLATION = [
  "--unshare-user",
  "--unshare-pid",
  "--unshare-ipc",
  "--unshare-uts",
  "--unshare-cgroup-try",
  "--die-with-parent",
  "--new-session",
];

/** Finds a program in the folders of the system. */
export async function findProgram(name: string): Promise<string | undefined> {
  for (const folder of ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"]) {
    const path = join(folder, name);
    const isFound = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isFound) return path;
  }
  return undefined;
}

/** Tries a sandbox. Resolves with the reason if the kernel forbids it; undefined if it works. */
export async function sandboxFault(bwrap: string): Promise<string | undefined> {
  const args = [...ISOLATION, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"];
  try {
    await promisify(execFile)(bwrap, args, { env: { PATH: "/usr/bin:/bin" }, cwd: "/", timeout: PROBE_MS });
    return undefined;
  } catch (error) {
    const { stderr = "", message } = error as Error & { stderr?: string };
    return (stderr.trim().split("\n").at(-1) || message).replace(/^bwrap: /, "");
  }
}

/** True if a limit of processes inside of a sandbox counts those of the sandbox alone. */
export function countsSandboxProcesses(): boolean {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  return major > COUNTED_SINCE[0] || (major === COUNTED_SINCE[0] && minor >= COUNTED_SINCE[1]);
}

/**
 * Returns the text that bubblewrap reads as its options: everything of the host is readable but for the hidden folders, only the
 * home is writable, other processes are invisible, and the network is the host's.
 */
export async function sandboxSetup({ home, hidden, readable, environment }: SandboxOptions): Promise<string> {
  const covered = await existing(hidden.filter((folder) => folder !== "/"));
  const resolver = await realpath(RESOLVER).catch(() => undefined);
  const shown = [...(await existing(readable)), ...(resolver === undefined ? [] : [resolver])];
  const args = [
    ...ISOLATION,
    ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"],
    ...(await Promise.all(covered.map(hiding))).flat(),
    ...shown
      .filter((path) => covered.some((folder) => isWithin(path, folder)))
      .flatMap((path) => ["--ro-bind", path, path]),
    ...["--dir", "/tmp", "--bind", home, home, "--chdir", home],
    ...Object.entries(environment).flatMap(([name, value]) => ["--setenv", name, value]),
  ];
  return `${args.join("\0")}\0`;
}

/** Returns the options that hide a file or a folder. */
async function hiding(path: string): Promise<readonly string[]> {
  return (await stat(path)).isDirectory() ? ["--tmpfs", path] : ["--ro-bind", "/dev/null", path];
}

/**
 * Returns the folders of a search path, each with the rest of its installation if it belongs to a Node.js whose programs are
 * links into it.
 */
export async function programFolders(path: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (const folder of path.split(":").filter(isAbsolute)) {
    const installation = dirname(folder);
    const isNode = (await readdir(join(installation, "lib/node_modules/npm")).catch(() => [])).length > 0;
    found.push(isNode ? installation : folder);
  }
  return found;
}

/** True for a path in a folder, or the folder itself. */
export function isWithin(path: string, folder: string): boolean {
  const way = relative(resolve(folder), resolve(path));
  return way === "" || (!way.startsWith("..") && !isAbsolute(way));
}

/** Returns the real paths of what exists, without repetition, a folder before those in it. */
async function existing(paths: readonly string[]): Promise<readonly string[]> {
  const real = await Promise.all(paths.map((path) => realpath(path).catch(() => undefined)));
  return [...new Set(real.filter((path) => path !== undefined))].sort();
}
