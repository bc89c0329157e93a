import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { findProgram, type SandboxFolder, sandboxFault, sandboxSetup } from "../../src/gateway/child-sandbox.ts";

describe("the sandbox of a command", () => {
  let bwrap: string;
  let folder: string;
  const at = (path: string): string => join(folder, path);

  before(async function () {
    bwrap = (await findProgram("bwrap")) ?? "";
    if (bwrap === "" || (await sandboxFault(bwrap)) !== undefined) this.skip();
  });
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-sandbox-"));
    for (const path of ["home", "files/own", "files/closed", "docs"]) await mkdir(at(path), { recursive: true });
    for (const path of ["files/a", "files/own/a", "files/closed/a", "files/key", "docs/a"])
      await writeFile(at(path), path);
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  /** Runs a shell command in a sandbox that hides the folder of the test; gives what it prints. */
  async function run(command: string, folders: readonly SandboxFolder[], closed: readonly string[] = []) {
    const setup = await sandboxSetup({ home: at("home"), hidden: [tmpdir()], closed, folders, environment: {} });
    const child = spawn(bwrap, ["--args", "3", "--", "/bin/sh", "-c", command], {
      stdio: ["ignore", "pipe", "pipe", "pipe"],
      env: { PATH: "/usr/bin:/bin" },
    });
    (child.stdio[3] as NodeJS.WritableStream).end(setup);
    const [output, errors] = await Promise.all([text(child.stdout as never), text(child.stderr as never)]);
    return output + errors;
  }
  const shown = (path: string, isWritable = false): SandboxFolder => ({ path: at(path), isWritable });

  it("hides a hidden folder but for what is named, which is read-only without more.", async () => {
    const printed = await run(`ls ${folder}; cat ${at("docs/a")}; echo x > ${at("docs/b")}`, [shown("docs")]);
    expect(printed).to.match(/^docs\nhome\ndocs\/a.*Read-only file system/);
  });

  it("lets the command write to a writable folder, and to nothing beside it.", async () => {
    const command = `echo x > ${at("files/b")} && mkdir ${at("files/d")}; echo x > ${at("docs/b")}; echo x > ${at("b")}`;
    await run(command, [shown("files", true), shown("docs")]);
    expect(await readFile(at("files/b"), "utf8")).to.equal("x\n");
    expect((await stat(at("files/d"))).isDirectory()).to.equal(true);
    for (const path of ["docs/b", "b"]) expect(await stat(at(path)).catch(() => undefined), path).to.equal(undefined);
  });

  it("keeps a folder read-only that lies in a writable one, and the other way round.", async () => {
    const written = (path: string) =>
      stat(at(path)).then(
        () => true,
        () => false,
      );
    const command = `echo x > ${at("files/b")}; echo x > ${at("files/own/b")}`;
    await run(command, [shown("files/own"), shown("files", true)]);
    expect([await written("files/b"), await written("files/own/b")]).to.deep.equal([true, false]);
    await rm(at("files/b"));
    await run(command, [shown("files"), shown("files/own", true)]);
    expect([await written("files/b"), await written("files/own/b")]).to.deep.equal([false, true]);
  });

  it("never shows what is closed, also in a folder that is shown, or when it is named itself.", async () => {
    const closed = [at("files/closed"), at("files/key")];
    for (const isWritable of [false, true]) {
      const folders = [
        shown("files", isWritable),
        shown("files/closed", isWritable),
        shown("files/closed/a", isWritable),
      ];
      const printed = await run(
        `cat ${at("files/a")}; echo; ls -A ${at("files/closed")}; cat ${at("files/key")}; echo x > ${at("files/closed/a")}`,
        folders,
        closed,
      );
      // What the shell says of a file that is closed is no content of it.
      expect(printed, String(isWritable)).to.match(/^files\/a\n(cat: .*\n)?$/);
      expect(await readFile(at("files/closed/a"), "utf8")).to.equal("files/closed/a");
      expect(await readFile(at("files/key"), "utf8")).to.equal("files/key");
    }
  });
});
