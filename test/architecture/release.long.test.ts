import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { ROOT } from "./source-files.ts";

const run = promisify(execFile);
const PROTO = "proto/agentcontrol/v1/enforcement_service.proto";

describe("npm run release", () => {
  let work: string;
  let clone: string;
  before(async () => {
    work = await mkdtemp(join(tmpdir(), "acp-release-"));
    clone = join(work, "clone");
    await run("git", ["clone", "-q", ROOT, clone]);
    // The scripts of this checkout, which may not be committed yet.
    for (const path of [".ci/release.js", "proto/breaking.ts"]) {
      await writeFile(join(clone, path), await readFile(join(ROOT, path)));
    }
    await symlink(join(ROOT, "node_modules"), join(clone, "node_modules"));
    await git("tag", "--list").then((tags) => (tags === "" ? undefined : git("tag", "--delete", ...tags.split("\n"))));
    await commit("the script");
  });
  after(() => rm(work, { recursive: true, force: true }));

  const identity = ["-c", "user.name=Releaser", "-c", "user.email=releaser@example.com"];
  const git = async (...args: readonly string[]): Promise<string> =>
    (await run("git", [...identity, ...args], { cwd: clone })).stdout.trim();
  const manifest = async (): Promise<{ version: string }> =>
    JSON.parse(await readFile(join(clone, "package.json"), "utf8")) as { version: string };
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

  /** Everything that a dry run must leave as it is: files of the tree, tags, branches and worktrees. */
  const treeOf = async (): Promise<string> =>
    (
      await Promise.all(
        [
          ["status", "--porcelain", "--ignored"],
          ["show-ref", "--head"],
          ["worktree", "list"],
        ].map((args) => git(...args)),
      )
    ).join();

  it("makes the release in a copy in a dry run, tells what is missing, and changes nothing.", async () => {
    await writeFile(join(clone, "left-over.txt"), "");
    const before = await treeOf();
    const { code, text } = await release("--dry-run");
    expect(code, text).to.equal(0);
    expect(await treeOf()).to.equal(before);
    const { version } = await manifest();
    expect(text).to.match(/^release +v\d+\.\d+\.\d+ of [0-9a-f]+$/m);
    expect(text).to.match(/^SBOM +\d{2,} packages, CycloneDX 1\.\d/m);
    expect(text).to.match(/^interface +keeps what was released$/m);
    expect(text).to.match(/^changelog +\d+ changes under Unreleased: Deciding \d+, /m);
    expect(text)
      .to.include("CHANGELOG.md still says Unreleased")
      .and.to.include("the tree has changes, which are left out");
    expect(text).to.match(/^commit +CHANGELOG\.md +\| +2 \+-$/m);
    const changelog = await readFile(join(clone, "CHANGELOG.md"), "utf8");
    const section = changelog.split(/^## .*$/m)[1]?.trim() ?? "";
    expect(text).to.include(`\ntag v${version}\n`).and.to.include(`\n\nv${version}\n\n${section}`);
    expect(text.trimEnd().split("\n").at(-1)).to.equal(`would tag v${version}`);
    await rm(join(clone, "left-over.txt"));
  });

  it("renews the interface in a dry run, and tells what it gained and would lose.", async () => {
    const before = await readFile(join(clone, PROTO), "utf8");
    expect(await release("--dry-run").then(({ text }) => text)).not.to.include("purpose_of_test");
    await commit("before");
    // Otherwise the list of what came since the last release may be cut before this field.
    await run(process.execPath, ["proto/print-validate.ts"], { cwd: clone });
    await run(process.execPath, ["proto/breaking.ts", "renew"], { cwd: clone });
    await commit("renewed");
    await writeFile(
      join(clone, PROTO),
      before.replace(/^message InterceptRequest \{$/m, "$&\n  // Test.\n  string purpose_of_test = 900;"),
    );
    await commit("a field");
    const gained = (await release("--dry-run")).text;
    expect(gained).to.match(/^baseline +\+\d+ -0 since the stored one$/m);
    expect(gained).to.include("+ field   InterceptRequest.purpose_of_test = 900");
    expect(gained).to.match(/^interface +keeps what was released$/m);
    expect(gained).to.match(/^commit +test\/testdata\/interface\/descriptors\.binpb +\| /m);
    await writeFile(join(clone, PROTO), before.replace(/^ {2}optional string request_id = 10 .*$/m, ""));
    await commit("a field less");
    const lost = await release("--dry-run");
    expect(lost.text).to.match(/^interface +BREAKS what was released$/m);
    expect(lost.text).to.include("- field   InterceptRequest.request_id = 10").and.to.include("not ready");
    await git("reset", "--quiet", "--hard", "HEAD~3");
  });

  it("refuses to tag before the changelog has the version, and tags a clean tree once.", async () => {
    const early = await release();
    expect(early.code, early.text).to.equal(1);
    expect(early.text).to.include("run npm run release:interface");
    const path = join(clone, "CHANGELOG.md");
    const { version } = await manifest();
    await run(process.execPath, ["proto/breaking.ts", "renew"], { cwd: clone });
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
