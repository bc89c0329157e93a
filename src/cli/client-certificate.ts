import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import { CommandError, type CommandIo } from "./command.ts";

/** Sends a request, as the platform's `fetch` does. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Certificate of a client, with the files that it is from. */
export interface ClientCertificate {
  /** Absolute path. */
  readonly certPath: string;
  /** Absolute path. */
  readonly keyPath: string;
  /** PEM. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
}

/**
 * Reads the certificate in AGENTCTL_CERT, with the key in AGENTCTL_CERT_KEY; undefined if neither is set. Throws `CommandError` if one
 * of the two is missing, cannot be read or does not fit the other.
 */
export function clientCertificateFrom({ env }: Pick<CommandIo, "env">): ClientCertificate | undefined {
  const { AGENTCTL_CERT: certPath = "", AGENTCTL_CERT_KEY: keyPath = "" } = env;
  if (certPath === "" && keyPath === "") return undefined;
  const [cert, key] = [fileOf("AGENTCTL_CERT", certPath), fileOf("AGENTCTL_CERT_KEY", keyPath)];
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CommandError(
      `AGENTCTL_CERT cannot be used with AGENTCTL_CERT_KEY (${code}): both name files in PEM, the second one with the key of the first`,
    );
  }
  return { certPath: resolve(certPath), keyPath: resolve(keyPath), cert, key };
}

/** Returns the function that sends requests: the platform's `fetch`, or one that shows a certificate to a service that asks for one. */
export function fetchWith(certificate: ClientCertificate | undefined): Fetch {
  if (certificate === undefined) return fetch;
  const { cert, key } = certificate;
  return async (url, init) => {
    const undici = await import("undici");
    const dispatcher = new undici.Agent({ connect: { cert, key } });
    return (await undici.fetch(url, { ...init, dispatcher } as never)) as unknown as Response;
  };
}

const UNTRUSTED = /SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)/;
const REFUSED = /ALERT_(CERTIFICATE_|BAD_CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE)/;
/** Connections that were closed without a word, as the platform's `fetch` also reports those that lack a certificate. */
const CLOSED = /^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/;

/** Says what to set for the fault of a connection with TLS, by its code; empty for a fault of another kind. */
export function adviceFor(code: string, certificate: ClientCertificate | undefined): string {
  if (UNTRUSTED.test(code)) return "; set NODE_EXTRA_CA_CERTS to a file with the issuer of its certificate";
  if (!REFUSED.test(code) && !CLOSED.test(code)) return "";
  return certificate === undefined
    ? "; if it asks for certificates of clients, set AGENTCTL_CERT and AGENTCTL_CERT_KEY"
    : "; the certificate in AGENTCTL_CERT may be of none of the issuers that it takes";
}

function fileOf(name: string, path: string): string {
  if (path === "") throw new CommandError(`${name} is missing: AGENTCTL_CERT and AGENTCTL_CERT_KEY go together`);
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new CommandError(`${name} names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}
