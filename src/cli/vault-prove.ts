import { decisionBundleText } from "./bundle.ts";
import type { Command } from "./command.ts";
import { writeOutput } from "./output.ts";
import { trustFrom } from "./trust.ts";
import { createVaultServer } from "./vault-server.ts";
import { VerificationError, verifyCheckpoint, verifyDecision } from "./verify/index.ts";

/** `agentctl vault prove`: one decision as a bundle that verifies by itself. */
export const vaultProve: Command = {
  name: "vault prove",
  arguments: "<decision>",
  summary: "write a decision with its proof as a decision bundle",
  details: ["", "The bundle is verified before it is written. Whoever has it needs nothing else to verify it."],
  options: ["url", "key", "out", "public-key", "jwks"],
  async run(input) {
    const [decisionId = ""] = input.positionals;
    const server = createVaultServer(input);
    const { keys } = await trustFrom(input, "service", () => server.publicKeys());
    const { index, body } = await server.decision(decisionId);
    const checkpoint = verifyCheckpoint(await server.checkpoint(), keys);
    const proof = { body, leafIndex: index, auditPath: await server.auditPath(index, checkpoint.treeSize) };
    const members = verifyDecision(proof, checkpoint);
    if (members.decision_id !== decisionId) {
      throw new VerificationError("contradiction", `the service gave another decision than \`${decisionId}\``, index);
    }
    const out = input.option("out");
    await writeOutput(out, input.io, (write) => write(decisionBundleText(proof, checkpoint.note, [checkpoint.key])));
    return {
      lines: [`wrote decision ${decisionId}, entry ${index} of ${checkpoint.origin}, to ${out ?? "standard output"}`],
      json: { decision_id: decisionId, leaf_index: index, origin: checkpoint.origin, out: out ?? null },
      isOutputTaken: out === undefined,
    };
  },
};
