import { verifyCertificate } from "../verify/certificate.ts";
import { isJsonRecord, type JsonRecord } from "../verify/json.ts";
import { parseJson, readText } from "./bundle.ts";
import { type Command, CommandError } from "./command.ts";
import { pinnedKeys, trustLines } from "./trust.ts";

/** Reads a certificate: a RevokeAgent response, or a member of a GetRevocation response. */
async function readCertificate(path: string): Promise<JsonRecord> {
  const json = parseJson(await readText(path));
  const certificate = isJsonRecord(json) && isJsonRecord(json.certificate) ? json.certificate : json;
  if (isJsonRecord(certificate) && "canonical_body" in certificate) return certificate;
  throw new CommandError(`\`${path}\` is not a revocation certificate: give the JSON response of the revoke call`);
}

/** Lists what ended, by kind: `sessions 1, grants given 2`. */
function endedText(counts: unknown): string {
  const some = Object.entries(isJsonRecord(counts) ? counts : {}).filter(([, count]) => count !== 0);
  return some.map(([kind, count]) => `${kind.replaceAll("_", " ")} ${String(count)}`).join(", ") || "nothing else";
}

/** `agentctl certificate verify` verifies a revocation certificate offline. */
export const certificateVerify: Command = {
  name: "certificate verify",
  arguments: "<file>",
  summary: "verify a revocation certificate offline",
  details: [
    "",
    "The file is the JSON response of the revoke call, or of GET /v1/enforce/revocations/{revocation_id}. The command checks",
    "the signature over `canonical_body`, and that all other members equal the signed ones. Without --public-key or --jwks it",
    "uses the certificate's own key, and the output says so.",
  ],
  options: ["public-key", "jwks"],
  async run(input) {
    const [path = ""] = input.positionals;
    const pinned = await pinnedKeys(input);
    const { body, key } = await verifyCertificate(await readCertificate(path), pinned);
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
        verified: true,
        kind: "certificate",
        revocation_id,
        agent_id,
        revoked_at,
        ledger_seq,
        signed_by: key.fingerprint,
        key_source: source,
      },
    };
  },
};
