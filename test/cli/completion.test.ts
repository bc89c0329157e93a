import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { ROOT } from "../architecture/source-files.ts";
import { describeWithPackages } from "../support/debian.ts";
import { agentctl, createFolder, type Folder } from "./harness.ts";

const run = promisify(execFile);

/** The file that a shell reads when it starts, as the help of `agentctl completion` says. */
const START = {
  bash: ["PS1='$ '", 'eval "$(agentctl completion bash)"'],
  zsh: ["PS1='$ '", "autoload -U compinit && compinit -u -D", 'eval "$(agentctl completion zsh)"'],
} as const;
/** Keys that list what fits. */
const LIST = { bash: "\\t\\t", zsh: "\\t" } as const;

/** Keys as typed, with the command line that follows. */
const COMPLETED = [
  ["agentctl ke\\t", "agentctl keys "],
  ["agentctl keys cr\\t", "agentctl keys create "],
  ["agentctl keys create maria --ro\\t", "agentctl keys create maria --role "],
  ["agentctl mandate as\\twho\\t", "agentctl mandate ask who-may "],
  ["agentctl decisions list --js\\t", "agentctl decisions list --json "],
  ["agentctl vault verify --jwks /etc/hostn\\t", "agentctl vault verify --jwks /etc/hostname "],
  ["agentctl nonsense\\t", "agentctl nonsense"],
] as const;

describeWithPackages("the completion of agentctl on a terminal", ["zsh"], () => {
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
  });
  after(() => folder?.remove());

  /** Types into a shell that has the completion. Returns what it shows for each line. */
  async function typed(shell: keyof typeof START, lines: readonly string[]): Promise<readonly string[]> {
    const script = await folder.file("script", (await agentctl(["completion", shell])).stdout);
    const start = await folder.file("start", [`agentctl() { cat '${script}'; }`, ...START[shell], ""].join("\n"));
    const { stdout } = await run("zsh", ["-f", join(ROOT, "test/cli/type-in.zsh"), shell, start, ...lines]);
    return stdout.split(/(?<=>end)/).slice(0, lines.length);
  }

  for (const shell of ["bash", "zsh"] as const) {
    it(`completes words, commands, options and files in ${shell}.`, async () => {
      const shown = await typed(
        shell,
        COMPLETED.map(([keys]) => keys),
      );
      const lines = shown.map((text) => /line<(.*)>end/.exec(text)?.[1]);
      expect(lines).to.deep.equal(COMPLETED.map(([, line]) => line));
    });

    it(`lists what may come next in ${shell}, with its meaning where the shell shows it.`, async () => {
      const [shown] = await typed(shell, [`agentctl keys ${LIST[shell]}`]);
      expect(shown).to.match(/\bcreate\b.*\blist\b.*\brevoke\b.*line<agentctl keys >end/s);
      if (shell === "zsh") expect(shown).to.include("-- create an API key; its secret is shown this once");
    });
  }
});
