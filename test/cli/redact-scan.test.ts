import { expect } from "chai";
import { agentctl, createFolder, type Folder, type Run } from "./harness.ts";

const TEXT = "plain\nmail jane.roe@corp-mail.org\n\n4111 1111 1111 1111";

describe("agentctl redact scan", () => {
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
  });
  after(() => folder?.remove());

  const scan = async (text: string, ...options: readonly string[]): Promise<Run> =>
    agentctl(["redact", "scan", await folder.file("text.txt", text), ...options]);

  it("prints kinds and places, and never what stands there.", async () => {
    const { code, stdout } = await scan(TEXT);
    expect(code).to.equal(0);
    expect(stdout).to.equal("2:6 email 22\n4:1 payment_card 19\n2 found\n");
  });

  it("gives the same as JSON.", async () => {
    const { stdout } = await scan(TEXT, "--json");
    const want = { kind: "payment_card", line: 4, column: 1, start: 35, end: 54 };
    expect(JSON.parse(stdout).findings[1]).to.deep.equal(want);
    expect(stdout).not.to.include("jane");
  });

  it("finds nothing in what is not personal, and says so of a file that is not there.", async () => {
    expect((await scan("version 1.2.3 of nothing")).stdout).to.equal("0 found\n");
    const { code, stderr } = await agentctl(["redact", "scan", "/nowhere/at/all"]);
    expect(code).to.equal(2);
    expect(stderr).to.include("cannot be read (ENOENT)");
  });
});
