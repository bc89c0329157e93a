import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { describeWithPackages } from "../support/debian.ts";
import "../support/scratch.ts";

const UNITS = globSync(join(import.meta.dirname, "../../src/deploy/systemd/*.service"));
const PROGRAM = "/opt/agent-control-plane/node_modules/.bin/node";
/** Maximum exposure that `systemd-analyze security` may find, in tenths: from 0 to 100, and `OK` up to 49. */
const MAX_EXPOSURE = 35;

const analyze = promisify(execFile);

describeWithPackages("the units of systemd", ["systemd"], () => {
  let dir: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), "acp-units-"));
  });
  after(() => rm(dir, { recursive: true, force: true }));

  for (const unit of UNITS) {
    const name = basename(unit);

    it(`hold nothing that systemd does not know: ${name}.`, async () => {
      const copy = join(dir, name);
      const text = await readFile(unit, "utf8");
      expect(text).to.include(PROGRAM);
      await writeFile(copy, text.replaceAll(PROGRAM, process.execPath));
      const { stdout, stderr } = await analyze("systemd-analyze", ["verify", "--man=no", copy]);
      const lines = `${stdout}${stderr}`.split("\n").filter((line) => line.includes("agent-control-plane"));
      expect(lines).to.deep.equal([]);
    });

    it(`expose little: ${name}.`, async () => {
      await analyze("systemd-analyze", ["security", "--offline=true", `--threshold=${MAX_EXPOSURE}`, unit]);
    });
  }
});
