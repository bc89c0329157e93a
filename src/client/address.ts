/** Address of a port of a control plane. */
export interface Address {
  readonly isSecure: boolean;
  /** `host:port`. */
  readonly target: string;
  /** The address with its scheme, and without a slash at its end. */
  readonly url: string;
}

/** Kind of address: of the HTTP port or of the gRPC port. */
export interface AddressKind {
  /** Schemes; true means TLS. */
  readonly schemes: ReadonlyMap<string, boolean>;
  /** Usual number of the port, for messages. */
  readonly port: number;
}

/** Addresses of the HTTP port. */
export const HTTP_ADDRESS: AddressKind = {
  schemes: new Map([
    ["http:", false],
    ["https:", true],
  ]),
  port: 7080,
};

/** An address without a scheme, and one that has no port either. An IPv6 address is in brackets. */
const HOST = "(?:\\[[0-9a-f:.]+\\]|[\\w.-]+)";
const HOST_AND_PORT = new RegExp(`^${HOST}:\\d{1,5}/*$`, "i");
const HOST_ALONE = new RegExp(`^${HOST}/*$`, "i");

/**
 * Parses an address: `host:port` without TLS, or a URL. Throws a `TypeError` that names the option. The client for Python reads
 * addresses in the same way.
 */
export function addressFrom(name: string, given: unknown, { schemes, port }: AddressKind): Address {
  const wanted = `\`${name}\` must be an address such as \`control.example.com:${port}\` or \`https://control.example.com\``;
  if (typeof given !== "string") throw new TypeError(`${wanted}, not ${given === null ? "null" : typeof given}`);
  if (HOST_ALONE.test(given)) throw new TypeError(`${wanted}: \`${given}\` has neither a port nor a scheme`);
  const text = HOST_AND_PORT.test(given) ? `http://${given}` : given;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isSecure = url === undefined ? undefined : schemes.get(url.protocol);
  if (url === undefined || isSecure === undefined || !isPlace(url))
    throw new TypeError(`${wanted}, not \`${withoutPassword(given)}\``);
  const target = `${url.hostname}:${url.port || (isSecure ? 443 : 80)}`;
  return { isSecure, target, url: text.replace(/\/+$/, "") };
}

/** Tests for a URL that names a host, a port above 0, and at most a path. */
const isPlace = ({ hostname, port, username, password, search, hash }: URL): boolean =>
  hostname !== "" && port !== "0" && username === "" && password === "" && search === "" && hash === "";

/** Hides the password in a URL for messages. */
const withoutPassword = (url: string): string => url.replace(/\/\/[^/@]*@/, "//…@");
