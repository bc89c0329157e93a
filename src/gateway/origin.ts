import type { IncomingMessage } from "node:http";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Settings of `RequestOrigins`. */
export interface RequestOriginsOptions {
  /** Base URL of the service for browsers; undefined if it is unknown. */
  readonly publicUrl: string | undefined;
  /** Further host names by which the service is reached. */
  readonly hosts: readonly string[];
  /** The address that the service listens on. */
  readonly listensOn: string;
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * Checks `Host` and `Origin` as protection against DNS rebinding, with which a page of another site calls a service on this
 * machine or in its network.
 */
export class RequestOrigins {
  readonly #hosts: ReadonlySet<string>;
  /** True if the names of the service are known. Only then every `Host` is checked. */
  readonly #isHostKnown: boolean;

  constructor({ publicUrl, hosts, listensOn }: RequestOriginsOptions) {
    const own = publicUrl === undefined ? [] : [new URL(publicUrl).hostname];
    this.#hosts = new Set([...own, ...hosts, listensOn].map((host) => host.toLowerCase()));
    this.#isHostKnown = own.length > 0 || hosts.length > 0 || LOOPBACK.test(listensOn);
  }

  /** Throws ORIGIN_NOT_ALLOWED for the `Host` or the `Origin` of another site. */
  assertAllowed({ headers }: IncomingMessage): void {
    const host = hostnameFrom(`http://${headers.host ?? ""}`);
    if (this.#isHostKnown && !this.#isOwn(host)) throw notAllowed("Host");
    const { origin } = headers;
    if (origin === undefined) return;
    const from = hostnameFrom(origin);
    if (!this.#isOwn(from) && (this.#isHostKnown || from === undefined || from !== host)) throw notAllowed("Origin");
  }

  #isOwn(host: string | undefined): boolean {
    return host !== undefined && (LOOPBACK.test(host) || this.#hosts.has(host));
  }
}

function hostnameFrom(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname.toLowerCase() : undefined;
}

function notAllowed(header: "Host" | "Origin"): ControlPlaneError {
  const text = `the header ${header} names another site; set \`ACP_PUBLIC_URL\` or \`ACP_MCP_HOSTS\` to the names of this service`;
  return new ControlPlaneError(ErrorReason.ORIGIN_NOT_ALLOWED, text, { header });
}
