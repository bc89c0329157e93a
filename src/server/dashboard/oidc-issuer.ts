import * as client from "openid-client";
import { type OidcFault, OidcRefusal } from "./oidc-refusal.ts";

/** Registration of the service at an issuer. */
export interface IssuerOptions {
  /** https, or http on this host. */
  readonly url: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Scopes separated by spaces, including `openid`. */
  readonly scope: string;
  readonly redirectUri: string;
  /** Claim that is read from the user info endpoint if the ID token lacks it. */
  readonly groupsClaim: string;
  /** Monotonic milliseconds. Default `performance.now`. */
  readonly now?: () => number;
  /** Milliseconds that one request to the issuer may take. Default `REQUEST_MS`. */
  readonly requestMs?: number;
}

/** Values that tie a response of the issuer to the browser that began the flow. */
export interface FlowChecks {
  readonly state: string;
  readonly nonce: string;
  /** PKCE code verifier (RFC 7636). */
  readonly verifier: string;
}

/** An issuer's answer about a person. */
export interface Vouched {
  readonly claims: Claims;
  /** Asks the issuer again; undefined from one that gives none. */
  readonly refreshToken: string | undefined;
}

/** Claims of the issuer about a person. */
export type Claims = Readonly<Record<string, unknown>>;

/** Milliseconds that one request to the issuer may take. */
const REQUEST_MS = 5_000;
/** Age after which the discovery document is read again, milliseconds. */
const MAX_AGE_MS = 3_600_000;
/** Milliseconds to the next attempt after discovery failed. */
const RETRY_MS = 2_000;
/** Maximum bytes of a response of the issuer. */
const MAX_REPLY_BYTES = 1_048_576;

/** Creates the checks of a new flow. */
export function newChecks(): FlowChecks {
  return { state: client.randomState(), nonce: client.randomNonce(), verifier: client.randomPKCECodeVerifier() };
}

interface Discovered {
  readonly config: client.Configuration;
  readonly atMs: number;
}

/**
 * An OpenID Connect issuer. It is discovered at the first sign-in, so that the service starts without it. A failed discovery is
 * retried, and a document that was read once is used until a newer one can be read.
 */
export class OidcIssuer {
  readonly #options: IssuerOptions;
  readonly #now: () => number;
  #discovered: Discovered | undefined;
  #discovering: Promise<client.Configuration> | undefined;
  #failedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: IssuerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Returns the issuer's address that begins a flow. Rejects with an `OidcRefusal`. */
  async authorizationUrl({ state, nonce, verifier }: FlowChecks): Promise<URL> {
    const { redirectUri, scope } = this.#options;
    const config = await this.#config();
    const url = client.buildAuthorizationUrl(config, {
      redirect_uri: redirectUri,
      scope,
      state,
      nonce,
      response_type: "code",
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
    });
    assertSafe(url);
    return url;
  }

