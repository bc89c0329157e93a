import type { IncomingMessage, ServerResponse } from "node:http";
import { type ControlPlaneError, ErrorReason } from "../errors.ts";
import { sendError, sendJson } from "../server/http-reply.ts";
import type { AccessTokens } from "./access-tokens.ts";

const PREFIX = "/.well-known/oauth-protected-resource";
const PATH = /^\/\.well-known\/oauth-protected-resource(\/mcp\/[a-z0-9-]{1,63})?$/;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/;

/** Settings of `ProtectedResource`. */
export interface ProtectedResourceOptions {
  /** Base URL of the service; if undefined, it is taken from loopback requests. */
  readonly publicUrl: string | undefined;
  /** True if the service's own port speaks TLS. */
  readonly isTls: boolean;
  /** Issuer of access tokens, if one is configured. */
  readonly tokens: Pick<AccessTokens, "issuer" | "scope"> | undefined;
}

/**
 * Metadata that tells OAuth 2 clients the issuer of tokens for the gateway (RFC 9728), as MCP authorization requires. It does not
 * reveal whether a server exists.
 */
export class ProtectedResource {
  readonly prefix = PREFIX;
  readonly #options: ProtectedResourceOptions;

  constructor(options: ProtectedResourceOptions) {
    this.#options = options;
  }

  /** Serves the metadata. */
  handle(request: IncomingMessage, response: ServerResponse): boolean {
    const [path = ""] = (request.url ?? "").split("?");
    const found = PATH.exec(path);
    if (found === null) return false;
    request.resume();
    const resource = this.resourceOf(request, found[1] ?? "/mcp");
    if (resource === undefined) return false;
    const { tokens } = this.#options;
    try {
      const metadata = {
        resource,
        bearer_methods_supported: ["header"],
        resource_name: "Agent Control Plane",
        ...(tokens === undefined ? {} : { authorization_servers: [tokens.issuer] }),
        ...(tokens?.scope === undefined ? {} : { scopes_supported: [tokens.scope] }),
      };
      sendJson(response, 200, JSON.stringify(metadata), { "access-control-allow-origin": "*" });
    } catch (error) {
      sendError(response, error);
    }
    return true;
  }

  /** Returns the URL of a resource; undefined if the service does not know its own address. */
  resourceOf({ headers }: IncomingMessage, path: string): string | undefined {
    const { publicUrl } = this.#options;
    if (publicUrl !== undefined) return `${publicUrl}${path}`;
    const { host = "" } = headers;
    return LOOPBACK.test(host) ? `${this.#options.isTls ? "https" : "http"}://${host}${path}` : undefined;
  }

  /** True if clients can get access tokens. */
  get hasIssuer(): boolean {
    return this.#options.tokens !== undefined;
  }

  /** Returns the challenge headers for a refused client (RFC 6750 §3, RFC 9728 §5.1); none without an issuer. */
  challenge(request: IncomingMessage, path: string, { reason, metadata }: ControlPlaneError): Record<string, string> {
    if (!this.hasIssuer) return {};
    const base = this.resourceOf(request, "");
    const at = base === undefined ? [] : [`resource_metadata="${base}${PREFIX}${path}"`];
    if (reason === ErrorReason.KEY_MISSING) return { "www-authenticate": ["Bearer", at.join()].join(" ").trim() };
    if (reason === ErrorReason.KEY_INVALID) {
      return { "www-authenticate": `Bearer ${['error="invalid_token"', ...at].join(", ")}` };
    }
    if (reason !== ErrorReason.SCOPE_MISSING) return {};
    const scope = `scope="${metadata.scope ?? ""}"`;
    return { "www-authenticate": `Bearer ${['error="insufficient_scope"', scope, ...at].join(", ")}` };
  }
}
