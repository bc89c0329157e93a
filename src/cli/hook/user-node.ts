import { execFile } from "node:child_process";
import { isAbsolute, join } from "node:path";
import { promisify } from "node:util";

const MIN_MAJOR = 20;
const TIMEOUT_MS = 10_000;
/** Folders that npm puts before the user's own in PATH. */
const OF_NPM = /(^|\/)node_modules\/\.bin\/?$|\/node-gyp-bin\/?$/;

/**
 * Finds the user's own Node.js of version 20 or later by PATH, without the folders that npm adds. Returns the program itself, not
 * the link of a version manager, since the hook runs without PATH. Default: the one that runs this command.
 */
export async function findNode(path = ""): Promise<string> {
  for (const folder of path.split(":").filter((each) => isAbsolute(each) && !OF_NPM.test(each))) {
    const found = await programAt(join(folder, "node"));
    if (found !== undefined) return found;
  }
  return process.execPath;
}

async function programAt(path: string): Promise<string | undefined> {
  const print = "JSON.stringify([process.execPath, process.versions.node])";
  try {
    const { stdout } = await promisify(execFile)(path, ["-p", print], { timeout: TIMEOUT_MS });
    const [program, version] = JSON.parse(stdout) as [string, string];
    return Number.parseInt(version, 10) >= MIN_MAJOR ? program : undefined;
  } catch {
    return undefined;
  }
}