  /**
   * Exchanges the code in a response for the claims of a person, and a refresh token. Checks the signature, issuer, audience, expiry and nonce of the
   * ID token, and the state and issuer of the response. Rejects with an `OidcRefusal`, which contains nothing of the response.
   */
  async exchange(answer: URLSearchParams, checks: FlowChecks): Promise<Vouched> {
    const config = await this.#config();
    const callback = new URL(this.#options.redirectUri);
    callback.search = answer.toString();
    try {
      const tokens = await client.authorizationCodeGrant(config, callback, {
        expectedState: checks.state,
        expectedNonce: checks.nonce,
        pkceCodeVerifier: checks.verifier,
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (claims === undefined) throw new OidcRefusal("unproven");
      const { refresh_token: refreshToken } = tokens;
      if (!this.#lacks(claims) || config.serverMetadata().userinfo_endpoint === undefined)
        return { claims, refreshToken };
      const more = await client.fetchUserInfo(config, tokens.access_token, claims.sub);
      return { claims: { ...more, ...claims }, refreshToken };
    } catch (error) {
      throw refusalFrom(error);
    }
  }

  /**
   * Asks again about a person whose refresh token it gave. Groups come from a new ID token, else from the user info endpoint. Rejects
   * with an `OidcRefusal`: `ended` if the issuer no longer accepts the token, or speaks of another person.
   */
  async refresh(refreshToken: string, subject: string): Promise<Vouched> {
    const config = await this.#config();
    try {
      const tokens = await client.refreshTokenGrant(config, refreshToken);
      const claims = tokens.claims();
      if (claims !== undefined && claims.sub !== subject) throw new OidcRefusal("ended", "OTHER_SUBJECT");
      const next = tokens.refresh_token ?? refreshToken;
      if (claims?.[this.#options.groupsClaim] !== undefined) return { claims, refreshToken: next };
      if (config.serverMetadata().userinfo_endpoint === undefined) {
        // An ID token without groups says that there are none; no ID token says nothing.
        if (claims === undefined) throw new OidcRefusal("unproven", "NOTHING_SAID");
        return { claims, refreshToken: next };
      }
      const more = await client.fetchUserInfo(config, tokens.access_token, subject);
      return { claims: { ...more, ...claims }, refreshToken: next };
    } catch (error) {
      if (isEnd(error)) throw new OidcRefusal("ended", "invalid_grant");
      throw refusalFrom(error);
    }
  }

  /** True if the ID token lacks claims that the user info endpoint may have. */
  #lacks(claims: Claims): boolean {
    const hasName = claims.email !== undefined || claims.preferred_username !== undefined;
    return claims[this.#options.groupsClaim] === undefined || !hasName;
  }

  async #config(): Promise<client.Configuration> {
    const found = this.#discovered;
    if (found !== undefined && this.#now() - found.atMs < MAX_AGE_MS) return found.config;
    const isTooEarly = this.#now() - this.#failedAtMs < RETRY_MS;
    if (isTooEarly && this.#discovering === undefined) {
      if (found !== undefined) return found.config;
      throw new OidcRefusal("unreachable", "DISCOVERY_FAILED");
    }
    this.#discovering ??= this.#discover().finally(() => {
      this.#discovering = undefined;
    });
    try {
      return await this.#discovering;
    } catch (error) {
      if (found !== undefined) return found.config;
      throw new OidcRefusal("unreachable", codeOf(error));
    }
  }

  async #discover(): Promise<client.Configuration> {
    const { url, clientId, clientSecret, requestMs = REQUEST_MS } = this.#options;
    const issuer = new URL(url);
    const authenticate: client.ClientAuth = (server, ...rest) => clientAuth(server, clientSecret)(server, ...rest);
    // The ID token comes straight from the issuer; its signature is checked all the same.
    const execute = [client.enableNonRepudiationChecks];
    if (issuer.protocol === "http:") execute.push(client.allowInsecureRequests);
    try {
      const config = await client.discovery(issuer, clientId, undefined, authenticate, {
        timeout: requestMs / 1000,
        execute,
        [client.customFetch]: boundedFetch,
      });
      this.#discovered = { config, atMs: this.#now() };
      return config;
    } catch (error) {
      this.#failedAtMs = this.#now();
      throw error;
    }
  }
}

/** Chooses the client's authentication: HTTP Basic (RFC 6749 §2.3.1), unless the issuer only accepts the secret in the body. */
function clientAuth(server: client.ServerMetadata, secret: string): client.ClientAuth {
  const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
  return methods.includes("client_secret_basic") || !methods.includes("client_secret_post")
    ? client.ClientSecretBasic(secret)
    : client.ClientSecretPost(secret);
}

const LOOPBACK = /^(localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/;

/** Throws an `Error` for an address that is neither https nor on this host, since a discovery document may name any address. */
function assertSafe({ protocol, hostname }: URL): void {
  if (protocol === "https:" || (protocol === "http:" && LOOPBACK.test(hostname))) return;
  throw new OidcRefusal("unproven", "INSECURE_ENDPOINT");
}

/** Fetches a response of bounded size. */
const boundedFetch: client.CustomFetch = async (url, options) => {
  assertSafe(new URL(url));
  const { body, ...rest } = options;
  const response = await fetch(url, { ...rest, body: body as BodyInit | null | undefined } as RequestInit);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_REPLY_BYTES) throw new OidcRefusal("unreachable", "ANSWER_TOO_LARGE");
    chunks.push(chunk);
  }
  const { status, headers } = response;
  return new Response(bytes === 0 ? null : Buffer.concat(chunks), { status, headers });
};

/** Tests for the answer that a refresh token is no longer good (RFC 6749 §5.2). */
const isEnd = (error: unknown): boolean => error instanceof client.ResponseBodyError && error.error === "invalid_grant";

/** Codes of faults in reaching the issuer; other codes are faults of a response. */
const UNREACHABLE = /^(OAUTH_TIMEOUT|OAUTH_ABORT|OAUTH_RESPONSE_IS_NOT_(CONFORM|JSON))$/;

function refusalFrom(error: unknown): OidcRefusal {
  if (error instanceof OidcRefusal) return error;
  if ((error as { cause?: unknown }).cause instanceof OidcRefusal) return (error as { cause: OidcRefusal }).cause;
  const code = codeOf(error);
  if (error instanceof client.AuthorizationResponseError) return new OidcRefusal("denied", oauthCode(error.error));
  if (error instanceof client.ResponseBodyError) return new OidcRefusal("unproven", oauthCode(error.error));
  const fault: OidcFault = code === undefined || UNREACHABLE.test(code) ? "unreachable" : "unproven";
  return new OidcRefusal(fault, code);
}

/** Returns the library's code of an error. Message and cause are dropped, since they may quote tokens. */
function codeOf(error: unknown): string | undefined {
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" && /^[A-Z_]{1,64}$/.test(code) ? code : undefined;
}

const oauthCode = (text: string): string | undefined => (/^[a-z_]{1,64}$/.test(text) ? text : undefined);
