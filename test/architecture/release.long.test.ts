import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { ROOT } from "./source-files.ts";

const run = promisify(execFile);

describe("npm run release", () => {
  let work: string;
  let clone: string;
  before(async () => {
    work = await mkdtemp(join(tmpdir(), "acp-release-"));
    clone = join(work, "clone");
    await run("git", ["clone", "-q", ROOT, clone]);
    // The script of this checkout, which may not be committed yet.
    await writeFile(join(clone, ".ci/release.js"), await readFile(join(ROOT, ".ci/release.js")));
    await symlink(join(ROOT, "node_modules"), join(clone, "node_modules"));
    await git("tag", "--list").then((tags) => (tags === "" ? undefined : git("tag", "--delete", ...tags.split("\n"))));
    await commit("the script");
  });
  after(() => rm(work, { recursive: true, force: true }));

  const identity = ["-c", "user.name=Releaser", "-c", "user.email=releaser@example.com"];
  const git = async (...args: readonly string[]): Promise<string> =>
    (await run("git", [...identity, ...args], { cwd: clone })).stdout.trim();
  async function commit(message: string): Promise<void> {
    await git("add", "--all");
    await git("commit", "--quiet", "--allow-empty", "--message", message);
  }
  async function release(...args: readonly string[]): Promise<{ code: number; text: string }> {
    const env = { ...process.env, GIT_COMMITTER_NAME: "Releaser", GIT_COMMITTER_EMAIL: "releaser@example.com" };
    return run(process.execPath, [".ci/release.js", ...args], { cwd: clone, env }).then(
      ({ stdout }) => ({ code: 0, text: stdout }),
      ({ code, stdout }: { code: number; stdout: string }) => ({ code, text: stdout }),
    );
  }

  it("tells in a dry run what is missing, and tags nothing.", async () => {
    await writeFile(join(clone, "left-over.txt"), "");
    const { code, text } = await release("--dry-run");
    expect(code, text).to.equal(0);
    expect(text).to.match(/^release +v\d+\.\d+\.\d+ of [0-9a-f]+$/m);
    expect(text).to.match(/^SBOM +\d{2,} packages, CycloneDX 1\.\d/m);
    expect(text).to.match(/^interface +keeps what was released/m);
    expect(text).to.include("CHANGELOG.md still says Unreleased").and.to.include("the tree has changes");
    expect(await git("tag", "--list")).to.equal("");
    await rm(join(clone, "left-over.txt"));
  });

  it("refuses to tag before the changelog has the version, and tags a clean tree once.", async () => {
    const early = await release();
    expect(early.code, early.text).to.equal(1);
    const path = join(clone, "CHANGELOG.md");
    const { version } = JSON.parse(await readFile(join(clone, "package.json"), "utf8")) as { version: string };
    await writeFile(path, (await readFile(path, "utf8")).replace("## Unreleased", `## ${version}`));
    expect((await release()).text).to.include("the tree has changes");
    expect(await git("tag", "--list")).to.equal("");
    await commit(`release ${version}`);
    const made = await release();
    expect(made.code, made.text).to.equal(0);
    expect(await git("tag", "--list")).to.equal(`v${version}`);
    expect(await git("cat-file", "-p", `v${version}`)).to.include("### Deciding");
    const bill = JSON.parse(await readFile(join(clone, `.generated/sbom-${version}.cdx.json`), "utf8")) as {
      bomFormat: string;
    };
    expect(bill.bomFormat).to.equal("CycloneDX");
    const again = await release();
    expect([again.code, again.text.includes(`v${version} exists`)]).to.deep.equal([1, true]);
  });
});
