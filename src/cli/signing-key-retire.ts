import { type Command, CommandError } from "./command.ts";
import { VaultServer } from "./vault-server.ts";

/** Form of an RFC 7638 thumbprint, so that no other text reaches the address. */
const KEY_ID = /^[\w-]{43}$/;

/** `agentctl signing-key retire` retires a key with which the service no longer signs. */
export const signingKeyRetire: Command = {
  name: "signing-key retire",
  arguments: "<key_id>",
  summary: "retire a signing key that the service no longer signs with",
  details: [
    "",
    "The key's id is its `kid` in /.well-known/jwks.json. Earlier signatures of the key still verify, later ones do not: the log",
    "of every workspace seals the retirement, and the key set shows it as `retired_at`. The key in use is refused: start every",
    "process with another ACP_SIGNING_KEY first. Retiring a key again changes nothing. Needs an admin key of the workspace",
    "`default`. Fetch the key set again for `--jwks` afterwards.",
  ],
  options: ["url", "key-file"],
  exit: "failure",
  async run(input) {
    const [keyId = ""] = input.positionals;
    if (!KEY_ID.test(keyId)) throw new CommandError("<key_id> is the `kid` of a key: 43 letters, digits, `-` and `_`");
    const retiredAt = await new VaultServer(input).retireSigningKey(keyId);
    return {
      lines: [`retired signing key ${keyId}`, `  at         ${retiredAt}; earlier signatures still verify`],
      json: { key_id: keyId, retired_at: retiredAt },
    };
  },
};
