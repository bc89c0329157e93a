import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { agentctl, createFolder, type Folder } from "../cli/harness.ts";
import { APPROVED, KEY, KEYED, TAMPERINGS, UNTOUCHED } from "./tampering.ts";

const run = promisify(execFile);
const VERIFIER = join(import.meta.dirname, "verify_bundle.py");

/** Runs the verifier in Python on bundles. Returns one line for each. */
async function pythonSays(...argv: readonly string[]): Promise<string[]> {
  const { stdout } = await run("python3", [VERIFIER, ...argv]).catch((error: { code?: unknown; stdout: string }) => {
    // Exit code 1 says that something was refused; anything else is a fault of the test.
    if (error.code === 1) return error;
    throw error;
  });
  return stdout.trimEnd().split("\n");
}

describe("bundles", () => {
  let folder: Folder;
  let pinned: string;
  let untouched: string[];
  let tampered: string[];

  before(async () => {
    folder = await createFolder();
    pinned = await folder.file("key.pem", KEY.publicPem);
    untouched = await Promise.all(UNTOUCHED.map((text, at) => folder.file(`untouched-${at}`, text)));
    tampered = await Promise.all(TAMPERINGS.map(({ text }, at) => folder.file(`tampered-${at}`, text)));
  });
  after(() => folder?.remove());

  it("verify by their own keys and by the one that is pinned, with agentctl.", async () => {
    for (const path of untouched) {
      for (const [source, ...more] of [["bundle"], ["pinned", "--public-key", pinned]]) {
        const { code, json, stdout } = await agentctl(["vault", "verify", path, "--json", ...more]);
        expect(code, stdout).to.equal(0);
        expect(json()).to.include({ verified: true, key_source: source, tree_size: 13 });
      }
    }
  });

  it("verify with a second verifier, in Python without any library.", async () => {
    expect(await pythonSays(...untouched)).to.deep.equal(["verified 13", "verified 1"]);
    expect(await pythonSays("--public-key", pinned, ...untouched)).to.deep.equal(["verified 13", "verified 1"]);
  });

  it("verify when the log seals its signing key, with both verifiers.", async () => {
    const paths = await Promise.all(KEYED.map((text, at) => folder.file(`keyed-${at}`, text)));
    for (const path of paths) {
      const { code, stdout } = await agentctl(["vault", "verify", path, "--public-key", pinned]);
      expect(code, stdout).to.equal(0);
    }
    expect(await pythonSays("--public-key", pinned, ...paths)).to.deep.equal([
      "verified 4",
      "verified 5",
      "verified 5",
    ]);
  });

  for (const [what, text] of APPROVED) {
    it(`verify when an escalation was approved by ${what}, with both verifiers.`, async () => {
      const path = await folder.file("approved", text);
      const { code, stdout } = await agentctl(["vault", "verify", path, "--public-key", pinned]);
      expect(code, stdout).to.equal(0);
      expect(await pythonSays("--public-key", pinned, path)).to.deep.equal(["verified 13"]);
    });
  }

  it("tell the demand that an approval does not meet, and who counts twice.", async () => {
    const refusalOf = async (what: string): Promise<string> => {
      const at = TAMPERINGS.findIndex((each) => each.what === `a log that ${what}`);
      return (await agentctl(["vault", "verify", tampered[at] ?? "", "--public-key", pinned])).stdout;
    };
    expect(await refusalOf("approves with one of two people")).to.include(
      "entry 8 approves escalation `esc_1`, and 1 of its approvals meet the demand of `rules[0]` of mandate `mnd_1`: 2 of `finance`",
    );
    expect(await refusalOf("counts the asker")).to.match(/entry 9 .*asked for the action or edited it/);
    expect(await refusalOf("counts one person by two keys")).to.match(/entry 9 .*counts one party twice/);
  });

  for (const [at, { what, fault, index }] of TAMPERINGS.entries()) {
    it(`are refused by agentctl: ${what}.`, async () => {
      const path = tampered[at] ?? "";
      const { code, json, stdout } = await agentctl(["vault", "verify", path, "--public-key", pinned, "--json"]);
      expect(code, stdout).to.equal(1);
      expect(json()).to.include({ verified: false, fault, index });
    });
  }

  it("are refused by the second verifier, each with the same fault at the same entry.", async () => {
    const want = TAMPERINGS.map(({ fault, index }) => `refused ${fault} ${index ?? "-"}`);
    const said = await pythonSays("--public-key", pinned, ...tampered);
    expect(said.map((line, at) => `${line}: ${TAMPERINGS[at]?.what}`)).to.deep.equal(
      want.map((line, at) => `${line}: ${TAMPERINGS[at]?.what}`),
    );
  });
});
