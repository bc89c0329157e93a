import { jsonFrom, readText } from "./bundle.ts";
import { CommandError, type CommandInput } from "./command.ts";
import { type PublicKey, publicKeyFromPem, publicKeysFromJwks } from "./verify/index.ts";

/** Keys that signatures are checked with, and why they are believed. */
export interface Trust {
  readonly keys: readonly PublicKey[];
  /** `pinned`: the caller gave them. `bundle`, `service`, `certificate`: what is to be verified brought them itself. */
  readonly source: "pinned" | "bundle" | "service" | "certificate";
}

async function pemKey(path: string): Promise<PublicKey> {
  const key = publicKeyFromPem(await readText(path));
  if (key !== undefined) return key;
  throw new CommandError(`--public-key: \`${path}\` holds no ECDSA P-256 public key in PEM (BEGIN PUBLIC KEY)`);
}

async function jwksKeys(path: string): Promise<readonly PublicKey[]> {
  const keys = publicKeysFromJwks(jsonFrom(await readText(path)));
  if (keys !== undefined && keys.length > 0) return keys;
  throw new CommandError(`--jwks: \`${path}\` is no JSON Web Key Set with an ECDSA P-256 key`);
}

/** The keys that `--public-key` and `--jwks` name; undefined when neither was given. */
export async function pinnedKeys(input: CommandInput): Promise<readonly PublicKey[] | undefined> {
  const jwks = input.option("jwks");
  const pems = await Promise.all(input.options("public-key").map(pemKey));
  const keys = [...pems, ...(jwks === undefined ? [] : await jwksKeys(jwks))];
  return keys.length === 0 ? undefined : keys;
}

/** The pinned keys where there are any, else those that come with what is verified. */
export async function trustFrom(
  input: CommandInput,
  source: Exclude<Trust["source"], "pinned">,
  own: () => Promise<readonly PublicKey[]> | readonly PublicKey[],
): Promise<Trust> {
  const keys = await pinnedKeys(input);
  return keys === undefined ? { keys: await own(), source } : { keys, source: "pinned" };
}

/** The lines of a report that say whose signature it was, and what that is worth. */
export function trustLines({ fingerprint }: PublicKey, source: Trust["source"]): string[] {
  const line = `  signed by  ${fingerprint}`;
  if (source === "pinned") return [`${line}, a key that you gave`];
  return [
    `${line}, a key that came from the ${source} itself`,
    "  This shows that it is consistent with itself. That the signature is your service's is for you to know: compare the",
    "  fingerprint with one that you got another way, or pin the key with --public-key or --jwks.",
  ];
}
