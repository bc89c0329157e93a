import { randomUUID } from "node:crypto";
import { constants, existsSync, writeFileSync } from "node:fs";
import { access, mkdir, readdir, readFile, rmdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** Name of a group, with the id of the process that created it. */
const LEFT = /^mcp-(\d+)-/;

/** Memory that processes share, as a control group of the kernel. */
export interface MemoryGroup {
  /** Puts a process into the group. */
  add(pid: number): void;
  /** Removes the group once its processes have ended. MUST NOT reject. */
  remove(): Promise<void>;
}

/** State of a limit, in words that continue a list. */
export interface LimitStatus {
  readonly holds: boolean;
  readonly detail: string;
}

/** Folder in which groups are created, and the names of its files. */
interface Controller {
  readonly folder: string;
  readonly limitFile: string;
  /** Files that keep the memory out of swap space, with their values. */
  readonly noSwap: readonly (readonly [file: string, value: (bytes: number) => string])[];
}

const V2: Omit<Controller, "folder"> = { limitFile: "memory.max", noSwap: [["memory.swap.max", () => "0"]] };
const V1: Omit<Controller, "folder"> = {
  limitFile: "memory.limit_in_bytes",
  noSwap: [["memory.memsw.limit_in_bytes", String]],
};
const REMOVE_ROUNDS = 20;
const REMOVE_PAUSE_MS = 50;

/** Creates groups that bound memory, if this process may. */
export class MemoryGroups {
  readonly #maxBytes: number;
  #controller: Promise<Controller | string> | undefined;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Says whether memory is bounded. */
  async status(): Promise<LimitStatus> {
    const controller = await this.#find();
    if (typeof controller === "string") return { holds: false, detail: controller };
    const mebibytes = Math.floor(this.#maxBytes / 1_048_576);
    return { holds: true, detail: `a server and its processes have at most ${mebibytes} MiB of memory` };
  }

  /** Creates a group; undefined if memory cannot be bounded here. */
  async create(): Promise<MemoryGroup | undefined> {
    const controller = await this.#find();
    if (typeof controller === "string") return undefined;
    // A process of the same id may have ended without removing its groups.
    const group = join(controller.folder, `mcp-${process.pid}-${randomUUID()}`);
    await mkdir(group);
    await writeFile(join(group, controller.limitFile), String(this.#maxBytes));
    for (const [file, value] of controller.noSwap) {
      // Kernels without swap accounting lack the file.
      await writeFile(join(group, file), value(this.#maxBytes)).catch(() => undefined);
    }
    return {
      add: (pid) => writeFileSync(join(group, "cgroup.procs"), String(pid)),
      remove: () => removeGroup(group),
    };
  }

  #find(): Promise<Controller | string> {
    this.#controller ??= this.#begin().catch((error: Error) => `memory is not bounded: ${error.message}`);
    return this.#controller;
  }

  async #begin(): Promise<Controller | string> {
    const controller = await findController();
    if (typeof controller !== "string") await removeLeft(controller.folder);
    return controller;
  }
}

/** Removes the groups that ended services left behind. The kernel keeps a group that has processes. */
async function removeLeft(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const pid = LEFT.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) await rmdir(join(folder, name)).catch(() => undefined);
  }
}

async function removeGroup(group: string): Promise<void> {
  for (let round = 0; round < REMOVE_ROUNDS; round++) {
    const isGone = await rmdir(group).then(
      () => true,
      ({ code }: NodeJS.ErrnoException) => code === "ENOENT",
    );
    if (isGone) return;
    await delay(REMOVE_PAUSE_MS);
  }
}

/** Finds the folder for groups. Resolves with the reason if there is none. */
async function findController(): Promise<Controller | string> {
  if (process.platform !== "linux") return "memory is not bounded: this system has no control groups";
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").map(mountFrom);
  const own = (await readFile("/proc/self/cgroup", "utf8")).split("\n");
  const [, v1Path] = own.map((line) => /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/.exec(line)).find(Boolean) ?? [];
  if (v1Path !== undefined) {
    const mount = mounts.find(({ type, options }) => type === "cgroup" && options.includes("memory"));
    const folder = mount === undefined ? undefined : folderIn(mount, v1Path);
    if (folder === undefined || !(await isWritable(folder)))
      return "memory is not bounded: its control group is read-only";
    return { folder, ...V1 };
  }
  const [, v2Path] = own.map((line) => /^0::(.*)$/.exec(line)).find(Boolean) ?? [];
  const mount = mounts.find(({ type }) => type === "cgroup2");
  if (mount === undefined || v2Path === undefined) return "memory is not bounded: no control groups are mounted";
  return delegatedFolder(folderIn(mount, v2Path), v2Path);
}

/** Returns this process's group once it hands the control of memory to groups below it. */
async function delegatedFolder(folder: string, path: string): Promise<Controller | string> {
  const controllers = await readFile(join(folder, "cgroup.controllers"), "utf8");
  if (!controllers.split(/\s/).includes("memory")) return "memory is not bounded: its controller is not enabled";
  if (!(await isWritable(folder)) || !(await isWritable(join(folder, "cgroup.procs"))))
    return "memory is not bounded: the control group is read-only";
  // A session of a person's login, for instance, belongs to systemd.
  const isOwn = path === "/" || path.endsWith(".service") || (await stat(folder)).uid !== 0;
  if (!isOwn) return "memory is not bounded: the control group is not the service's own";
  const control = join(folder, "cgroup.subtree_control");
  const enable = () => writeFile(control, "+memory");
  try {
    await enable();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
    // A group hands control down only when its own processes have moved into a group below it.
    const service = join(folder, "service");
    await mkdir(service).catch(() => undefined);
    for (const pid of (await readFile(join(folder, "cgroup.procs"), "utf8")).trim().split("\n"))
      await writeFile(join(service, "cgroup.procs"), pid).catch(() => undefined);
    await enable();
  }
  return { folder, ...V2 };
}

interface Mount {
  readonly root: string;
  readonly point: string;
  readonly type: string;
  readonly options: readonly string[];
}

/** Reads a line of `/proc/self/mountinfo`. */
function mountFrom(line: string): Mount {
  const [before = "", after = ""] = line.split(" - ");
  const [, , , root = "", point = ""] = before.split(" ");
  const [type = "", , options = ""] = after.split(" ");
  return { root, point, type, options: options.split(",") };
}

/** Returns the folder of a group, which the mount may show from a group below the top. */
function folderIn({ root, point }: Mount, path: string): string {
  const shown = root !== "/" && path.startsWith(root) ? path.slice(root.length) : path;
  return join(point, shown);
}

const isWritable = (path: string): Promise<boolean> =>
  access(path, constants.W_OK).then(
    () => true,
    () => false,
  );
