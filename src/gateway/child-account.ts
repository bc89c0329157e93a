import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { link, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Turns } from "../async/turns.ts";

/** A range of user ids, bounds included. */
export interface UidRange {
  readonly from: number;
  readonly to: number;
}

/** An account that no other process of the host uses while the lease is held. Its group id is its user id. */
export interface AccountLease {
  readonly uid: number;
  /** Folder that the owner of the lease uses alone. */
  readonly home: string;
  /** Kills every process of the account and returns it. MUST NOT reject. */
  release(): Promise<void>;
}

/** Settings of `ChildAccounts`. */
export interface ChildAccountsOptions {
  readonly range: UidRange;
  /** Folder of the lease files: one for all services of a host, closed to other accounts. */
  readonly leases: string;
  /** Accounts that are never leased beside those of `/etc/passwd`: the owner of the data directory. */
  readonly except: () => Promise<readonly number[]>;
  /** Closes a home when its lease ends, after the account's processes have ended. */
  readonly closeHome: (home: string) => Promise<void>;
}

/** Owner of a lease, as its file names it. */
interface Owner {
  readonly pid: number;
  /** Ticks between the start of the host and of the process: with `boot`, a process id names one process for ever. */
  readonly started: string;
  readonly boot: string;
  readonly home: string;
}

/** Attempts to end the processes of an account, and milliseconds between them. */
const KILL_ROUNDS = 40;
const KILL_PAUSE_MS = 25;
/** Position of the start time in `/proc/PID/stat`, counted after the name of the program. */
const STARTED = 19;

/** Leases accounts to running servers. An account is in one lease at a time on the whole host. For root. */
export class ChildAccounts {
  readonly #options: ChildAccountsOptions;
  #boot: string | undefined;
  /** Serialises the leases of this process. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: ChildAccountsOptions) {
    this.#options = options;
  }

  /**
   * Leases an account with the first of `homes` that no other lease uses: `preferred` if it is free. Resolves with undefined if
   * every account is in use.
   */
  lease(homes: Iterable<string>, preferred: number | undefined): Promise<AccountLease | undefined> {
    const leased = this.#last.then(() => this.#lease(homes, preferred));
    this.#last = leased.catch(() => undefined);
    return leased;
  }

