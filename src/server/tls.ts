import { createHash, createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureServer, type Http2SecureServer, type SecureServerOptions } from "node:http2";
import { setTimeout as delay } from "node:timers/promises";
import type { SecureContextOptions } from "node:tls";
import type { Logger } from "pino";

/** Certificates and key of a listener, in PEM. */
export interface Tls {
  /** The certificate, then those of its issuers. */
  readonly cert: string;
  readonly key: string;
  /** Issuers of client certificates, which every connection then needs. Absent: connections need none. */
  readonly clientCa?: string | undefined;
}

/** Certificates and key of the listeners of a process, which may change while it runs. */
export interface TlsSource {
  readonly current: Tls;
  /** Calls back with every later version. `clientCa` MUST NOT come or go. */
  onChange(listener: (tls: Tls) => void): void;
}

/** Creates a server for HTTP/2. A new certificate counts for new connections; open ones stay. */
export function createTlsServer(tls: TlsSource, options: SecureServerOptions): Http2SecureServer {
  const needsClientCert = tls.current.clientCa !== undefined;
  const access = { requestCert: needsClientCert, rejectUnauthorized: needsClientCert };
  const server = createSecureServer({ ...contextFrom(tls.current), ...options, ...access });
  tls.onChange((changed) => server.setSecureContext(contextFrom(changed)));
  return server;
}

/** Returns the certificates and the key as Node's TLS takes them. */
function contextFrom({ cert, key, clientCa }: Tls): SecureContextOptions {
  return { cert, key, ...(clientCa !== undefined && { ca: clientCa }) };
}

/** Paths of the files. */
export interface TlsPaths {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | null;
}

/** Options of `TlsFiles`. */
export interface TlsFilesOptions {
  readonly paths: TlsPaths;
  readonly log: Logger;
  /** Milliseconds between two readings. Default 2,000. */
  readonly intervalMs?: number | undefined;
}

const DEFAULT_INTERVAL_MS = 2_000;

/**
 * Certificates and key in files. Reads them again and again, which also finds a renamed file, a switched symbolic link and a
 * changed network file system. A change counts once two readings in a row agree, so that a file that is being written or a
 * certificate that waits for its key is not taken. If new files cannot be used, the old ones stay, and the log says so once.
 */
export class TlsFiles implements TlsSource {
  readonly #options: TlsFilesOptions;
  readonly #listeners: ((tls: Tls) => void)[] = [];
  readonly #closing = new AbortController();
  #current: Tls;
  /** Digest of what was last taken or refused. */
  #settled: string;
  #lastSeen: string;

  /** Reads the files. Rejects with an `Error` that names the variable whose file cannot be used. */
  static async open(options: TlsFilesOptions): Promise<TlsFiles> {
    const tls = await readTls(options.paths);
    const certificate = assertUsable(tls);
    reportUse(options.log, certificate, "TLS certificate loaded");
    return new TlsFiles(options, tls);
  }

  private constructor(options: TlsFilesOptions, tls: Tls) {
    this.#options = options;
    this.#current = tls;
    this.#settled = digestOf(tls);
    this.#lastSeen = this.#settled;
    void this.#watch();
  }

  get current(): Tls {
    return this.#current;
  }

  onChange(listener: (tls: Tls) => void): void {
    this.#listeners.push(listener);
  }

  /** Stops reading. */
  close(): void {
    this.#closing.abort();
  }

  async #watch(): Promise<void> {
    const { signal } = this.#closing;
    const { intervalMs = DEFAULT_INTERVAL_MS } = this.#options;
    for (;;) {
      await delay(intervalMs, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      await this.#look();
    }
  }

  async #look(): Promise<void> {
    const found = await readTls(this.#options.paths).catch((error: Error) => error);
    const seen = found instanceof Error ? found.message : digestOf(found);
    const isSteady = seen === this.#lastSeen;
    this.#lastSeen = seen;
    if (!isSteady || seen === this.#settled) return;
    this.#settled = seen;
    // Old files that came back after broken ones.
    if (seen === digestOf(this.#current)) return;
    this.#take(found);
  }

  #take(found: Tls | Error): void {
    const { log } = this.#options;
    try {
      if (found instanceof Error) throw found;
      const certificate = assertUsable(found);
      this.#current = found;
      for (const listener of this.#listeners) listener(found);
      reportUse(log, certificate, "TLS certificate changed");
    } catch (error) {
      const { message } = error as Error;
      log.error({ problem: message }, "the changed TLS files cannot be used; the old certificate stays in use");
    }
  }
}

async function readTls({ cert, key, clientCa }: TlsPaths): Promise<Tls> {
  return {
    cert: await readText("ACP_TLS_CERT", cert),
    key: await readText("ACP_TLS_KEY", key),
    clientCa: clientCa === null ? undefined : await readText("ACP_TLS_CLIENT_CA", clientCa),
  };
}

async function readText(variable: string, path: string): Promise<string> {
  return readFile(path, "utf8").catch(({ code }: NodeJS.ErrnoException) => {
    // Without the path: a wrong value may be the key itself.
    throw new Error(`${variable} names a file that cannot be read (${code})`);
  });
}

function digestOf({ cert, key, clientCa = "" }: Tls): string {
  return createHash("sha256")
    .update(JSON.stringify([cert, key, clientCa]))
    .digest("base64");
}

/** Returns the certificate of the service. Throws an `Error` that names the variable whose file is at fault, never its content. */
function assertUsable({ cert, key, clientCa }: Tls): X509Certificate {
  const [certificate] = certificatesIn("ACP_TLS_CERT", cert);
  if (certificate === undefined) throw new Error("ACP_TLS_CERT names a file that holds no certificate in PEM");
  if (!certificate.checkPrivateKey(privateKeyFrom(key))) {
    throw new Error("ACP_TLS_KEY names a key that does not fit the first certificate in the file of ACP_TLS_CERT");
  }
  if (clientCa !== undefined && certificatesIn("ACP_TLS_CLIENT_CA", clientCa).length === 0) {
    throw new Error("ACP_TLS_CLIENT_CA names a file that holds no certificate in PEM");
  }
  return certificate;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

function certificatesIn(variable: string, pem: string): X509Certificate[] {
  return (pem.match(CERTIFICATE) ?? []).map((text, index) => {
    try {
      return new X509Certificate(text);
    } catch {
      throw new Error(`${variable} names a file whose certificate ${index + 1} cannot be read`);
    }
  });
}

function privateKeyFrom(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (error) {
    const isEncrypted = (error as NodeJS.ErrnoException).code === "ERR_MISSING_PASSPHRASE";
    const fault = isEncrypted
      ? "a key with a passphrase; store it without one"
      : "a file that holds no private key in PEM";
    throw new Error(`ACP_TLS_KEY names ${fault}`);
  }
}

function reportUse(log: Logger, { serialNumber, validFromDate, validToDate }: X509Certificate, message: string): void {
  const details = { serial: serialNumber, validFrom: validFromDate, validTo: validToDate };
  const now = Date.now();
  if (validToDate.getTime() < now) log.warn(details, `${message}, although it has expired`);
  else if (validFromDate.getTime() > now) log.warn(details, `${message}, although it is not valid yet`);
  else log.info(details, message);
}
