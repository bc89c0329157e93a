import { execFile } from "node:child_process";
import { glob } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { MemoryGroups } from "../../src/gateway/child-limits.ts";

const SOURCE = join(import.meta.dirname, "../../src/gateway/child-limits.ts");

/** Creates a group in a process that ends without removing it. Gives the id of the process, and how many groups it saw of its own. */
async function createAndDie(): Promise<readonly [pid: string, groups: number]> {
  const program = `import { readdir } from "node:fs/promises";
import { MemoryGroups } from ${JSON.stringify(SOURCE)};
await new MemoryGroups(1048576).create();
const names = await readdir("/sys/fs/cgroup", { recursive: true });
console.log(process.pid, names.filter((name) => name.includes("mcp-" + process.pid + "-")).length);
process.kill(process.pid, "SIGKILL");`;
  const args = ["--input-type=module-typescript", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, args).catch((error) => error as { stdout: string });
  const [pid = "", groups] = stdout.trim().split(" ");
  return [pid, Number(groups)];
}

/** Names of the groups that a process created. */
async function groupsOf(pid: string): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const path of glob(`/sys/fs/cgroup/**/mcp-${pid}-*`)) names.push(basename(path));
  return names;
}

describe("the memory of MCP servers that are commands", () => {
  it("has a group for each, beside those that another service left under the same process id.", async function () {
    const groups = Array.from({ length: 2 }, () => new MemoryGroups(1_048_576));
    if (!(await groups[0]?.status())?.holds) this.skip();
    const created = [];
    for (const each of groups) created.push(await each.create());
    try {
      expect(created).not.to.include(undefined);
    } finally {
      for (const group of created) await group?.remove();
    }
  });

  it("leaves no group behind after the next start, when a service was killed.", async function () {
    const groups = new MemoryGroups(1_048_576);
    if (!(await groups.status()).holds) this.skip();
    const [pid, left] = await createAndDie();
    expect(left).to.be.above(0);
    await new MemoryGroups(1_048_576).status();
    expect(await groupsOf(pid)).to.deep.equal([]);
  });
});