  async #lease(homes: Iterable<string>, preferred: number | undefined): Promise<AccountLease | undefined> {
    const { range, leases, except } = this.#options;
    await mkdir(leases, { recursive: true, mode: 0o700 });
    const busy = await this.#busyHomes();
    const home = [...homes].find((each) => !busy.has(each));
    if (home === undefined) return undefined;
    const taken = new Set([...(await accountsOfHost()), ...(await except())]);
    const running = await countedUids();
    const count = range.to - range.from + 1;
    const isInRange = preferred !== undefined && preferred >= range.from && preferred <= range.to;
    const first = isInRange ? preferred : range.from + (hash(home) % count);
    for (let offset = 0; offset < count; offset++) {
      const uid = range.from + ((first - range.from + offset) % count);
      if (!taken.has(uid) && (await this.#take(uid, home, running))) {
        return { uid, home, release: () => this.#release(uid, home) };
      }
    }
    return undefined;
  }

  /** Ends the processes that a service left behind when it was killed, and returns their accounts. */
  async recover(): Promise<void> {
    const { leases } = this.#options;
    const names = await readdir(leases).catch(() => []);
    for (const name of names) if (/^\d+$/.test(name)) await this.#takeOver(Number(name), undefined);
  }

  async #busyHomes(): Promise<ReadonlySet<string>> {
    const { leases } = this.#options;
    const homes = new Set<string>();
    for (const name of await readdir(leases)) {
      const owner = /^\d+$/.test(name) ? await ownerFrom(join(leases, name)) : undefined;
      if (owner !== undefined && (await this.#isAlive(owner))) homes.add(owner.home);
    }
    return homes;
  }

  async #take(uid: number, home: string, running: ReadonlySet<number>): Promise<boolean> {
    const file = join(this.#options.leases, String(uid));
    const owner = await this.#self(home);
    if ((await ownerFrom(file)) !== undefined) return this.#takeOver(uid, owner);
    // A process that no lease explains belongs to somebody else.
    return !running.has(uid) && (await create(file, owner));
  }

  /**
   * Takes over the lease of an owner that is gone, after its processes were killed; with `owner` undefined the account becomes
   * free. The file beside the lease lets one process at a time do so. Resolves with false if the owner is alive.
   */
  async #takeOver(uid: number, owner: Owner | undefined): Promise<boolean> {
    const file = join(this.#options.leases, String(uid));
    const taking = `${file}.taking`;
    if (await this.#hasOwner(file)) return false;
    if (!(await create(taking, await this.#self("")))) return false;
    try {
      const before = await ownerFrom(file);
      // Without a file the account is free, and may be leased at this moment.
      if (before === undefined || (await this.#isAlive(before))) return false;
      if (!(await killAccount(uid))) return false;
      if (before.home !== "") await this.#options.closeHome(before.home);
      await rm(file, { force: true });
      return owner !== undefined && (await create(file, owner));
    } finally {
      await rm(taking, { force: true });
    }
  }

  async #hasOwner(file: string): Promise<boolean> {
    const owner = await ownerFrom(file);
    return owner !== undefined && (await this.#isAlive(owner));
  }

  async #release(uid: number, home: string): Promise<void> {
    try {
      // An account with a process that cannot be killed stays leased.
      if (!(await killAccount(uid))) return;
      await this.#options.closeHome(home);
      await rm(join(this.#options.leases, String(uid)), { force: true });
    } catch {
      // The lease stays until this process has ended.
    }
  }

  async #self(home: string): Promise<Owner> {
    const { pid } = process;
    return { pid, started: (await startOf(pid)) ?? "", boot: await this.#bootId(), home };
  }

  async #isAlive({ pid, started, boot }: Owner): Promise<boolean> {
    return boot === (await this.#bootId()) && (await startOf(pid)) === started;
  }

  async #bootId(): Promise<string> {
    this.#boot ??= (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
    return this.#boot;
  }
}

/** Kills every process of an account. Resolves with false if one is left. */
export async function killAccount(uid: number): Promise<boolean> {
  for (let round = 0; round < KILL_ROUNDS; round++) {
    if ((await processesOf(uid)).length === 0) return true;
    // One system call for all of them: a process that forks cannot slip through.
    const killer = spawn("/bin/sh", ["-c", "kill -9 -1"], { uid, gid: uid, cwd: "/", env: {}, stdio: "ignore" });
    await once(killer, "exit").catch(() => undefined);
    if (round === 0) continue;
    // The account's own processes may have killed that one.
    for (const pid of await processesOf(uid)) killIfRunning(pid);
    await delay(KILL_PAUSE_MS);
  }
  return (await processesOf(uid)).length === 0;
}

function killIfRunning(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

interface HostProcess {
  readonly pid: number;
  /** Real, effective, saved and file system user id. */
  readonly uids: readonly number[];
  /** True for a process that has ended and is still counted, because its parent has not asked for its exit code. */
  readonly hasEnded: boolean;
}

async function processesOf(uid: number): Promise<readonly number[]> {
  const found = await processes();
  return found.filter(({ uids, hasEnded }) => !hasEnded && uids.includes(uid)).map(({ pid }) => pid);
}

async function countedUids(): Promise<ReadonlySet<number>> {
  return new Set((await processes()).flatMap(({ uids }) => uids));
}

/** Lists the processes of the host. */
async function processes(): Promise<readonly HostProcess[]> {
  const names = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found: HostProcess[] = [];
  const turns = new Turns();
  for (const name of names) {
    await turns.giveWay();
    const status = statusOf(name);
    const hasEnded = /^State:\s+[ZX]/m.test(status);
    const [, uids] = /^Uid:\s+(.+)$/m.exec(status) ?? [];
    if (uids !== undefined) found.push({ pid: Number(name), uids: uids.split(/\s+/).map(Number), hasEnded });
  }
  return found;
}

/** Reads the status of a process; empty if it is gone. The kernel answers from memory, faster than a thread could be asked. */
function statusOf(name: string): string {
  try {
    return readFileSync(`/proc/${name}/status`, "latin1");
  } catch {
    return "";
  }
}

/** Returns the start time of a process; undefined if it has ended. */
async function startOf(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" ? undefined : fields[STARTED];
}

/** Returns the ids of the users and groups that the host names. */
async function accountsOfHost(): Promise<readonly number[]> {
  const lines = async (file: string) => (await readFile(file, "utf8").catch(() => "")).split("\n");
  const users = (await lines("/etc/passwd")).flatMap((line) => line.split(":").slice(2, 4));
  const groups = (await lines("/etc/group")).flatMap((line) => line.split(":").slice(2, 3));
  return [...users, ...groups].map(Number);
}

/** Creates a file with its content at once. Resolves with false if it exists. */
async function create(file: string, owner: Owner): Promise<boolean> {
  const temporary = `${file}.${randomUUID()}`;
  await writeFile(temporary, JSON.stringify(owner), { flag: "wx", mode: 0o600 });
  try {
    await link(temporary, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

/** Reads a lease; undefined if there is no file. */
async function ownerFrom(file: string): Promise<Owner | undefined> {
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as Owner;
  } catch {
    // Cut off when the host failed: its owner is gone.
    return { pid: 0, started: "", boot: "", home: "" };
  }
}

/** Spreads homes over the range, so that a server usually gets the account that it had. */
function hash(text: string): number {
  let value = 0;
  for (const each of text) value = (value * 31 + (each.codePointAt(0) ?? 0)) % 2_147_483_647;
  return value;
}

/** Returns the owner of a file or folder; an empty list if it does not exist. */
export async function ownerOf(path: string): Promise<readonly number[]> {
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? [] : [found.uid];
}
