import { type PublicKey, publicKeyFromPem, publicKeysFromJwks } from "../verify/public-key.ts";
import { parseJson, readText } from "./bundle.ts";
import { CommandError, type CommandInput } from "./command.ts";

/** Keys for verifying signatures, and their source. */
export interface Trust {
  readonly keys: readonly PublicKey[];
  /** `pinned` for keys from the caller, otherwise the data that contained the keys. */
  readonly source: "pinned" | "bundle" | "service" | "certificate";
}

/** Returns the pinned keys if there are any, otherwise the keys that came with the data. */
export async function trustFrom(
  input: CommandInput,
  source: Exclude<Trust["source"], "pinned">,
  own: () => Promise<readonly PublicKey[]> | readonly PublicKey[],
): Promise<Trust> {
  const keys = await pinnedKeys(input);
  return keys === undefined ? { keys: await own(), source } : { keys, source: "pinned" };
}

/** Reads the keys that `--public-key` and `--jwks` name; undefined if neither was given. */
export async function pinnedKeys(input: CommandInput): Promise<readonly PublicKey[] | undefined> {
  const jwks = input.option("jwks");
  const pems = await Promise.all(input.options("public-key").map(readPemKey));
  const keys = [...pems, ...(jwks === undefined ? [] : await readJwks(jwks))];
  return keys.length === 0 ? undefined : keys;
}

async function readPemKey(path: string): Promise<PublicKey> {
  const key = await publicKeyFromPem(await readText(path));
  if (key !== undefined) return key;
  throw new CommandError(
    `--public-key: \`${path}\` does not contain an ECDSA P-256 public key in PEM (BEGIN PUBLIC KEY)`,
  );
}

async function readJwks(path: string): Promise<readonly PublicKey[]> {
  const keys = await publicKeysFromJwks(parseJson(await readText(path)));
  if (keys !== undefined && keys.length > 0) return keys;
  throw new CommandError(`--jwks: \`${path}\` is not a JSON Web Key Set with an ECDSA P-256 key`);
}

/** Returns the lines of a report about the signing key and the trust in it. */
export function trustLines({ fingerprint }: PublicKey, source: Trust["source"]): string[] {
  const line = `  signed by  ${fingerprint}`;
  if (source === "pinned") return [`${line}, a key that you gave`];
  return [
    `${line}, a key that came from the ${source} itself`,
    "  This shows only that the data is consistent with its own key. To know that the signature is your service's, compare",
    "  the fingerprint with one from another source, or pin the key with --public-key or --jwks.",
  ];
}
