import { decisionBundleText, logBundleHead, logBundleLine } from "../verify/bundle.ts";
import { verifyAnsweredCheckpoint } from "../verify/checkpoint.ts";
import { assertAnswers } from "../verify/contradictions.ts";
import { verifyDecision } from "../verify/decision.ts";
import { verifyAnsweredProof } from "../verify/inclusion.ts";
import { VerificationError } from "../verify/verification-error.ts";
import { writeOutput } from "./bundle.ts";
import { type Command, CommandError } from "./command.ts";
import { trustFrom } from "./trust.ts";
import { VaultServer } from "./vault-server.ts";

/** `agentctl vault export` writes the whole log as a bundle. */
export const vaultExport: Command = {
  name: "vault export",
  arguments: "",
  summary: "write the whole log of the service as a log bundle",
  details: [
    "",
    "The bundle is the log at the beginning of the export; others may append meanwhile. The checkpoint's signature is",
    "verified, but not the entries: pass the bundle to `agentctl vault verify`.",
  ],
  options: ["url", "key-file", "out", "public-key", "jwks"],
  async run(input) {
    const server = new VaultServer(input);
    const { keys } = await trustFrom(input, "service", () => server.publicKeys());
    const { note, treeSize, origin, key } = await verifyAnsweredCheckpoint(await server.checkpoint(), keys);
    const out = input.option("out");
    let written = 0;
    await writeOutput(out, input.io, async (write) => {
      await write(logBundleHead(note, [key]));
      for await (const entry of server.entries(treeSize)) {
        await write(logBundleLine(entry));
        written += 1;
      }
      if (written < treeSize) throw new CommandError(`the service returned ${written} of ${treeSize} entries`);
    });
    return {
      lines: [`wrote ${written} entries of ${origin} to ${out ?? "standard output"}`],
      json: { entries: written, origin, out: out ?? null },
      isOutputTaken: out === undefined,
    };
  },
};

/** `agentctl vault prove` writes one decision as a bundle that verifies by itself. */
export const vaultProve: Command = {
  name: "vault prove",
  arguments: "<decision>",
  summary: "write a decision with its proof as a decision bundle",
  details: ["", "The bundle is verified before it is written. Nothing else is needed to verify it again."],
  options: ["url", "key-file", "out", "public-key", "jwks"],
  async run(input) {
    const [decisionId = ""] = input.positionals;
    const server = new VaultServer(input);
    const { keys } = await trustFrom(input, "service", () => server.publicKeys());
    const { answer, entry } = await server.decision(decisionId);
    const { index, body } = entry;
    const { treeSize } = await verifyAnsweredCheckpoint(await server.checkpoint(), keys);
    const answered = await server.inclusion(index, treeSize);
    const checkpoint = await verifyAnsweredProof(entry, answered, keys);
    const proof = { body, leafIndex: index, auditPath: answered.auditPath };
    const decision = await verifyDecision(proof, checkpoint);
    if (decision.decision_id !== decisionId) {
      throw new VerificationError(
        "contradiction",
        `the service returned another decision than \`${decisionId}\``,
        index,
      );
    }
    assertAnswers(answer, decision);
    const out = input.option("out");
    await writeOutput(out, input.io, (write) => write(decisionBundleText(proof, checkpoint.note, [checkpoint.key])));
    return {
      lines: [`wrote decision ${decisionId}, entry ${index} of ${checkpoint.origin}, to ${out ?? "standard output"}`],
      json: { decision_id: decisionId, leaf_index: index, origin: checkpoint.origin, out: out ?? null },
      isOutputTaken: out === undefined,
    };
  },
};
