import { createHash, randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { isJsonRecord, stringFrom } from "../../verify/json.ts";
import type { ClientCertificate } from "../client-certificate.ts";
import { CommandError, type CommandIo } from "../command.ts";

/** The control plane that a hook asks, with the key; the key's file is bound to the address. */
export interface Connection {
  /** Address of the control plane without a slash at the end. */
  readonly url: string;
  readonly agentId: string | undefined;
}

/** Certificates of a connection, which the hook needs since it runs with an empty environment. */
export interface ConnectionCertificates {
  /** Certificates of authorities that are trusted beside those that Node.js trusts, in PEM. */
  readonly ca: string | undefined;
  /** Certificate that the hook shows. Only its paths are kept, so that a renewed one is taken. */
  readonly own: ClientCertificate | undefined;
}

/** Hook and connection files of one user. They lie outside of projects, which a repository could change. */
export interface Installation {
  /** Absolute path of the hook. */
  readonly hook: string;
  /** Absolute path of the connection file. */
  readonly connection: string;
}

/** Folder of the hook and its connections in a user's home. */
export const USER_FOLDER = join(".config", "agent-control-plane");
/** Name of the installed hook. */
export const HOOK_NAME = "hook.cjs";
const SOURCE = new URL("hook.cjs", import.meta.url);
const KEY = /^[\x21-\x7e]{1,4096}$/;

/** Returns the name of the connection file for an address and an agent. */
export function connectionName({ url, agentId }: Connection): string {
  const digest = createHash("sha256")
    .update(JSON.stringify([url, agentId ?? ""]))
    .digest("hex");
  return join("connections", `${digest.slice(0, 16)}.json`);
}

/** Returns the files of the user who runs the command. Throws `CommandError` if other users could replace them. */
export async function installationFor(env: CommandIo["env"], connection: Connection): Promise<Installation> {
  const folder = join(env.HOME ?? homedir(), USER_FOLDER);
  const status = await stat(folder).catch(() => undefined);
  if (status !== undefined && (!isOwn(status) || (status.mode & 0o022) !== 0)) {
    throw new CommandError(`other users can change \`${folder}\`, and so the hook: own it, and \`chmod 700\` it`);
  }
  return { hook: join(folder, HOOK_NAME), connection: join(folder, connectionName(connection)) };
}

/** Reads the text of the hook. */
export const readHook = (): Promise<string> => readFile(SOURCE, "utf8");

/** Writes the hook and the connection file, both for the user alone. */
export async function install(
  { hook, connection }: Installation,
  { url, agentId }: Connection,
  key: string,
  { ca, own }: ConnectionCertificates,
): Promise<void> {
  const members = {
    url,
    key,
    ...(agentId !== undefined && { agent: agentId }),
    ...(ca !== undefined && { ca }),
    ...(own !== undefined && { cert: own.certPath, cert_key: own.keyPath }),
  };
  await replaceFile(hook, await readHook(), 0o600, 0o700);
  await replaceFile(connection, `${JSON.stringify(members)}\n`, 0o600, 0o700);
}

/**
 * Finds the agent's key: in `ACP_AGENT_KEY`, else in the connection file of an earlier run, else by asking. Throws `CommandError`
 * for a file that other users can read, since its key may be known to them.
 */
export async function findKey(io: CommandIo, path: string): Promise<string> {
  const given =
    io.env.ACP_AGENT_KEY?.trim() || (await keyIn(path)) || (await io.secret?.("Key of the agent: "))?.trim();
  if (given === undefined || given === "") {
    throw new CommandError(
      "no key given: set ACP_AGENT_KEY to the agent's key for this command, or run it in a terminal",
    );
  }
  if (KEY.test(given)) return given;
  throw new CommandError("the key has characters that no key has: give the key alone");
}

async function keyIn(path: string): Promise<string | undefined> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw new CommandError(`\`${path}\` cannot be read (${error.code}): set ACP_AGENT_KEY, and remove the file`);
  });
  if (file === undefined) return undefined;
  try {
    const status = await file.stat();
    if (!isOwn(status) || (status.mode & 0o077) !== 0) {
      throw new CommandError(
        `other users can read \`${path}\`: set ACP_AGENT_KEY to a new key, and revoke the old one`,
      );
    }
    const value: unknown = JSON.parse(await file.readFile("utf8"));
    return isJsonRecord(value) ? stringFrom(value.key) : undefined;
  } catch (error) {
    if (error instanceof CommandError) throw error;
    return undefined;
  } finally {
    await file.close();
  }
}

const isOwn = ({ uid }: Stats): boolean => uid === process.getuid?.();

/** Replaces a file atomically, so that nobody reads half of it, and no link leads elsewhere. Creates its folder. */
export async function replaceFile(path: string, text: string, mode: number, folderMode = 0o777): Promise<void> {
  const draft = `${path}.${randomUUID()}.new`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: folderMode });
    const file = await open(draft, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, mode);
    try {
      await file.chmod(mode);
      await file.writeFile(text);
    } finally {
      await file.close();
    }
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw new CommandError(`\`${path}\` cannot be written: ${(error as Error).message}`);
  }
}
