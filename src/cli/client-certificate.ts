import { readFileSync } from "node:fs";
import { CommandError, type CommandIo } from "./command.ts";

/** Sends a request, as the platform's `fetch` does. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/**
 * Returns the function that sends requests: the platform's `fetch`, or one that shows the certificate in AGENTCTL_CERT, with the key in
 * AGENTCTL_CERT_KEY, to a service that asks for one. Throws `CommandError` if one of the two is missing or cannot be read.
 */
export function fetchFrom({ env }: Pick<CommandIo, "env">): Fetch {
  const { AGENTCTL_CERT: certPath = "", AGENTCTL_CERT_KEY: keyPath = "" } = env;
  if (certPath === "" && keyPath === "") return fetch;
  const [cert, key] = [fileOf("AGENTCTL_CERT", certPath), fileOf("AGENTCTL_CERT_KEY", keyPath)];
  return async (url, init) => {
    const undici = await import("undici");
    const dispatcher = new undici.Agent({ connect: { cert, key } });
    return (await undici.fetch(url, { ...init, dispatcher } as never)) as unknown as Response;
  };
}

function fileOf(name: string, path: string): string {
  if (path === "") throw new CommandError(`${name} is missing: AGENTCTL_CERT and AGENTCTL_CERT_KEY go together`);
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new CommandError(`${name} names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}
