import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** What a certificate carries for whoever verifies it without the service. */
export interface SignedText {
  /** PEM. */
  readonly publicKey: string;
  /** Standard base64. */
  readonly signature: string;
  readonly canonicalBody: string;
}

/** The version of the installed openssl. Rejects when there is none. */
export async function opensslVersion(): Promise<string> {
  return (await run("openssl", ["version"])).stdout.trim();
}

/** Whether `openssl dgst -sha256 -verify` accepts a signature. */
export async function opensslVerifies({ publicKey, signature, canonicalBody }: SignedText): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), "acp-openssl-"));
  const [key, der, body] = ["key.pem", "signature.der", "body.json"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  try {
    await writeFile(key, publicKey);
    await writeFile(der, Buffer.from(signature, "base64"));
    await writeFile(body, canonicalBody);
    const { stdout } = await run("openssl", ["dgst", "-sha256", "-verify", key, "-signature", der, body]);
    return stdout.trim() === "Verified OK";
  } catch (error) {
    // Exit code 1 says that the signature does not fit; anything else is a fault of the test.
    if ((error as { code?: unknown }).code === 1) return false;
    throw error;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
