import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect } from "chai";
import { describeWithPackages, PYTHON } from "../../support/debian.ts";

describeWithPackages("the generator of the blocking client in Python", ["python3"], () => {
  it("leaves out what is asynchronous, and stops where a word of it would be left.", async () => {
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
    const args = ["-m", "unittest", "test_write_blocking"];
    const { stderr } = await promisify(execFile)(PYTHON, args, { env, cwd: import.meta.dirname });
    expect(stderr).to.match(/^OK$/m);
  });
});
