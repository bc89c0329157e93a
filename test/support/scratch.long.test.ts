import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { expect } from "chai";

/** Directories and processes of a run. */
interface Traces {
  readonly directories: readonly string[];
  readonly pids: readonly number[];
}

interface Run extends Traces {
  readonly child: ChildProcessByStdio<Writable, Readable, null>;
}

/** Starts a run whose usual temporary directory is `folder`. */
async function start(folder: string): Promise<Run> {
  const { DATABASE_URL_TEST: _, ...env } = process.env;
  const child = spawn(process.execPath, [join(import.meta.dirname, "scratch-child.ts")], {
    env: { ...env, TMPDIR: folder },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const [line] = await once(createInterface(child.stdout), "line");
  return { child, ...(JSON.parse(line) as Traces) };
}

async function end({ child }: Run, how: () => void): Promise<void> {
  const ended = once(child, "exit");
  how();
  await ended;
}

function leftOf({ directories, pids }: Traces): readonly (string | number)[] {
  const isThere = (pid: number) => existsSync(`/proc/${pid}/exe`);
  return [...directories.filter((directory) => existsSync(directory)), ...pids.filter(isThere)];
}

describe("the directories of a run", () => {
  let folder: string;

  before(async function () {
    // Elsewhere the processes of a run cannot be found.
    if (process.platform !== "linux") this.skip();
    folder = await mkdtemp(join(tmpdir(), "acp-scratch-"));
    await chmod(folder, 0o755);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("go with it, as do its processes.", async () => {
    const run = await start(folder);
    expect(leftOf(run)).to.have.length(4);
    await end(run, () => run.child.stdin.end());
    expect(leftOf(run)).to.deep.equal([]);
  });

  it("go with the next one if it was killed, and never while it lasts.", async () => {
    const killed = await start(folder);
    await end(killed, () => void killed.child.kill("SIGKILL"));
    expect(leftOf(killed)).not.to.deep.equal([]);
    const [first, second] = await Promise.all([start(folder), start(folder)]);
    expect(leftOf(killed)).to.deep.equal([]);
    await end(first, () => first.child.stdin.end());
    expect(leftOf(first)).to.deep.equal([]);
    expect(leftOf(second)).to.have.length(4);
    await end(second, () => second.child.stdin.end());
  });
});
