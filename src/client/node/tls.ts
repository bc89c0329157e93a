import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { Readable } from "node:stream";
import { createSecureContext } from "node:tls";
import type { Address } from "../address.ts";

/** Certificates for connections with TLS, in PEM. */
export interface ClientTls {
  /** Certificates of the authorities that may issue the service's certificate. Default: those that Node trusts. */
  readonly ca?: string | undefined;
  /** Certificate to show to a service that asks for one, then those of its issuers. */
  readonly cert?: string | undefined;
  /** Private key of `cert`. */
  readonly key?: string | undefined;
}

/**
 * Throws a `TypeError` for certificates that cannot be used, and for an address without TLS, which `name` names. The message shows no
 * certificate and no key.
 */
export function assertTls(name: string, { isSecure }: Address, { ca, cert, key }: ClientTls): void {
  if (!isSecure) throw new TypeError(`\`tls\` is for addresses with TLS: begin \`${name}\` with \`https://\``);
  if ((cert === undefined) !== (key === undefined)) {
    const missing = cert === undefined ? "tls.cert" : "tls.key";
    throw new TypeError(`\`${missing}\` is missing: \`tls.cert\` and \`tls.key\` go together`);
  }
  try {
    createSecureContext({ ca, cert, key });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new TypeError(
      `\`tls\` cannot be used (${code}): give certificates in PEM, and in \`tls.key\` the key of \`tls.cert\``,
    );
  }
}

/** Codes of Node and texts of gRPC for a certificate of a client that is missing, or that the service does not take. */
const REFUSED =
  /ALERT_(CERTIFICATE_|BAD_CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE)|alert (certificate|bad certificate|unknown ca|handshake failure)/i;
/** The same for a certificate of a service that is not trusted. */
const UNTRUSTED =
  /SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)|self-signed certificate|unable to (verify|get (local )?issuer)/i;
/** The same for a connection that the service closed without a word, as it also does for a certificate that it does not take. */
const CLOSED = /ECONNRESET|UND_ERR_SOCKET|EPIPE|socket hang up|ECONNABORTED/;

/** Says what to set for a fault of a connection with TLS; empty for a fault of another kind. */
export function adviceFor(fault: string, tls: ClientTls | undefined): string {
  if (UNTRUSTED.test(fault)) return "; set `tls.ca` to the issuer of the service's certificate";
  const isRefused = REFUSED.test(fault);
  if (!isRefused && !CLOSED.test(fault)) return "";
  if (tls?.cert !== undefined)
    return "; the certificate in `tls.cert` may be of none of the issuers that the service takes";
  const needs = "set `tls.cert` and `tls.key`";
  return isRefused
    ? `; the service asks for a certificate: ${needs}`
    : `; if the service asks for certificates of clients, ${needs}`;
}

/** Returns a `fetch` whose errors say what to set. `wrapped` is the one that sends. */
export function withAdvice(wrapped: typeof fetch, tls: ClientTls | undefined): typeof fetch {
  return async (input, init) => {
    try {
      return await wrapped(input, init);
    } catch (error) {
      throw advised(error, tls);
    }
  };
}

function advised(error: unknown, tls: ClientTls | undefined): unknown {
  if (!(error instanceof TypeError) || !(error.cause instanceof Error)) return error;
  const { cause } = error;
  const { code = "", syscall, socket } = cause as NodeJS.ErrnoException & { readonly socket?: { bytesRead?: number } };
  const advice = (socket?.bytesRead ?? 0) > 0 ? "" : adviceFor(code, tls);
  if (advice === "") return error;
  // In place of the cause, since the innermost one is shown.
  return new TypeError(error.message, {
    cause: Object.assign(new Error(cause.message.trim() + advice), { code, syscall }),
  });
}

/** Statuses of responses that have no body. */
const EMPTY: ReadonlySet<number> = new Set([204, 205, 304]);

/** Returns a `fetch` for requests to one service, as far as the client uses it, with certificates. It follows no redirects. */
export function createTlsFetch({ ca, cert, key }: ClientTls): typeof fetch {
  const agent = new Agent({ keepAlive: true, ca, cert, key });
  return async (input, init = {}) => {
    const { method, headers, body, signal } = init;
    signal?.throwIfAborted();
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const options = { agent, method, headers: Object.fromEntries(new Headers(headers)), signal: signal ?? undefined };
      const sent = request(input as string, options, resolve);
      sent.once("error", (cause) => reject(signal?.aborted ? signal.reason : new TypeError("fetch failed", { cause })));
      sent.end(body as Uint8Array | undefined);
    });
    const { statusCode: status = 0, rawHeaders } = response;
    if (status >= 300 && status < 400 && status !== 304) {
      response.destroy();
      throw new TypeError("fetch failed", { cause: new Error(`the service redirected with status ${status}`) });
    }
    const received = new Headers();
    for (let index = 0; index < rawHeaders.length; index += 2)
      received.append(rawHeaders[index] ?? "", rawHeaders[index + 1] ?? "");
    if (EMPTY.has(status)) response.resume();
    const content = EMPTY.has(status) ? null : (Readable.toWeb(response) as ReadableStream<Uint8Array>);
    return new Response(content, { status, headers: received });
  };
}
