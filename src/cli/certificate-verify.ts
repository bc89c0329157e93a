import { jsonFrom, readText } from "./bundle.ts";
import { type Command, CommandError } from "./command.ts";
import { pinnedKeys, trustLines } from "./trust.ts";
import { isMembers, type JsonMembers, verifyCertificate } from "./verify/index.ts";

/** A certificate as RevokeAgent answers it, or inside of what GetRevocation answers. */
async function certificateIn(path: string): Promise<JsonMembers> {
  const json = jsonFrom(await readText(path));
  const certificate = isMembers(json) && isMembers(json.certificate) ? json.certificate : json;
  if (isMembers(certificate) && "canonical_body" in certificate) return certificate;
  throw new CommandError(`\`${path}\` is no revocation certificate: give the JSON that the revoke answered`);
}

/** `sessions 1, grants given 2`: what ended, by kind. */
function endedText(counts: unknown): string {
  const some = Object.entries(isMembers(counts) ? counts : {}).filter(([, count]) => count !== 0);
  return some.map(([kind, count]) => `${kind.replaceAll("_", " ")} ${String(count)}`).join(", ") || "nothing else";
}

/** `agentctl certificate verify`: a revocation certificate, offline. */
export const certificateVerify: Command = {
  name: "certificate verify",
  arguments: "<file>",
  summary: "verify a revocation certificate offline",
  details: [
    "",
    "The file is the JSON that revoking answered, or GET /v1/enforce/revocations/{revocation_id}. Checked are the signature",
    "over `canonical_body`, and that all members beside it say what it says. Without --public-key or --jwks the",
    "certificate's own key is used, and the output says so.",
  ],
  options: ["public-key", "jwks"],
  async run(input) {
    const [path = ""] = input.positionals;
    const pinned = await pinnedKeys(input);
    const { body, key } = verifyCertificate(await certificateIn(path), pinned);
    const source = pinned === undefined ? "certificate" : "pinned";
    const { revocation_id, agent_id, agent_name, revoked_at, revoked_by, ledger_seq, counts } = body;
    return {
      lines: [
        `VERIFIED: revocation ${String(revocation_id)} of agent ${String(agent_id)} (\`${String(agent_name)}\`)`,
        `  revoked    ${String(revoked_at)} by ${String(revoked_by)}, entry ${String(ledger_seq)}`,
        `  ended      ${endedText(counts)}`,
        ...trustLines(key, source),
      ],
      json: {
        ...{ verified: true, kind: "certificate", revocation_id, agent_id, revoked_at, ledger_seq },
        ...{ signed_by: key.fingerprint, key_source: source },
      },
    };
  },
};
