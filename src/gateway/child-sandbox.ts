import { execFile } from "node:child_process";
import { access, constants, readdir, realpath, stat } from "node:fs/promises";
import { release } from "node:os";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { promisify } from "node:util";

/** A folder that a command in a sandbox may read, or write too. */
export interface SandboxFolder {
  readonly path: string;
  readonly isWritable: boolean;
}

/** Settings of a sandbox. */
export interface SandboxOptions {
  readonly home: string;
  /** Folders whose content the command does not see, unless `folders` names it. */
  readonly hidden: readonly string[];
  /** Files, and folders with everything in them, that it never sees. */
  readonly closed: readonly string[];
  /** Folders that it may read although they lie in hidden ones, or may write. */
  readonly folders: readonly SandboxFolder[];
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
 * home and the writable folders can be written, other processes are invisible, and the network is the host's.
 */
export async function sandboxSetup(options: SandboxOptions): Promise<string> {
  const { home, environment } = options;
  const args = [
    ...ISOLATION,
    ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"],
    ...(await mounts(options)),
    ...["--dir", "/tmp", "--bind", home, home, "--chdir", home],
    ...Object.entries(environment).flatMap(([name, value]) => ["--setenv", name, value]),
  ];
  return `${args.join("\0")}\0`;
}

/** Returns the options that hide and show files and folders, a folder before those in it: the innermost one decides. */
async function mounts({ hidden, closed, folders }: SandboxOptions): Promise<readonly string[]> {
  const covered = await existing(hidden.filter((folder) => folder !== "/"));
  const never = await existing(closed.filter((folder) => folder !== "/"));
  const writable = await existing(folders.filter(({ isWritable }) => isWritable).map(({ path }) => path));
  const readable = await existing([...folders.map(({ path }) => path), RESOLVER]);
  const places = new Map<string, readonly string[]>();
  for (const path of covered) places.set(path, await hiding(path));
  for (const path of readable) {
    const isNeeded = [...covered, ...writable].some((folder) => isWithin(path, folder));
    if (isNeeded) places.set(path, ["--ro-bind", path, path]);
  }
  for (const path of writable) places.set(path, ["--bind", path, path]);
  for (const path of [...places.keys()])
    if (never.some((folder) => folder !== path && isWithin(path, folder))) places.delete(path);
  for (const path of never) places.set(path, await hiding(path));
  return [...places].sort(([one], [other]) => (one < other ? -1 : 1)).flatMap(([, mount]) => mount);
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
