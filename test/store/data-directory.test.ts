import { chmod, chown, mkdir, mkdtemp, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { openDataDirectory } from "../../src/store/data-directory.ts";
import { removeAll } from "../support/database.ts";
import { startService } from "../support/service.ts";
import { NOBODY } from "./child.ts";

const isRoot = process.geteuid?.() === 0;
const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o7777;

describe("the data directory", () => {
  let home: string;
  let directory: string;
  let logged: string[];
  const log = {
    info: (_: object, message: string) => void logged.push(message),
    warn: (_: object, message: string) => void logged.push(`warning: ${message}`),
  };
  const open = (): Promise<void> => openDataDirectory(directory, log);

  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), "acp-data-"));
    directory = join(home, "deep", "data");
    logged = [];
  });
  afterEach(() => removeAll(home));

  for (const mask of [0o022, 0o077, 0o000, 0o777]) {
    it(`is created for its owner alone under the umask ${mask.toString(8)}.`, async () => {
      await mkdir(join(home, "deep"), { mode: 0o755 });
      const before = process.umask(mask);
      try {
        await open();
      } finally {
        process.umask(before);
      }
      expect(await modeOf(directory)).to.equal(0o700);
      expect(await modeOf(join(home, "deep"))).to.equal(0o755);
      expect(logged).to.deep.equal([]);
    });
  }

  for (const [what, names] of [
    ["an empty one", []],
    ["the top of a file system", ["lost+found"]],
    ["one with the service's keys", ["signing-key.pem", "notes.txt"]],
    ["one with the service's database", ["postgres", "postgresql-linux-x64-18.4.0"]],
  ] as const) {
    it(`is closed if it is wider: ${what}, which is said once.`, async () => {
      await mkdir(directory, { recursive: true });
      for (const name of names) await writeFile(join(directory, name), "");
      for (const mode of [0o755, 0o711, 0o770, 0o701, 0o2775]) {
        await chmod(directory, mode);
        logged = [];
        await open();
        expect(await modeOf(directory), mode.toString(8)).to.equal(0o700);
        await open();
        expect(logged).to.deep.equal(["the data directory is closed to other accounts from now on"]);
      }
      expect(await readdir(directory)).to.have.members([...names]);
    });
  }

  it("is not closed to those who keep files in it: it is refused, and what to do is said.", async () => {
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "somebody-else's"), "");
    await chmod(directory, 0o777);
    const error = await open().catch((each: unknown) => each);
    expect(error).to.be.instanceOf(ControlPlaneError);
    expect((error as ControlPlaneError).reason).to.equal(ErrorReason.STORE_UNAVAILABLE);
    expect((error as Error).message)
      .to.contain(directory)
      .and.contain("holds files of others: name an empty one in ACP_DATA_DIR, or close it with chmod 700");
    expect(await modeOf(directory)).to.equal(0o777);
    await chmod(directory, 0o700);
    await open();
  });

  it("is closed behind a symbolic link.", async () => {
    const real = join(home, "real");
    await mkdir(real, { mode: 0o755 });
    await mkdir(join(home, "deep"));
    await symlink(real, directory);
    await open();
    expect(await modeOf(real)).to.equal(0o700);
  });

  it("is used as it is with a warning if it belongs to another account.", async function () {
    if (!isRoot) this.skip();
    await mkdir(directory, { recursive: true });
    await chown(directory, 0, NOBODY.gid);
    await chmod(directory, 0o770);
    for (const each of [home, join(home, "deep")]) await chmod(each, 0o755);
    process.setegid?.(NOBODY.gid);
    process.seteuid?.(NOBODY.uid);
    try {
      await open();
    } finally {
      process.seteuid?.(0);
      process.setegid?.(0);
    }
    expect(logged.join()).to.contain("warning: other accounts may enter the data directory");
    expect(await modeOf(directory)).to.equal(0o770);
  });

  it("is closed by a start with a database elsewhere too.", async () => {
    await mkdir(directory, { recursive: true });
    await chmod(directory, 0o755);
    const service = await startService({ env: { ACP_DATA_DIR: directory } });
    await service.stop();
    expect(await modeOf(directory)).to.equal(0o700);
    for (const name of await readdir(directory)) expect(await modeOf(join(directory, name)), name).to.equal(0o600);
  });
});
