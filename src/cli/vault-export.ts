import { logBundleHead, logBundleLine } from "./bundle.ts";
import { type Command, CommandError } from "./command.ts";
import { writeOutput } from "./output.ts";
import { trustFrom } from "./trust.ts";
import { createVaultServer } from "./vault-server.ts";
import { verifyCheckpoint } from "./verify/index.ts";

/** `agentctl vault export`: the whole log as a bundle. */
export const vaultExport: Command = {
  name: "vault export",
  arguments: "",
  summary: "write the whole log of the service as a log bundle",
  details: [
    "",
    "The bundle is the log as it is when the export begins; others may append meanwhile. The checkpoint's signature is",
    "verified, the entries are written as the service gives them: `agentctl vault verify` says what they are worth.",
  ],
  options: ["url", "key", "out", "public-key", "jwks"],
  async run(input) {
    const server = createVaultServer(input);
    const { keys } = await trustFrom(input, "service", () => server.publicKeys());
    const { note, treeSize, origin, key } = verifyCheckpoint(await server.checkpoint(), keys);
    const out = input.option("out");
    let written = 0;
    await writeOutput(out, input.io, async (write) => {
      await write(logBundleHead(note, [key]));
      for await (const entry of server.entries(treeSize)) {
        await write(logBundleLine(entry));
        written += 1;
      }
      if (written < treeSize) throw new CommandError(`the service gave ${written} of ${treeSize} entries`);
    });
    return {
      lines: [`wrote ${written} entries of ${origin} to ${out ?? "standard output"}`],
      json: { entries: written, origin, out: out ?? null },
      isOutputTaken: out === undefined,
    };
  },
};
