import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { COMMANDS } from "../../src/cli/run.ts";
import { ROOT } from "../architecture/source-files.ts";
import { agentctl } from "./harness.ts";

const run = promisify(execFile);

describe("agentctl as a program", () => {
  it("prints the version of package.json.", async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect((await agentctl(["--version"])).stdout).to.equal(`agentctl ${version}\n`);
  });

  it("lists its commands, those of one word, and the options of one.", async () => {
    const { code, stdout } = await agentctl(["help"]);
    expect(code).to.equal(0);
    for (const { name } of COMMANDS) expect(stdout).to.include(name.split(" ")[0]);
    for (const line of stdout.split("\n")) expect(line.length, line).to.be.at.most(140);
    expect((await agentctl(["help", "keys"])).stdout).to.include("agentctl keys create <name>");
    expect((await agentctl(["help", "keys", "create"])).stdout).to.include("--secret-file");
    expect((await agentctl(["keys", "create", "--help"])).stdout).to.include("--secret-file");
    const unknown = await agentctl(["help", "kyes"]);
    expect([unknown.code, unknown.stdout]).to.deep.equal([2, ""]);
  });

  const TYPOS: readonly (readonly [typed: string, meant: string])[] = [
    ["agnets list", "agents list"],
    ["escalations aprove", "escalations approve"],
    ["vualt verify", "vault verify"],
    ["kes list", "keys list"],
  ];
  for (const [typed, meant] of TYPOS) {
    it(`proposes \`${meant}\` for \`${typed}\`.`, async () => {
      const { code, stdout, stderr } = await agentctl([...typed.split(" "), "something"]);
      expect([code, stdout]).to.deep.equal([2, ""]);
      expect(stderr).to.equal(`agentctl: no such command; did you mean \`agentctl ${meant}\`?\n`);
    });
  }

  it("lists what a word has, when the second word is far from all.", async () => {
    const { code, stderr } = await agentctl(["keys", "frobnicate"]);
    expect(code).to.equal(2);
    expect(stderr).to.include("keys revoke").and.not.include("webhooks");
  });

  it("gives every command a name of its own.", () => {
    expect(new Set(COMMANDS.map(({ name }) => name)).size).to.equal(COMMANDS.length);
  });

  /** What bash proposes after these words. */
  async function proposed(...words: readonly string[]): Promise<readonly string[]> {
    const { stdout: script } = await agentctl(["completion", "bash"]);
    const typed = words.map((word) => `'${word}'`).join(" ");
    const line = `${script}\nCOMP_WORDS=(agentctl ${typed}); COMP_CWORD=${words.length}; _agentctl; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await run("bash", ["--norc", "-euc", line]);
    return stdout.split("\n").filter((word) => word !== "");
  }

  it("completes words, commands and options in bash.", async () => {
    expect(await proposed("ag")).to.deep.equal(["agents"]);
    expect(await proposed("keys", "")).to.have.members(["list", "create", "revoke"]);
    expect(await proposed("mandate", "ask", "")).to.include("who-may");
    expect(await proposed("keys", "create", "name", "--ro")).to.deep.equal(["--role"]);
    expect(await proposed("vault", "verify", "--jwks", "")).to.deep.equal([]);
  });

  it("prints a completion that zsh can read, and refuses other shells.", async () => {
    const { stdout } = await agentctl(["completion", "zsh"]);
    expect(stdout)
      .to.match(/^#compdef agentctl\n/)
      .and.include("'create:create an API key; its secret is shown this once'");
    const quotes = stdout.replaceAll("'\\''", "").split("'").length - 1;
    expect(quotes % 2).to.equal(0);
    expect((await agentctl(["completion", "fish"])).code).to.equal(2);
  });
});
