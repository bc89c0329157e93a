import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { ROOT } from "../architecture/source-files.ts";
import { startService, type TestService } from "../support/service.ts";

const run = promisify(execFile);
const NPM = ["--no-audit", "--no-fund", "--loglevel=error"] as const;

describe("agentctl, installed from the package", function () {
  this.timeout(600_000);
  let work: string;
  let service: TestService;
  before(async () => {
    work = await mkdtemp(join(tmpdir(), "acp-installed-"));
    await run("npm", ["run", "--silent", "build"], { cwd: ROOT });
    const { stdout } = await run("npm", ["pack", "--silent", "--pack-destination", work, ...NPM], { cwd: ROOT });
    const tarball = join(work, stdout.trim().split("\n").at(-1) ?? "");
    const prefix = join(work, "prefix");
    await run("npm", ["install", "--global", "--prefix", prefix, "--prefer-offline", tarball, ...NPM], { cwd: work });
    await mkdir(join(work, "empty"));
    service = await startService();
  });
  after(async () => {
    await service?.stop();
    await rm(work, { recursive: true, force: true });
  });

  const agentctl = (...args: readonly string[]) =>
    run(join(work, "prefix/bin/agentctl"), args, {
      cwd: join(work, "empty"),
      env: { PATH: process.env.PATH, AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey },
    });

  it("says its version in an empty directory.", async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect((await agentctl("--version")).stdout).to.equal(`agentctl ${version}\n`);
  });

  it("lists, changes and verifies at a running service.", async () => {
    await agentctl("agents", "create", "clerk");
    expect((await agentctl("agents", "list")).stdout).to.match(/^ID .*\nagt_\S+ +clerk +active/);
    expect((await agentctl("vault", "verify")).stdout).to.match(/^VERIFIED: /);
    expect((await agentctl("help", "backup")).stdout).to.include("backup check");
  });
});
