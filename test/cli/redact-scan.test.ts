import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { runAgentctl } from "../../src/cli/run.ts";

const TEXT = "plain\nmail jane.roe@corp-mail.org\n\n4111 1111 1111 1111";

async function scan(text: string, ...options: readonly string[]): Promise<{ code: number; output: string }> {
  const folder = await mkdtemp(join(tmpdir(), "acp-scan-"));
  let output = "";
  const keep = (piece: string): void => {
    output += piece;
  };
  try {
    const file = join(folder, "text.txt");
    await writeFile(file, text);
    const io = { env: {}, write: async (piece: string) => keep(piece), note: keep };
    return { code: await runAgentctl(["redact", "scan", file, ...options], io), output };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe("agentctl redact scan", () => {
  it("prints kinds and places, and never what stands there.", async () => {
    const { code, output } = await scan(TEXT);
    expect(code).to.equal(0);
    expect(output).to.equal("2:6 email 22\n4:1 payment_card 19\n2 found\n");
  });

  it("gives the same as JSON.", async () => {
    const { output } = await scan(TEXT, "--json");
    expect(JSON.parse(output).findings[1]).to.deep.equal({
      kind: "payment_card",
      line: 4,
      column: 1,
      start: 35,
      end: 54,
    });
    expect(output).not.to.include("jane");
  });

  it("finds nothing in what is not personal, and says so of a file that is not there.", async () => {
    expect((await scan("version 1.2.3 of nothing")).output).to.equal("0 found\n");
    let note = "";
    const io = {
      env: {},
      write: async () => undefined,
      note: (text: string) => {
        note += text;
      },
    };
    expect(await runAgentctl(["redact", "scan", "/nowhere/at/all"], io)).to.equal(2);
    expect(note).to.include("cannot be read (ENOENT)");
  });
});
